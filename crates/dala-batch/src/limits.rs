//! What a batcher may hold.

use std::time::Duration;

/// What a batcher may hold and run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Items of all requests that have not ended, those that run included. The default lane may use 90 percent of it, and the
    /// background lane 75: a full queue still takes what is urgent.
    pub items: u32,
    /// Bytes of the same, as the requests say. Lanes have the same shares.
    pub bytes: u64,
    /// The part of both, in percent, that one caller may have if it is the only one. Of several that send as much as they can
    /// each has as much, and room is left for one more: with 50 percent, one may have a half, and two a third each. Everybody
    /// may have one request.
    pub caller_percent: u32,
    /// Batches that may be with the device at a time: with two, the host prepares the next while the device works.
    pub slots: u32,
    /// How long before the device is expected to be free the next batch is made, where there is more than one slot. Until then
    /// requests gather.
    pub prepare: Duration,
    /// How long a device that became free may wait for callers that it just answered and that are known to send again at
    /// once. It waits only if all gain by that, and not at all where requests come each by itself.
    pub window: Duration,
    /// The same for a request that finds the device idle: with zero it never waits.
    pub linger: Duration,
    /// Whether the device lets a batch of a higher lane pass between the parts of one that runs: then such a batch is given out
    /// although all slots are taken, one at a time.
    pub overtakes: bool,
    /// How often a request may be with a device that was lost before it is given up: it may be what the device was lost by.
    pub losses: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            items: 4096,
            bytes: 1 << 30,
            caller_percent: 50,
            slots: 1,
            prepare: Duration::from_millis(1),
            window: Duration::from_millis(5),
            linger: Duration::ZERO,
            overtakes: false,
            losses: 2,
        }
    }
}
