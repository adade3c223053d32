//! The small share of device time that lower lanes keep.

use crate::Lane;

/// Nanoseconds that each lane was kept from, of what it is guaranteed.
#[derive(Debug, Default)]
pub(crate) struct Shares([u64; 3]);

impl Shares {
    pub(crate) fn owed(&self, lane: Lane) -> u64 {
        self.0[lane.index()]
    }

    /// A batch kept the device busy for some nanoseconds, with items of these lanes. `next` says what the next batch of a lane
    /// takes, if it has one: no lane is owed more than that, so that none has two turns in a row.
    pub(crate) fn count(&mut self, busy: u64, items: [u32; 3], next: [Option<u64>; 3]) {
        let all: u64 = items.iter().copied().map(u64::from).sum();
        for lane in Lane::ALL {
            let (owed, items) = (&mut self.0[lane.index()], u64::from(items[lane.index()]));
            *owed = match next[lane.index()] {
                None => 0,
                Some(_) if items > 0 => {
                    owed.saturating_sub((u128::from(busy) * u128::from(items) / u128::from(all)) as u64)
                }
                Some(next) => owed.saturating_add(busy / 100 * u64::from(lane.guaranteed_percent())).min(next),
            };
        }
    }
}
