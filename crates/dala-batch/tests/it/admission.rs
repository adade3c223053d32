//! Who is taken, and what is expected.

use std::time::Duration;

use dala_batch::{Batcher, Caller, End, Lane, Limits, Next, Outcome, Refusal, Request, Room};

use crate::by_hand::{CORES, at, batcher, known, ms, request, run, run_whole};

#[test]
fn whoever_cannot_be_in_time_is_told_at_once() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &CORES);
    for _ in 0..32 {
        batcher.offer(at(0), request(key)).unwrap();
    }
    let batch = run(&mut batcher, at(0));
    // Four batches of 74 ms, and its own.
    let refused = batcher.offer(at(0), Request { deadline: Some(at(250)), ..request(key) }).unwrap_err();
    let Refusal::TooLate { expected_wait } = refused.why else { panic!("{refused}") };
    assert!((ms(300)..ms(450)).contains(&expected_wait), "{expected_wait:?}");
    assert!((ms(50)..ms(200)).contains(&refused.retry_after), "{:?}", refused.retry_after);
    // Others are as long as it is before, and do not count for a caller of its own.
    batcher.offer(at(0), Request { deadline: Some(at(450)), ..request(key) }).unwrap();
    let fair = Request { deadline: Some(at(250)), caller: Caller(2), ..request(key) };
    batcher.offer(at(0), fair).unwrap();
    assert!(batcher.offer(at(0), Request { deadline: Some(at(0)), ..fair }).is_err());
    batcher.finished(at(74), batch.id, Outcome::Done);
}

/// What is known of a key may be wrong. Nobody is refused for ever because of that.
#[test]
fn wrong_expectations_are_found_out() {
    let mut batcher = batcher();
    let key = batcher.key([1, 8]);
    batcher.assume(key, 1, ms(60_000));
    let mut refused = 0;
    let mut now = at(0);
    for _ in 0..20 {
        batcher.offer(now, Request { deadline: Some(now + ms(50)), ..request(key) }).unwrap();
        refused += usize::from(batcher.offer(now, Request { deadline: Some(now + ms(50)), ..request(key) }).is_err());
        while let Next::Run(batch) = batcher.next(now) {
            now = now + ms(10);
            batcher.finished(now, batch.id, Outcome::Done);
        }
    }
    assert!((1..5).contains(&refused), "{refused} refused");
    assert!(batcher.take_ended().iter().all(|ended| ended.end == End::Done));
}

#[test]
fn room_is_bounded_for_all_and_for_each() {
    let limits = Limits { items: 100, bytes: 10_000, caller_percent: 50, ..Limits::default() };
    let mut batcher = Batcher::new(limits);
    let key = known(&mut batcher, &CORES);
    let of = |lane, caller, bytes| Request { lane, caller: Caller(caller), bytes, ..request(key) };
    for _ in 0..50 {
        batcher.offer(at(0), of(Lane::Background, 1, 1)).unwrap();
    }
    let full = |batcher: &mut Batcher, request| match batcher.offer(at(0), request).unwrap_err().why {
        Refusal::Full { whose, items, bytes, .. } => (whose, items, bytes),
        other => panic!("{other}"),
    };
    assert_eq!(full(&mut batcher, of(Lane::Background, 1, 1)), (Room::Caller(Caller(1)), 50, 50));
    assert_eq!(full(&mut batcher, of(Lane::Interactive, 1, 1)), (Room::Caller(Caller(1)), 50, 50));
    for _ in 0..25 {
        batcher.offer(at(0), of(Lane::Background, 2, 1)).unwrap();
    }
    assert_eq!(full(&mut batcher, of(Lane::Background, 2, 1)), (Room::Lane(Lane::Background), 75, 75));
    assert_eq!(full(&mut batcher, of(Lane::Default, 2, 9_000)), (Room::Lane(Lane::Default), 75, 75));
    for caller in 0..15 {
        batcher.offer(at(0), of(Lane::Default, 10 + caller, 1)).unwrap();
    }
    assert_eq!(full(&mut batcher, of(Lane::Default, 9, 1)), (Room::Lane(Lane::Default), 90, 90));
    batcher.offer(at(0), of(Lane::Interactive, 9, 1)).unwrap();
    assert_eq!(batcher.load(at(0)).room, [9, 0, 0]);
    assert_eq!(batcher.item_time(key), Some(Duration::from_micros(9_250)));
    // Whoever leaves makes room at once; those that run when their batch ended.
    let batch = run(&mut batcher, at(0));
    batcher.caller_gone(at(0), Caller(1));
    assert!(batcher.load(at(0)).queued_items <= 41);
    batcher.finished(at(80), batch.id, Outcome::Done);
    let left = batcher.take_ended().iter().filter(|ended| ended.end == End::Left).count();
    assert_eq!(left, 50);
}

