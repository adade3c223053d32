//! Devices that let urgent batches pass between the parts of others.

use std::collections::BTreeMap;
use std::time::Duration;

use dala_batch::{Batch, Batcher, Caller, End, Event, Lane, Limits, Next, Outcome, Request, Sizes, Ticket, Time, Turn};

use crate::by_hand::{CORES, at, known, ms, request, run};
use crate::random::Random;

fn overtaking() -> Batcher {
    let limits = Limits { overtakes: true, caller_percent: 100, window: Duration::ZERO, ..Limits::default() };
    Batcher::new(limits)
}

#[test]
fn urgent_requests_pass_what_runs() {
    let mut batcher = overtaking();
    batcher.trace(100);
    let key = known(&mut batcher, &CORES);
    let of = |lane| Request { lane, ..request(key) };
    for _ in 0..8 {
        batcher.offer(at(0), of(Lane::Background)).unwrap();
    }
    let bulk = run(&mut batcher, at(0));
    assert_eq!((bulk.size, bulk.lane), (8, Lane::Background));
    let waits = batcher.offer(at(1), of(Lane::Background)).unwrap();
    assert_eq!(batcher.next(at(1)), Next::Idle, "its own lane waits");
    // It would wait 64 ms behind what runs.
    assert_eq!(batcher.expected_wait(at(10), key, Lane::Interactive), ms(11));
    let urgent = batcher.offer(at(10), Request { deadline: Some(at(30)), ..of(Lane::Interactive) }).unwrap();
    let passing = run(&mut batcher, at(10));
    assert_eq!(
        (passing.size, passing.lane, &passing.tickets[..]),
        (1, Lane::Interactive, &[urgent][..]),
        "it takes nobody along"
    );
    assert!(batcher.take_events().iter().any(|(_, event)| {
        matches!(event, Event::Batched { why: Turn::Overtakes { lane: Lane::Interactive }, .. })
            && event.to_string().contains("interactive lane passes what runs")
    }));
    // One at a time, and not those between the two.
    let second = batcher.offer(at(12), of(Lane::Interactive)).unwrap();
    batcher.offer(at(12), of(Lane::Default)).unwrap();
    assert_eq!(batcher.next(at(12)), Next::Idle);
    batcher.finished(at(21), passing.id, Outcome::Done);
    let third = run(&mut batcher, at(21));
    assert_eq!(third.tickets, [second]);
    batcher.finished(at(32), third.id, Outcome::Done);
    let ended: Vec<Ticket> = batcher.take_ended().iter().map(|ended| ended.ticket).collect();
    assert_eq!(ended, [urgent, second]);
    // What was passed took 74 ms of the device, whatever the clock says.
    batcher.finished(at(96), bulk.id, Outcome::Done);
    assert_eq!(batcher.service_time(key, 8), Some(ms(74)));
    assert_eq!(batcher.service_time(key, 1), Some(ms(11)));
    assert!(batcher.take_ended().iter().all(|ended| ended.ticket != waits));
}

/// Whatever comes when: every request ends once, and only higher lanes pass.
#[test]
fn random_histories() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut batcher = overtaking();
        let key = known(&mut batcher, &CORES);
        let (mut now, mut running, mut ended) = (at(0), Vec::<(Time, Batch)>::new(), BTreeMap::new());
        let mut taken = 0;
        let mut passed = 0;
        for step in 0..400u64 {
            if step < 300 && random.chance(60) {
                let lane = random.pick(&Lane::ALL);
                let deadline = random.chance(30).then(|| now + ms(10 + random.below(200)));
                let request = Request { lane, deadline, caller: Caller(random.below(4)), ..request(key) };
                taken += u32::from(batcher.offer(now, request).is_ok());
            }
            while let Next::Run(batch) = batcher.next(now) {
                let passes = !running.is_empty();
                assert!(running.iter().all(|(_, other)| !passes || batch.lane < other.lane), "seed {seed}");
                passed += usize::from(passes);
                let end = now + batch.expected;
                running.push((end, batch));
                assert!(running.len() <= 2, "seed {seed}");
            }
            now = now + Duration::from_micros(random.below(15_000));
            // The one that passes holds up the other.
            while let Some((end, batch)) = running.last().cloned().filter(|(end, _)| *end <= now) {
                running.pop();
                running.iter_mut().for_each(|(other, _)| *other = *other + batch.expected);
                let outcome = if random.chance(5) { Outcome::Failed } else { Outcome::Done };
                batcher.finished(end.max(now), batch.id, outcome);
            }
            for end in batcher.take_ended() {
                assert!(ended.insert(end.ticket, end.end).is_none(), "seed {seed}: ended twice");
            }
        }
        for _ in 0..2000 {
            now = now + ms(50);
            for (_, batch) in std::mem::take(&mut running) {
                batcher.finished(now, batch.id, Outcome::Done);
            }
            while let Next::Run(batch) = batcher.next(now) {
                running.push((now, batch));
            }
            if batcher.is_empty() {
                break;
            }
        }
        for end in batcher.take_ended() {
            assert!(ended.insert(end.ticket, end.end).is_none(), "seed {seed}: ended twice");
        }
        assert_eq!(ended.len() as u32, taken, "seed {seed}");
        assert!(batcher.holds_nothing(), "seed {seed}");
        assert!(passed > 0 || taken < 50, "seed {seed}: nothing passed");
        assert!(ended.values().any(|end| *end == End::Done), "seed {seed}");
    }
}

