//! Whether a device that is free should wait for more requests.

use std::time::Duration;

use crate::Time;
use crate::service::Service;

/// Of a mean of many, how much a new gap counts.
const GAIN: f64 = 1.0 / 16.0;

/// How fast items of a key come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<Time>,
    /// The mean gap between two items, in nanoseconds.
    gap: Option<f64>,
}

impl Arrivals {
    /// Items came together.
    pub(crate) fn count(&mut self, now: Time, items: u32) {
        if let Some(last) = self.last {
            let gap = now.since(last).as_nanos() as f64 / f64::from(items.max(1));
            self.gap = Some(self.gap.map_or(gap, |mean| mean + (gap - mean) * GAIN));
        }
        self.last = Some(now);
    }

    /// When the last came.
    pub(crate) fn last(&self) -> Option<Time> {
        self.last
    }

    /// Nanoseconds between two items, if enough is known.
    pub(crate) fn gap(&self) -> Option<f64> {
        self.gap
    }
}

/// How many nanoseconds all requests together gain if a free device waits for one more item, where `items` wait and the next
/// is expected after `gap`. Work that takes long enough gathers its own company, so this is seldom more than nothing.
///
/// Without the wait, the `n` items run now, the `m` that come meanwhile run after that, and the next item is one of them. With
/// it, the next item is answered with the first run, and saves the second; all others are answered later, by the gap and by
/// what the larger run takes more.
pub(crate) fn gain(service: &Service, items: u64, gap: f64) -> f64 {
    let (size, now) = service.fastest(items);
    let (larger, then) = service.fastest(items + 1);
    // More wait than are run, or would: the next item saves nothing.
    if u64::from(size) < items || u64::from(larger) <= items || gap <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let (now, then) = (now as f64, then as f64);
    let meanwhile = (now / gap).max(1.0);
    let second = service.time_for(meanwhile.min(1e9) as u64) as f64;
    let saved = now + second - gap - then;
    let later = gap + (then - now).max(0.0);
    saved - (items as f64 + meanwhile - 1.0) * later
}

/// Until when to wait at most: as long as two gaps after the last item, and half of the run after the device became free.
pub(crate) fn limit(service: &Service, items: u64, gap: f64, last: Time, free: Time) -> Time {
    let (_, run) = service.fastest(items);
    let gaps = last.max(free) + Duration::from_nanos((2.0 * gap) as u64);
    gaps.min(free + Duration::from_nanos(run / 2))
}
