//! Each rule by itself.

use std::time::Duration;

use dala_batch::{
    Batch, Batcher, Caller, End, Ended, Event, Key, Lane, Limits, Next, Outcome, Refusal, Request, Room, Sizes, Ticket,
    Time,
};

const CORES: [(u32, u64); 4] = [(1, 11), (2, 20), (4, 38), (8, 74)];
const GPU: [(u32, u64); 3] = [(1, 5), (8, 8), (32, 15)];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

fn known(batcher: &mut Batcher, table: &[(u32, u64)]) -> Key {
    let key = batcher.key(Sizes::new(table.iter().map(|(size, _)| *size)));
    for (size, takes) in table {
        batcher.assume(key, *size, ms(*takes));
    }
    key
}

fn request(key: Key) -> Request {
    Request { key, lane: Lane::Default, caller: Caller(1), deadline: None, items: 1, bytes: 1 }
}

/// With room for everything, and no window.
fn batcher() -> Batcher {
    Batcher::new(Limits { items: 200_000, caller_percent: 100, window: Duration::ZERO, ..Limits::default() })
}

fn run(batcher: &mut Batcher, now: Time) -> Batch {
    match batcher.next(now) {
        Next::Run(batch) => batch,
        other => panic!("{other:?} at {now}"),
    }
}

/// Runs a batch for as long as it is expected to; gives the time after it.
fn run_whole(batcher: &mut Batcher, now: Time) -> (Batch, Time) {
    let batch = run(batcher, now);
    let end = now + batch.expected;
    batcher.finished(end, batch.id, Outcome::Done);
    (batch, end)
}

fn ends(ended: &[Ended]) -> Vec<(Ticket, End)> {
    ended.iter().map(|ended| (ended.ticket, ended.end)).collect()
}

#[test]
fn a_lone_request_on_an_idle_device_runs_at_once() {
    let mut batcher = Batcher::new(Limits::default());
    let key = known(&mut batcher, &GPU);
    let mut now = at(0);
    for step in 0..500u64 {
        let ticket = batcher.offer(now, request(key)).unwrap();
        let batch = run(&mut batcher, now);
        assert_eq!((batch.size, &batch.tickets[..]), (1, &[ticket][..]));
        // Others come, or come back, at any time.
        let others = step % 9;
        for _ in 0..others {
            batcher.offer(now, request(key)).unwrap();
        }
        now = now + batch.expected;
        batcher.finished(now, batch.id, Outcome::Done);
        while !batcher.is_empty() {
            now = match batcher.next(now) {
                Next::Run(batch) => {
                    batcher.finished(now + batch.expected, batch.id, Outcome::Done);
                    now + batch.expected
                }
                Next::WaitUntil(until) => until,
                Next::Idle => panic!("something waits"),
            };
        }
        now = now + Duration::from_micros(step * 37 % 400);
    }
}

#[test]
fn the_size_is_the_cheapest_for_each_item() {
    for (table, waiting, sizes) in [
        (&CORES[..], 1, &[1][..]),
        (&CORES, 3, &[2, 1]),
        (&CORES, 5, &[4, 1]),
        (&CORES, 7, &[4, 2, 1]),
        (&CORES, 19, &[8, 8, 2, 1]),
        // One in a plan of eight takes longer than alone, and two do not.
        (&GPU, 1, &[1]),
        (&GPU, 2, &[8]),
        (&GPU, 9, &[8, 1]),
        (&GPU, 15, &[8, 8]),
        (&GPU, 16, &[32]),
        (&GPU, 33, &[32, 1]),
    ] {
        let mut batcher = batcher();
        let key = known(&mut batcher, table);
        for _ in 0..waiting {
            batcher.offer(at(0), request(key)).unwrap();
        }
        let mut now = at(0);
        for size in sizes {
            let (batch, end) = run_whole(&mut batcher, now);
            assert_eq!(batch.size, *size, "{waiting} items");
            now = end;
        }
        assert!(batcher.is_empty());
    }
}

