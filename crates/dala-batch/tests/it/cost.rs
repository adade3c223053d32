//! What a decision costs, whatever waits.

use std::fs;
use std::time::{Duration, Instant};

use dala_batch::{Batcher, Caller, Lane, Limits, Next, Outcome, Request, Time};

use crate::random::Random;

/// Nanoseconds that this thread had a processor, where the system says so: others may have it, too.
fn used(since: Instant) -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let own = told.and_then(|told| told.split(' ').next()?.parse().ok());
    own.unwrap_or_else(|| since.elapsed().as_nanos() as u64)
}

/// Nanoseconds for each request from offer to end, where so many always wait; the best of some rounds.
fn nanos_each(waiting: u32, callers: u64, sizes: &[u32]) -> u64 {
    let mut batcher = Batcher::new(Limits { items: waiting * 2, caller_percent: 100, ..Limits::default() });
    let keys = [0; 8].map(|_| batcher.key(dala_batch::Sizes::new(sizes.iter().copied())));
    let mut random = Random(1);
    let mut now = Time::default();
    let mut offer = |batcher: &mut Batcher, now: Time| {
        let slack = Duration::from_secs(100 + random.below(100));
        let request = Request {
            key: random.pick(&keys),
            lane: random.pick(&Lane::ALL),
            caller: Caller(random.below(callers)),
            deadline: random.chance(50).then(|| now + slack),
            items: 1,
            bytes: 1000,
        };
        batcher.offer(now, request).unwrap();
    };
    for _ in 0..waiting {
        offer(&mut batcher, now);
    }
    let (mut best, started) = (u64::MAX, Instant::now());
    for _ in 0..2 {
        let (before, mut ended) = (used(started), 0);
        while ended < 30_000 {
            let Next::Run(batch) = batcher.next(now) else { panic!("something waits") };
            now = now + Duration::from_micros(10);
            batcher.finished(now, batch.id, Outcome::Done);
            for _ in batcher.take_ended() {
                ended += 1;
                offer(&mut batcher, now);
            }
        }
        best = best.min((used(started) - before) / ended);
    }
    best
}

/// A hundred times as many requests that wait make a decision little dearer: what grows is the depth of trees, and what does
/// not fit the caches of the processor.
#[test]
fn decisions_cost_as_much_whatever_waits() {
    println!("| plans | callers | 1,000 wait: ns/request | 100,000 wait |\n|---|---|---|---|");
    for (sizes, callers) in [(&[1][..], 100), (&[1, 2, 4, 8], 100), (&[1, 8, 32], 1_000_000)] {
        let (few, many) = (nanos_each(1_000, callers, sizes), nanos_each(100_000, callers, sizes));
        println!("| {sizes:?} | {callers} | {few} | {many} |");
        assert!(many < 10 * few, "{few} ns with few, {many} ns with many");
    }
}
