//! Short ways to say what happens to a batcher.

use std::time::Duration;

use dala_batch::{Batch, Batcher, Caller, End, Ended, Key, Lane, Limits, Next, Outcome, Request, Sizes, Ticket, Time};

pub(crate) const CORES: [(u32, u64); 4] = [(1, 11), (2, 20), (4, 38), (8, 74)];
pub(crate) const GPU: [(u32, u64); 3] = [(1, 5), (8, 8), (32, 15)];

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

pub(crate) fn known(batcher: &mut Batcher, table: &[(u32, u64)]) -> Key {
    let key = batcher.key(Sizes::new(table.iter().map(|(size, _)| *size)));
    for (size, takes) in table {
        batcher.assume(key, *size, ms(*takes));
    }
    key
}

pub(crate) fn request(key: Key) -> Request {
    Request { key, lane: Lane::Default, caller: Caller(1), deadline: None, items: 1, bytes: 1 }
}

/// With room for everything, and no window.
pub(crate) fn batcher() -> Batcher {
    Batcher::new(Limits { items: 200_000, caller_percent: 100, window: Duration::ZERO, ..Limits::default() })
}

pub(crate) fn run(batcher: &mut Batcher, now: Time) -> Batch {
    match batcher.next(now) {
        Next::Run(batch) => batch,
        other => panic!("{other:?} at {now}"),
    }
}

/// Runs a batch for as long as it is expected to; gives the time after it.
pub(crate) fn run_whole(batcher: &mut Batcher, now: Time) -> (Batch, Time) {
    let batch = run(batcher, now);
    let end = now + batch.expected;
    batcher.finished(end, batch.id, Outcome::Done);
    (batch, end)
}

pub(crate) fn ends(ended: &[Ended]) -> Vec<(Ticket, End)> {
    ended.iter().map(|ended| (ended.ticket, ended.end)).collect()
}
