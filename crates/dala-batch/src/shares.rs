//! The small share of device time that lower lanes keep, and what higher ones leave them.

use crate::time::nanos;
use crate::{Lane, Time};

/// Nanoseconds over which it is measured how much of the device each lane uses.
const SPAN: f64 = 1e9;

/// Who had the device, and who is owed it.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Nanoseconds that each lane was kept from, of what it is guaranteed.
    owed: [u64; 3],
    /// The part of the last time that each lane needed the device, at its best.
    used: [f64; 3],
    last: Time,
}

impl Shares {
    pub(crate) fn owed(&self, lane: Lane) -> u64 {
        self.owed[lane.index()]
    }

    /// A batch kept the device busy for some nanoseconds, with items of these lanes. `next` says what the next batch of a lane
    /// takes, if it has one: no lane is owed more than that, so that none has two turns in a row. An item in a full batch takes
    /// `at_best`: a device that has time makes small ones, and is no less able to do more for that.
    pub(crate) fn count(&mut self, now: Time, busy: u64, at_best: u64, items: [u32; 3], next: [Option<u64>; 3]) {
        let all: u64 = items.iter().copied().map(u64::from).sum();
        let passed = (nanos(now.since(self.last)).max(busy) as f64).max(1.0);
        self.last = now;
        for lane in Lane::ALL {
            let items = u64::from(items[lane.index()]);
            let own = (u128::from(busy) * u128::from(items) / u128::from(all.max(1))) as u64;
            let (owed, used) = (&mut self.owed[lane.index()], &mut self.used[lane.index()]);
            *owed = match next[lane.index()] {
                None => 0,
                Some(_) if items > 0 => owed.saturating_sub(own),
                Some(next) => owed.saturating_add(busy / 100 * u64::from(lane.guaranteed_percent())).min(next),
            };
            *used += ((at_best * items) as f64 / passed - *used) * (passed / (passed + SPAN));
        }
    }

    /// The part of the device that higher lanes used of late.
    pub(crate) fn above(&self, lane: Lane) -> f64 {
        self.used.iter().take(lane.index()).sum::<f64>().min(1.0)
    }

    /// What so many nanoseconds of work that waits come to in a lane: others take a part of the device
    /// meanwhile, higher lanes what they use, and lower ones that wait what they are guaranteed.
    pub(crate) fn stretch(&self, lane: Lane, nanos: u64, waiting: [bool; 3]) -> u64 {
        let guaranteed = |lane: Lane| f64::from(lane.guaranteed_percent()) / 100.0;
        let higher = self.above(lane);
        let lower = Lane::ALL.into_iter().filter(|other| *other > lane && waiting[other.index()]);
        let left = 1.0 - higher - lower.map(guaranteed).sum::<f64>();
        (nanos as f64 / left.max(guaranteed(lane)).max(0.05)) as u64
    }
}
