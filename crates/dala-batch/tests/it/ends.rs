//! How requests end, and what is told of it.

use std::time::Duration;

use dala_batch::{Batcher, Caller, End, Lane, Limits, Next, Outcome, Refusal, Request, Ticket, Time};

use crate::by_hand::{CORES, GPU, at, batcher, ends, known, ms, request, run, run_whole};

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
