//! What a connection waits for, and since when: whether for its client, or for us.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Limits;

/// Who sends or takes at least so much may go on.
pub(crate) const BYTES_PER_SECOND: u64 = 64 << 10;

/// How long a connection that is being closed is still read from, so that its client sees the last answer.
const LINGERS: Duration = Duration::from_secs(2);

/// What a connection waits for. Kept as plain numbers, so that it costs requests next to nothing.
#[derive(Debug)]
pub(crate) struct Pulse {
    start: Instant,
    /// Whether many requests share it, so that bytes between requests say nothing.
    is_shared: bool,
    /// Requests that are read or worked on.
    requests: AtomicU32,
    /// Those of them whose client has not sent all of the body.
    awaited: AtomicU32,
    /// Times are milliseconds since the start; 0 for never.
    head_since: AtomicU64,
    idle_since: AtomicU64,
    blocked_since: AtomicU64,
    blocked_bytes: AtomicU64,
    closing_since: AtomicU64,
    /// By how much tests have put the clock forward.
    #[cfg(test)]
    ahead: AtomicU64,
}

impl Pulse {
    pub(crate) fn new(is_shared: bool) -> Pulse {
        Pulse {
            start: Instant::now(),
            is_shared,
            requests: AtomicU32::new(0),
            awaited: AtomicU32::new(0),
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(1),
            blocked_since: AtomicU64::new(0),
            blocked_bytes: AtomicU64::new(0),
            closing_since: AtomicU64::new(0),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start);
        #[cfg(test)]
        let passed = passed + Duration::from_millis(self.ahead.load(Ordering::Relaxed));
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Bytes came. Between requests, they are the beginning of the next.
    pub(crate) fn received(&self) {
        let is_between = self.requests.load(Ordering::Relaxed) == 0 && !self.is_shared;
        if is_between && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The client does not take what is written.
    pub(crate) fn blocked(&self) {
        if self.blocked_since.load(Ordering::Relaxed) == 0 {
            self.blocked_bytes.store(0, Ordering::Relaxed);
            self.blocked_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The client took some of what is written.
    pub(crate) fn sent(&self, bytes: usize) {
        if self.blocked_since.load(Ordering::Relaxed) != 0 {
            self.blocked_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Everything that was written is on its way.
    pub(crate) fn flushed(&self) {
        if self.blocked_since.load(Ordering::Relaxed) != 0 {
            self.blocked_since.store(0, Ordering::Relaxed);
        }
    }

    /// Nothing more will be written.
    pub(crate) fn closing(&self) {
        let _before = self.closing_since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A request came; it lasts until what is returned is dropped.
    pub(crate) fn request(&self) -> Request<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        Request(self)
    }

    /// A request waits for its client; it does until what is returned is dropped.
    pub(crate) fn awaits(&self) -> Awaits<'_> {
        self.idle_since.store(self.now(), Ordering::Relaxed);
        self.awaited.fetch_add(1, Ordering::Relaxed);
        Awaits(self)
    }

    /// Requests that are read or worked on.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How long it has been waiting for its client by then, if nothing else is to be done.
    pub(crate) fn waits_for_client(&self, now: Instant) -> Option<Duration> {
        let is_waiting = self.requests.load(Ordering::Relaxed) == self.awaited.load(Ordering::Relaxed);
        let head = self.head_since.load(Ordering::Relaxed);
        let since = if head > 0 { head } else { self.idle_since.load(Ordering::Relaxed) };
        is_waiting.then(|| Duration::from_millis(self.at(now).saturating_sub(since)))
    }

    /// Whether its client kept it waiting longer than allowed. Bodies are timed where they are read.
    pub(crate) fn is_overdue(&self, limits: &Limits) -> bool {
        let now = self.now();
        let passed = |since: &AtomicU64| match since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis(now.saturating_sub(since)),
        };
        let earned = Duration::from_secs(self.blocked_bytes.load(Ordering::Relaxed) / BYTES_PER_SECOND);
        let is_idle = self.requests() == 0;
        passed(&self.blocked_since) > limits.patience + earned
            || passed(&self.closing_since) > LINGERS
            || is_idle && passed(&self.head_since) > limits.head
            || is_idle && passed(&self.idle_since) > limits.idle
    }
}

/// A request that is read or worked on.
pub(crate) struct Request<'a>(&'a Pulse);

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that waits for its client.
pub(crate) struct Awaits<'a>(&'a Pulse);

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn limits() -> Limits {
        Limits { head: HOUR, idle: 3 * HOUR, patience: HOUR, ..Limits::default() }
    }

    impl Pulse {
        /// Two hours pass, whatever else the machine does.
        fn wait(&self) {
            self.ahead.fetch_add(2 * HOUR.as_millis() as u64, Ordering::Relaxed);
        }
    }

    #[test]
    fn heads_must_come() {
        let pulse = Pulse::new(false);
        assert!(!pulse.is_overdue(&limits()));
        pulse.wait();
        assert!(pulse.is_overdue(&limits()), "nothing came");
        let request = pulse.request();
        assert!(!pulse.is_overdue(&limits()), "we are working on it");
        assert_eq!(pulse.waits_for_client(Instant::now()), None);
        let awaits = pulse.awaits();
        assert!(pulse.waits_for_client(Instant::now()).is_some(), "its body has not come");
        drop((awaits, request));
        pulse.wait();
        assert!(!pulse.is_overdue(&limits()), "it may be idle for longer");
        pulse.received();
        assert!(!pulse.is_overdue(&limits()));
        pulse.wait();
        assert!(pulse.is_overdue(&limits()), "it began a request, and did not go on");
    }

    #[test]
    fn answers_must_be_taken() {
        let pulse = Pulse::new(false);
        let _request = pulse.request();
        pulse.blocked();
        pulse.wait();
        assert!(pulse.is_overdue(&limits()));
        pulse.sent(2 * HOUR.as_secs() as usize * BYTES_PER_SECOND as usize);
        assert!(!pulse.is_overdue(&limits()), "it takes as much as it must");
        pulse.flushed();
        pulse.wait();
        assert!(!pulse.is_overdue(&limits()));
    }

    #[test]
    fn connections_end() {
        let shared = Pulse::new(true);
        drop(shared.request());
        shared.received();
        shared.wait();
        assert!(!shared.is_overdue(&limits()), "bytes between requests are not the beginning of one");
        shared.wait();
        assert!(shared.is_overdue(&limits()), "idle");
    }
}
