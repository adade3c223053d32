//! Who goes first, when, and in which plan.

use std::time::Duration;

use dala_batch::{Batcher, Caller, End, Event, Key, Lane, Limits, Next, Outcome, Refusal, Request, Ticket};

use crate::by_hand::{CORES, GPU, at, batcher, known, ms, request, run, run_whole};

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