#[test]
fn items_of_a_request_stay_together() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &CORES);
    let of = |batcher: &mut Batcher, items| batcher.offer(at(0), Request { items, ..request(key) }).unwrap();
    let (five, four, three) = (of(&mut batcher, 5), of(&mut batcher, 4), of(&mut batcher, 3));
    let (batch, now) = run_whole(&mut batcher, at(0));
    assert_eq!((batch.size, batch.tickets), (8, vec![five, three]));
    assert_eq!(run(&mut batcher, now).tickets, [four]);
    let refused = batcher.offer(now, Request { items: 9, ..request(key) }).unwrap_err();
    assert_eq!(refused.why, Refusal::TooLarge { items: 8, bytes: 1 << 30 });
}

/// Ten thousand requests of one caller keep no other waiting for more than a turn of each.
#[test]
fn a_flood_does_not_keep_others_waiting() {
    let mut batcher = batcher();
    let keys = [known(&mut batcher, &CORES), known(&mut batcher, &CORES)];
    for key in keys {
        for _ in 0..5_000 {
            batcher.offer(at(0), request(key)).unwrap();
        }
    }
    let mut now = at(0);
    for step in 0..100u64 {
        let caller = Caller(2 + step % 3);
        let key = keys[step as usize % 2];
        let ticket = batcher.offer(now, Request { caller, ..request(key) }).unwrap();
        let said = batcher.expected_wait(now, key, Lane::Default);
        let (offered, mut batches) = (now, 0);
        loop {
            let (batch, end) = run_whole(&mut batcher, now);
            (now, batches) = (end, batches + 1);
            if batch.tickets.contains(&ticket) {
                break;
            }
        }
        assert!(batches <= 3, "{batches} batches");
        let took = now.since(offered);
        assert!(said < took * 4 && took < said * 4, "said {said:?}, took {took:?}");
    }
}

/// Callers that all send as much as they can get as much, whatever the size of their requests.
#[test]
fn callers_get_as_much() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &CORES);
    let mut got = [0u32; 4];
    for caller in 0..4u32 {
        for _ in 0..2000 / (caller + 1) {
            let request = Request { caller: Caller(caller.into()), items: caller + 1, ..request(key) };
            batcher.offer(at(0), request).unwrap();
        }
    }
    let mut now = at(0);
    while got.iter().sum::<u32>() < 4000 {
        (_, now) = run_whole(&mut batcher, now);
        for ended in batcher.take_ended() {
            got[ended.request.caller.0 as usize] += ended.request.items;
        }
        let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
        assert!(most - least <= 3 * 8, "{got:?}");
    }
}

#[test]
fn earlier_deadlines_go_first() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &[(1, 10)]);
    let mut of = |deadline: Option<u64>, caller| {
        let request = Request { deadline: deadline.map(at), caller: Caller(caller), ..request(key) };
        batcher.offer(at(0), request).unwrap()
    };
    let (none, late, soon, sooner) = (of(None, 1), of(Some(900), 2), of(Some(500), 3), of(Some(100), 3));
    let mut now = at(0);
    for ticket in [sooner, soon, late, none] {
        let (batch, end) = run_whole(&mut batcher, now);
        assert_eq!(batch.tickets, [ticket]);
        now = end;
    }
}

/// Lower lanes have what is left, and their share in any case.
#[test]
fn lanes_keep_their_shares() {
    let mut batcher = batcher();
    // Of keys of their own, so that none is in a batch of another.
    let keys = Lane::ALL.map(|_| known(&mut batcher, &CORES));
    let (mut now, mut busy, mut held) = (at(0), [Duration::ZERO; 3], [0; 3]);
    let mut longest_pause = Duration::ZERO;
    let mut last = at(0);
    for _ in 0..2000 {
        for lane in Lane::ALL {
            while held[lane.index()] < 64 {
                held[lane.index()] += 1;
                batcher.offer(now, Request { lane, ..request(keys[lane.index()]) }).unwrap();
            }
        }
        let (batch, end) = run_whole(&mut batcher, now);
        let lane = keys.iter().position(|key| *key == batch.key).unwrap();
        held[lane] -= batch.tickets.len();
        busy[lane] += batch.expected;
        now = end;
        if lane == 2 {
            longest_pause = longest_pause.max(now.since(last));
            last = now;
        }
    }
    let share = |lane: Lane| busy[lane.index()].as_secs_f64() / now.0.as_secs_f64();
    assert!(share(Lane::Interactive) > 0.8, "{busy:?}");
    assert!((0.08..0.12).contains(&share(Lane::Default)), "{busy:?}");
    assert!((0.04..0.06).contains(&share(Lane::Background)), "{busy:?}");
    // A batch of 74 ms at five percent.
    assert!(longest_pause < ms(2000), "{longest_pause:?}");
}