/// Answers in time a second, requests refused and expired, and the p99 of urgent ones, of MobileNetV2 on two cores: urgent requests are a
/// fifth of what it bears, and bulk comes as fast as `bulk` times that.
fn overloaded(bulk: f64) -> (f64, u32, u32, Duration) {
    let mut random = Random(7);
    let mut batcher = overtaking();
    let key = batcher.key(Sizes::new(CORES.iter().map(|(size, _)| *size)));
    let lanes = [(Lane::Interactive, 0.2 * BEARS, ms(500)), (Lane::Background, bulk * BEARS, ms(1000))];
    let mut next = lanes.map(|(_, rate, _)| at(0) + random.gap(rate));
    let takes = |batch: &Batch| ms(CORES.iter().find(|(size, _)| *size == batch.size).unwrap().1);
    // What is left of the run that can be passed, and of the one that passes it.
    let mut running: Vec<(Duration, Batch)> = Vec::new();
    let (mut now, end) = (at(0), at(120_000));
    let (mut took, mut good, mut refused, mut expired) = (Vec::new(), 0, 0, 0);
    while now < end {
        let woken = loop {
            match batcher.next(now) {
                Next::Run(batch) => running.push((takes(&batch), batch)),
                Next::WaitUntil(until) => break Some(until),
                Next::Idle => break None,
            }
        };
        let done = running.last().map(|(left, _)| now + *left);
        let until = next.into_iter().chain(woken.filter(|until| *until > now)).chain(done).min().unwrap();
        if let Some((left, _)) = running.last_mut() {
            *left = left.saturating_sub(until.since(now));
        }
        now = until;
        if running.last().is_some_and(|(left, _)| left.is_zero()) {
            let (_, batch) = running.pop().unwrap();
            batcher.finished(now, batch.id, Outcome::Done);
        }
        for (place, (lane, rate, deadline)) in lanes.into_iter().enumerate() {
            if next[place] <= now {
                next[place] = now + random.gap(rate);
                let request = Request { lane, deadline: Some(now + deadline), ..request(key) };
                refused += u32::from(batcher.offer(now, request).is_err());
            }
        }
        for ended in batcher.take_ended() {
            match ended.end {
                End::Done if ended.request.lane == Lane::Interactive => {
                    took.push(ended.took);
                    good += 1;
                }
                End::Done => good += 1,
                _ => expired += 1,
            }
        }
    }
    took.sort_unstable();
    (f64::from(good) / 120.0, refused, expired, took[took.len() * 99 / 100])
}

/// Items a second when all batches are full.
const BEARS: f64 = 8.0 / 0.074;

#[test]
fn lanes_are_kept_under_overload() {
    let (_, _, _, alone) = overloaded(1e-9);
    let (good, refused, expired, p99) = overloaded(1.0);
    println!("{good:.1} of {BEARS:.1} a second in time, {refused} refused, {expired} expired");
    println!("urgent requests: p99 {p99:.1?}, without the others {alone:.1?}");
    assert!(good > 0.93 * BEARS, "{good}");
    assert!(p99 < alone * 3 / 2, "{p99:?}");
    assert!(expired * 5 < refused, "{expired} expired, {refused} refused at once");
}