/// However many send as much as they can: they have as much as each other, and one more has room.
#[test]
fn there_is_room_for_one_more_caller() {
    for floods in 1..10u64 {
        let mut batcher = Batcher::new(Limits { items: 1000, ..Limits::default() });
        let key = known(&mut batcher, &CORES);
        let mut held = vec![0u64; floods as usize];
        for step in 0..2000 {
            let caller = step % floods;
            let request = Request { lane: Lane::Interactive, caller: Caller(caller), ..request(key) };
            held[caller as usize] += u64::from(batcher.offer(at(0), request).is_ok());
        }
        let fair = 1000 / (floods + 1);
        assert!(held.iter().all(|held| held.abs_diff(fair) <= 2), "{held:?}");
        for _ in 0..fair / 2 - 1 {
            batcher.offer(at(0), Request { lane: Lane::Interactive, caller: Caller(99), ..request(key) }).unwrap();
        }
    }
}

/// A router sends a request to the one of two that says the shorter wait.
#[test]
fn loads_tell_which_is_shorter() {
    let (mut one, mut two) = (batcher(), batcher());
    let keys = [known(&mut one, &CORES), known(&mut two, &CORES)];
    for step in 0..100 {
        let shorter = usize::from(one.load(at(0)).expected_wait[1] > two.load(at(0)).expected_wait[1]);
        let batcher = if shorter == 0 { &mut one } else { &mut two };
        batcher.offer(at(0), Request { items: 1 + step % 4, ..request(keys[shorter]) }).unwrap();
    }
    let (one, two) = (one.load(at(0)), two.load(at(0)));
    assert_eq!(one.queued + two.queued, 100);
    assert!(one.queued_items.abs_diff(two.queued_items) <= 8, "{one:?} {two:?}");
    assert!(one.expected_wait[0] < one.expected_wait[1] && one.expected_wait[1] == one.expected_wait[2]);
}

/// What is expected of a lower lane counts what higher ones use.
#[test]
fn busy_lanes_above_are_expected_to_go_on() {
    let mut batcher = batcher();
    let (urgent, slow) = (known(&mut batcher, &CORES), known(&mut batcher, &CORES));
    // Of every tenth of a second the interactive lane needs 74 ms.
    for step in 0..100 {
        for _ in 0..8 {
            batcher.offer(at(100 * step), Request { lane: Lane::Interactive, ..request(urgent) }).unwrap();
        }
        run_whole(&mut batcher, at(100 * step));
    }
    for _ in 0..16 {
        batcher.offer(at(10_000), Request { lane: Lane::Background, ..request(slow) }).unwrap();
    }
    let (alone, beside) = (ms(2 * 74 + 11), batcher.expected_wait(at(10_000), slow, Lane::Background));
    assert!((alone * 2..alone * 5).contains(&beside), "{beside:?}");
    // Those above do not wait for those below, apart from their share.
    let above = batcher.expected_wait(at(10_000), slow, Lane::Interactive);
    assert!((ms(11)..ms(13)).contains(&above), "{above:?}");
}