#[test]
fn a_higher_lane_waits_for_one_batch_only() {
    let mut batcher = batcher();
    let keys = [known(&mut batcher, &CORES), known(&mut batcher, &CORES)];
    for step in 0..1000 {
        batcher.offer(at(0), Request { lane: Lane::Background, ..request(keys[step % 2]) }).unwrap();
    }
    let (_, now) = run_whole(&mut batcher, at(0));
    let urgent = batcher.offer(now, Request { lane: Lane::Interactive, ..request(keys[0]) }).unwrap();
    let batch = run(&mut batcher, now);
    // Where a batch costs nearly as much as its items, nobody makes it longer.
    assert_eq!((batch.size, batch.tickets), (1, vec![urgent]));
}

#[test]
fn lower_lanes_fill_what_is_left_and_more_where_it_costs_little() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &GPU);
    let of = |batcher: &mut Batcher, lane| batcher.offer(at(0), Request { lane, ..request(key) }).unwrap();
    let background: Vec<Ticket> = (0..100).map(|_| of(&mut batcher, Lane::Background)).collect();
    let urgent = of(&mut batcher, Lane::Interactive);
    let (batch, now) = run_whole(&mut batcher, at(0));
    // Eight take 8 ms where one takes 5; thirty-two would take 15.
    assert_eq!((batch.size, batch.tickets.len(), batch.tickets[0]), (8, 8, urgent));
    assert_eq!(batch.tickets[1..], background[..7]);
    assert_eq!(run(&mut batcher, now).size, 32);
}

#[test]
fn no_key_starves() {
    let mut batcher = batcher();
    let keys: Vec<Key> = (0..100).map(|_| known(&mut batcher, &CORES)).collect();
    let mut now = at(0);
    let mut last = vec![at(0); keys.len()];
    for step in 0..3000 {
        // The first key always has more than a batch; each of the others has one now and then.
        for _ in 0..8 {
            batcher.offer(now, Request { caller: Caller(step), ..request(keys[0]) }).unwrap();
        }
        let key = keys[1 + step as usize % 99];
        batcher.offer(now, Request { caller: Caller(1_000_000 + step), ..request(key) }).unwrap();
        if batcher.load(now).queued > 2000 {
            batcher.caller_gone(now, Caller(step));
        }
        let (batch, end) = run_whole(&mut batcher, now);
        now = end;
        last[keys.iter().position(|key| *key == batch.key).unwrap()] = now;
    }
    let mut ended = batcher.take_ended();
    ended.retain(|ended| ended.end == End::Done);
    let longest = |first: bool| {
        let of = ended.iter().filter(|ended| (ended.request.key == keys[0]) == first);
        of.map(|ended| ended.took).max().unwrap()
    };
    assert!(longest(false) < longest(true) * 3 / 2, "{:?} beside {:?}", longest(false), longest(true));
}

#[test]
fn only_the_culprit_fails() {
    for count in 1..=8usize {
        for culprit in 0..count {
            let mut batcher = batcher();
            let key = known(&mut batcher, &GPU);
            let tickets: Vec<Ticket> = (0..count).map(|_| batcher.offer(at(0), request(key)).unwrap()).collect();
            // One that waits behind is not kept from its turn for ever, and does not get in between.
            let (mut now, mut runs) = (at(0), 0);
            let mut later = None;
            while batcher.load(now).queued > 0 {
                let batch = run(&mut batcher, now);
                later.get_or_insert_with(|| batcher.offer(now, request(key)).unwrap());
                let fails = batch.tickets.contains(&tickets[culprit]);
                now = now + batch.expected;
                batcher.finished(now, batch.id, if fails { Outcome::Failed } else { Outcome::Done });
                runs += 1;
            }
            for ended in batcher.take_ended() {
                let expected = if ended.ticket == tickets[culprit] { End::Failed } else { End::Done };
                assert_eq!(ended.end, expected, "{count} requests, the {culprit}th");
                assert!(f64::from(ended.runs) <= (count as f64).log2().ceil() + 1.0);
            }
            assert!(runs <= 2 * 3 + 2, "{runs} runs");
            assert!(batcher.holds_nothing());
        }
    }
}

