//! All connections: who must go because its client keeps still, and who makes room for another.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use crate::Limits;
use crate::front::pulse::Pulse;
use crate::front::shared::Shared;

/// How long connections may do nothing once the server ends.
const WHILE_ENDING: Duration = Duration::from_secs(2);

/// All connections that are open.
pub(crate) struct Connections {
    shared: Arc<Shared>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    all: HashMap<u64, Connection>,
}

struct Connection {
    pulse: Arc<Pulse>,
    /// Not there until its task is.
    task: Option<AbortHandle>,
}

/// A connection's place among all; given back when it is dropped.
pub(crate) struct Seat {
    pub(crate) number: u64,
    connections: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Connections> {
        Arc::new(Connections { shared, open: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more. If all are taken, the connection goes that has waited longest for its client; if none waits for a
    /// client, there is no place.
    pub(crate) fn seat(self: &Arc<Connections>, pulse: Arc<Pulse>) -> Option<Seat> {
        let mut open = self.lock();
        if open.all.len() >= self.shared.limits.connections {
            let (now, waits) = (Instant::now(), open.all.iter());
            let longest = longest(waits.filter_map(|(number, one)| Some((*number, one.pulse.waits_for_client(now)?))))?;
            self.shed(open.all.remove(&longest));
        }
        open.last += 1;
        let number = open.last;
        open.all.insert(number, Connection { pulse, task: None });
        drop(open);
        self.shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
        self.count();
        Some(Seat { number, connections: self.clone() })
    }

    /// Which task carries it, so that it can be ended.
    pub(crate) fn carried_by(&self, number: u64, task: AbortHandle) {
        match self.lock().all.get_mut(&number) {
            Some(connection) => connection.task = Some(task),
            // It had to go before it began, or has ended already.
            None => task.abort(),
        }
    }

    fn shed(&self, connection: Option<Connection>) {
        // Before its client can know.
        self.shared.metrics.shed.fetch_add(1, Ordering::Relaxed);
        if let Some(task) = connection.and_then(|connection| connection.task) {
            task.abort();
        }
    }

    fn count(&self) {
        self.shared.connections.store(self.lock().all.len(), Ordering::Relaxed);
    }

    /// Closes those whose clients kept them waiting longer than allowed.
    pub(crate) fn sweep(&self) {
        let limits = &self.shared.limits;
        let ending = Limits { head: WHILE_ENDING, idle: WHILE_ENDING, ..limits.clone() };
        let limits = if self.shared.closing.load(Ordering::Acquire) { &ending } else { limits };
        let overdue: Vec<Connection> = {
            let mut open = self.lock();
            open.all.extract_if(|_, connection| connection.pulse.is_overdue(limits)).map(|(_, gone)| gone).collect()
        };
        if !overdue.is_empty() {
            overdue.into_iter().for_each(|connection| self.shed(Some(connection)));
            self.count();
        }
    }

    /// Requests that are read or worked on.
    pub(crate) fn requests(&self) -> u32 {
        self.lock().all.values().map(|connection| connection.pulse.requests()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Closes what is left.
    pub(crate) fn close(&self) {
        let left = std::mem::take(&mut self.lock().all);
        left.into_values().filter_map(|connection| connection.task).for_each(|task| task.abort());
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.count();
    }
}

/// Who has waited longest; of those that began in the same moment, the oldest.
fn longest(waits: impl Iterator<Item = (u64, Duration)>) -> Option<u64> {
    waits.max_by_key(|(number, waited)| (*waited, Reverse(*number))).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_that_waited_longest_goes() {
        let of = |waits: &[(u64, u64)]| {
            longest(waits.iter().map(|(number, millis)| (*number, Duration::from_millis(*millis))))
        };
        assert_eq!(of(&[(7, 1), (3, 5), (9, 5), (4, 5), (1, 0)]), Some(3));
        assert_eq!(of(&[]), None);
    }
}
