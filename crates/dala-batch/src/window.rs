//! Whether a device that is free should wait for more requests.
//!
//! Where requests come each by itself it should not: those that come during a run gather for the next one, and a wait delays
//! them all. Callers that send again when they are answered come together, right after a batch ended; then a run that starts
//! with the first of them makes the others wait for a second one. So what counts is how many items usually come how soon after
//! a batch of their key, and that is measured.

use std::time::Duration;

use crate::Time;
use crate::service::Service;
use crate::time::nanos;

/// Of a mean of many, how much a new gap counts.
const GAIN: f64 = 1.0 / 16.0;

/// How many gaps tell something.
const ENOUGH: u32 = 8;

/// Spans after the end of a batch, as parts of the shortest run.
const SPANS: [u64; 4] = [64, 32, 16, 8];

/// Of those that were answered, how many must be known to come back.
const RETURN: f64 = 0.75;

/// How items of a key come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<Time>,
    /// The mean gap between two items, in nanoseconds, and of how many.
    gap: f64,
    gaps: u32,
    /// Items since the last batch ended, within each span.
    now: [u32; SPANS.len()],
    /// The same, after batches before: the mean of some.
    usual: [f64; SPANS.len()],
    /// Items of the last batch, and the mean of those before.
    answered: u32,
    usually_answered: f64,
}

/// A wait that is worth it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    /// How long after the end of the last batch it ends.
    pub(crate) span: Duration,
    /// Items that are expected by then.
    pub(crate) more: f64,
    /// What all requests gain together.
    pub(crate) gain: Duration,
}

impl Arrivals {
    /// Items came, so long after the last batch ended.
    pub(crate) fn count(&mut self, now: Time, items: u32, free: Option<Time>, service: &Service) {
        if let Some(last) = self.last {
            let gap = nanos(now.since(last)) as f64 / f64::from(items.max(1));
            self.gaps = self.gaps.saturating_add(1);
            self.gap += (gap - self.gap) * GAIN.max(1.0 / f64::from(self.gaps));
        }
        self.last = Some(now);
        if let Some(free) = free {
            let after = nanos(now.since(free));
            for (count, part) in self.now.iter_mut().zip(SPANS) {
                *count += if after <= service.least(1) / part { items } else { 0 };
            }
        }
    }

    /// A batch of so many items ended.
    pub(crate) fn end_batch(&mut self, items: u32) {
        for (usual, count) in self.usual.iter_mut().zip(&mut self.now) {
            *usual += (f64::from(std::mem::take(count)) - *usual) / 8.0;
        }
        self.usually_answered += (f64::from(self.answered) - self.usually_answered) / 8.0;
        self.answered = items;
    }

    /// Nanoseconds between two items, if enough is known: more than usual while none comes.
    pub(crate) fn gap(&self, now: Time) -> Option<f64> {
        let since = self.last.map_or(0.0, |last| nanos(now.since(last)) as f64);
        (self.gaps >= ENOUGH).then(|| self.gap.max(since))
    }

    /// The wait that gains most, if any does, where some items wait and the device has been free for so long.
    ///
    /// Without a wait the `n` items run now, as many as fit, and after them the `m` that come meanwhile. With it `k` of these are
    /// in the first run: all wait longer for that by the span and by what it takes more, and the `m` less by what the second
    /// takes less.
    pub(crate) fn worth(&self, service: &Service, items: u64, free_for: Duration) -> Option<Worth> {
        let most = u64::from(service.sizes().largest());
        if items >= most {
            return None;
        }
        let (size, run) = service.fastest(items);
        let left = items.saturating_sub(size.into()) as f64;
        let shortest = service.least(1);
        // After a large batch more come than after a small one.
        let share = f64::from(self.answered) / self.usually_answered.max(1.0);
        let usual = self.usual.last().map_or(0.0, |usual| usual * share);
        let later = if self.gaps >= ENOUGH { run as f64 / self.gap.max(1.0) } else { 0.0 };
        let mut best: Option<Worth> = None;
        for ((part, usual_then), came) in SPANS.into_iter().zip(self.usual).zip(self.now) {
            let span = shortest / part;
            let wait = span.saturating_sub(nanos(free_for));
            let expected = usual_then * share - f64::from(came);
            let together = (items + expected.round() as u64).min(most);
            let more = (together - items) as f64;
            let (larger, longer) = service.fastest(together);
            if wait == 0 || more == 0.0 || usual_then < RETURN * self.usually_answered || u64::from(larger) < together {
                continue;
            }
            let meanwhile = later.max(usual - f64::from(came)).max(expected);
            let second = |items: f64| items * service.time_for(items.round() as u64) as f64;
            let all_later = (items as f64 + meanwhile) * (wait as f64 + longer as f64 - run as f64);
            let gain = second(left + meanwhile) - second(meanwhile - more) - all_later;
            if gain > best.map_or(0.0, |best| nanos(best.gain) as f64) {
                best = Some(Worth { span: Duration::from_nanos(span), more, gain: Duration::from_nanos(gain as u64) });
            }
        }
        best
    }
}