#[test]
fn a_lost_device_is_tried_again_and_given_up() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &GPU);
    let tickets: Vec<Ticket> = (0..4).map(|_| batcher.offer(at(0), request(key)).unwrap()).collect();
    let batch = run(&mut batcher, at(0));
    batcher.finished(at(1), batch.id, Outcome::Lost);
    assert_eq!(batcher.take_ended(), []);
    let first = run(&mut batcher, at(1));
    assert_eq!(first.tickets, tickets[..2]);
    batcher.finished(at(2), first.id, Outcome::Lost);
    assert_eq!(ends(&batcher.take_ended()), [(tickets[0], End::Lost), (tickets[1], End::Lost)]);
    let second = run(&mut batcher, at(2));
    batcher.finished(at(9), second.id, Outcome::Done);
    assert_eq!(ends(&batcher.take_ended()), [(tickets[2], End::Done), (tickets[3], End::Done)]);
}

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

#[test]
fn what_became_too_late_costs_no_run() {
    let mut batcher = batcher();
    let (key, slow) = (known(&mut batcher, &CORES), known(&mut batcher, &[(1, 20)]));
    batcher.offer(at(0), request(slow)).unwrap();
    let batch = run(&mut batcher, at(0));
    let soon = batcher.offer(at(1), Request { deadline: Some(at(40)), ..request(key) }).unwrap();
    let later = batcher.offer(at(1), Request { deadline: Some(at(100)), ..request(key) }).unwrap();
    // A run takes 11 ms: after that it is too late, and whoever waits is told then.
    assert_eq!(batcher.next(at(1)), Next::WaitUntil(Time(ms(29) + Duration::from_nanos(1))));
    assert_eq!(batcher.next(at(29)), Next::WaitUntil(Time(ms(29) + Duration::from_nanos(1))));
    assert_eq!(batcher.take_ended(), []);
    batcher.next(at(30));
    assert_eq!(ends(&batcher.take_ended()), [(soon, End::Expired)]);
    batcher.finished(at(85), batch.id, Outcome::Done);
    batcher.take_ended();
    // The other has 15 ms left: enough for a run of one, not of two.
    batcher.offer(at(85), request(key)).unwrap();
    assert_eq!(run(&mut batcher, at(85)).tickets, [later]);
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
    // Whoever leaves makes room at once; those that run when their batch ended.
    let batch = run(&mut batcher, at(0));
    batcher.caller_gone(at(0), Caller(1));
    assert!(batcher.load(at(0)).queued_items <= 41);
    batcher.finished(at(80), batch.id, Outcome::Done);
    let left = batcher.take_ended().iter().filter(|ended| ended.end == End::Left).count();
    assert_eq!(left, 50);
}

#[test]
fn answers_of_those_who_left_are_dropped() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &GPU);
    let first = batcher.offer(at(0), request(key)).unwrap();
    let second = batcher.offer(at(0), request(key)).unwrap();
    let batch = run(&mut batcher, at(0));
    batcher.gone(at(1), first);
    batcher.gone(at(2), first);
    assert_eq!(batcher.take_ended(), []);
    batcher.finished(at(8), batch.id, Outcome::Failed);
    assert_eq!(ends(&batcher.take_ended()), [(first, End::Left)]);
    // It failed, but not alone.
    let batch = run(&mut batcher, at(8));
    assert_eq!(batch.tickets, [second]);
    batcher.finished(at(13), batch.id, Outcome::Done);
    assert_eq!(ends(&batcher.take_ended()), [(second, End::Done)]);
    batcher.gone(at(14), second);
    assert!(batcher.holds_nothing());
}

#[test]
fn forgotten_keys_take_their_requests_along() {
    let mut batcher = batcher();
    let (key, other) = (known(&mut batcher, &GPU), known(&mut batcher, &GPU));
    let runs = batcher.offer(at(0), request(key)).unwrap();
    let batch = run(&mut batcher, at(0));
    let waits = batcher.offer(at(1), Request { deadline: Some(at(900)), ..request(key) }).unwrap();
    let stays = batcher.offer(at(1), request(other)).unwrap();
    batcher.forget(at(2), key);
    assert_eq!(ends(&batcher.take_ended()), [(waits, End::Unloaded)]);
    assert_eq!(batcher.offer(at(2), request(key)).unwrap_err().why, Refusal::UnknownKey);
    batcher.finished(at(5), batch.id, Outcome::Done);
    assert_eq!(ends(&batcher.take_ended()), [(runs, End::Done)]);
    assert_eq!(run(&mut batcher, at(5)).tickets, [stays]);
    // A key that comes after it is another one.
    assert_ne!(known(&mut batcher, &GPU), key);
}

#[test]
fn draining_runs_what_waits() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &CORES);
    for _ in 0..3 {
        batcher.offer(at(0), request(key)).unwrap();
    }
    batcher.drain(at(0));
    assert_eq!(batcher.offer(at(0), request(key)).unwrap_err().why, Refusal::Draining);
    let (_, now) = run_whole(&mut batcher, at(0));
    assert!(!batcher.is_empty());
    run_whole(&mut batcher, now);
    assert!(batcher.is_empty() && batcher.load(now).draining);
    assert_eq!(batcher.take_ended().len(), 3);
}

/// With two slots the next batch is made just before the device is free, or when it is full.
#[test]
fn a_second_batch_is_prepared_while_the_first_runs() {
    let mut batcher = Batcher::new(Limits { slots: 2, prepare: ms(2), ..Limits::default() });
    let key = known(&mut batcher, &GPU);
    batcher.offer(at(0), request(key)).unwrap();
    let first = run(&mut batcher, at(0));
    for _ in 0..3 {
        batcher.offer(at(1), request(key)).unwrap();
    }
    assert_eq!(batcher.next(at(1)), Next::WaitUntil(at(3)));
    let second = run(&mut batcher, at(3));
    assert_eq!(second.tickets.len(), 3);
    assert_eq!(batcher.next(at(3)), Next::Idle);
    batcher.finished(at(5), first.id, Outcome::Done);
    // It took 8 ms, and not ten.
    batcher.finished(at(13), second.id, Outcome::Done);
    assert_eq!(batcher.service_time(key, 8), Some(ms(8)));
    for _ in 0..100 {
        batcher.offer(at(20), request(key)).unwrap();
    }
    let sizes = [run(&mut batcher, at(20)).size, run(&mut batcher, at(20)).size];
    assert_eq!(sizes, [32, 32]);
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &CORES);
    for lane in Lane::ALL {
        for _ in 0..1000 {
            let deadline = Some(at(3_000_000));
            let request = Request { lane, deadline, caller: Caller(lane.index() as u64), ..request(key) };
            batcher.offer(at(0), request).unwrap();
        }
    }
    let batch = run(&mut batcher, at(0));
    let years = Time(Duration::from_secs(1 << 40));
    // All are too late, and one call does not end them all.
    batcher.finished(years, batch.id, Outcome::Done);
    let mut calls = 0;
    while let Next::WaitUntil(until) = batcher.next(years) {
        assert!(until <= years);
        assert!(batcher.take_ended().len() <= 3 * 256);
        calls += 1;
    }
    assert!((5..100).contains(&calls), "{calls} calls");
    assert!(batcher.holds_nothing());
    // Back is no way to go, and the end of time is not the end.
    for now in [at(5), Time(Duration::MAX), at(7)] {
        batcher.offer(now, request(key)).unwrap();
        let batch = run(&mut batcher, now);
        batcher.finished(now, batch.id, Outcome::Done);
        let _ = (batcher.load(now), batcher.expected_wait(now, key, Lane::Background));
    }
    assert!(batcher.service_time(key, 1).unwrap() < ms(100));
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

#[test]
fn every_decision_is_told() {
    let mut batcher = Batcher::new(Limits { items: 4, caller_percent: 100, slots: 2, ..Limits::default() });
    batcher.trace(100);
    let key = known(&mut batcher, &CORES);
    let first = batcher.offer(at(0), request(key)).unwrap();
    let batch = run(&mut batcher, at(0));
    batcher.offer(at(2), Request { deadline: Some(at(60)), ..request(key) }).unwrap();
    let third = batcher.offer(at(2), Request { caller: Caller(2), ..request(key) }).unwrap();
    batcher.offer(at(2), Request { lane: Lane::Interactive, items: 3, ..request(key) }).unwrap_err();
    batcher.offer(at(3), Request { deadline: Some(at(5)), ..request(key) }).unwrap_err();
    batcher.next(at(3));
    batcher.gone(at(4), first);
    batcher.finished(at(12), batch.id, Outcome::Done);
    let batch = run(&mut batcher, at(12));
    batcher.finished(at(30), batch.id, Outcome::Failed);
    batcher.next(at(55));
    batcher.gone(at(56), third);
    batcher.drain(at(57));
    batcher.offer(at(60), request(key)).unwrap_err();
    let lines: Vec<String> = batcher.take_events().iter().map(|(at, event)| format!("{at}: {event}")).collect();
    let expected = [
        "0.000 s: took request 1: 1 item of key 1, default lane, caller 1 in turn 0, answer expected in 11.0ms",
        "0.000 s: batch 1: 1 request of key 1, 1 item in a plan of 1, expected 11.0ms, 0 items left; default lane, turn 0",
        "0.002 s: took request 2: 1 item of key 1, default lane, caller 1 in turn 0, answer expected in 20.0ms, has 58.0ms",
        "0.002 s: took request 3: 1 item of key 1, default lane, caller 2 in turn 0, answer expected in 29.0ms",
        "0.002 s: refused a request of caller 1 for key 1, interactive lane: no room in the interactive lane: 3 items, \
         3 bytes, expected wait 40.0ms; try again in 11.0ms",
        "0.003 s: refused a request of caller 1 for key 1, default lane: its deadline is before its answer, in 48.8ms; \
         try again in 46.8ms",
        "0.003 s: 2 items of key 1 wait until 0.010 s: the device is busy until 0.011 s",
        "0.004 s: request 1 leaves with its batch: its caller is gone",
        "0.012 s: batch 1 done after 12.0ms, expected 11.0ms",
        "0.012 s: batch 2: 2 requests of key 1, 2 items in a plan of 2, expected 20.0ms, 0 items left; default lane, turn 0",
        "0.030 s: batch 2 failed after 18.0ms, expected 20.0ms",
        "0.030 s: batch 2 split: its requests are tried again, 1 and 1",
        "0.055 s: request 2 expired: a run takes 11.5ms, and it has 5.0ms",
        "0.055 s: batch 3: 1 request of key 1, 1 item in a plan of 1, expected 11.5ms, 0 items left; their batch failed",
        "0.056 s: request 3 leaves with its batch: its caller is gone",
        "0.057 s: draining: 0 requests left",
        "0.060 s: refused a request of caller 1 for key 1, default lane: nothing new is taken",
    ];
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
    batcher.trace(0);
    batcher.offer(at(60), request(key)).unwrap_err();
    assert_eq!(batcher.take_events(), []);
}

/// Whoever left part of what it sent has no later turns than others for that, once it was its turn.
#[test]
fn turns_go_on_where_they_are() {
    let mut batcher = batcher();
    let key = known(&mut batcher, &[(1, 10)]);
    let tickets: Vec<Ticket> = (0..100).map(|_| batcher.offer(at(0), request(key)).unwrap()).collect();
    tickets[..90].iter().for_each(|ticket| batcher.gone(at(0), *ticket));
    assert_eq!(run(&mut batcher, at(0)).tickets, [tickets[90]]);
    batcher.trace(1);
    batcher.offer(at(1), Request { caller: Caller(2), ..request(key) }).unwrap();
    let Event::Took { turn, .. } = batcher.take_events()[0].1 else { panic!("it was taken") };
    assert_eq!(turn, 90 / 8);
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

/// Callers that come back together are waited for, unless somebody has no time for that.
#[test]
fn a_window_is_for_those_who_come_back() {
    let limits = Limits { linger: ms(1), ..Limits::default() };
    let mut batcher = Batcher::new(limits);
    let key = known(&mut batcher, &GPU);
    let mut now = at(0);
    for _ in 0..50 {
        for _ in 0..8 {
            batcher.offer(now, request(key)).unwrap();
        }
        (_, now) = run_whole(&mut batcher, now);
        now = now + Duration::from_micros(40);
    }
    let wait = Duration::from_nanos(5_000_000 / 64);
    let first = batcher.offer(now, request(key)).unwrap();
    let Next::WaitUntil(until) = batcher.next(now) else { panic!("the others are expected") };
    assert!(until <= now + wait, "{until} from {now}");
    batcher.gone(now, first);
    // A run of eight takes 8 ms.
    let ticket = batcher.offer(now, Request { deadline: Some(now + ms(8)), ..request(key) }).unwrap();
    assert_eq!(run(&mut batcher, now).tickets, [ticket]);
}
