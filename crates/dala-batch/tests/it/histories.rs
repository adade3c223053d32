//! Random histories, each decision beside the model's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dala_batch::{Batcher, Caller, End, Key, Lane, Limits, Next, Outcome, Request, Ticket, Time};

use crate::model::Model;
use crate::random::Random;

struct History {
    random: Random,
    now: Time,
    batcher: Batcher,
    model: Model,
    /// What every run of a key takes, in microseconds: a part for the run, and one for each item.
    speeds: BTreeMap<Key, (u64, u64)>,
    /// Requests that make every batch fail that they are in.
    culprits: BTreeSet<Ticket>,
    /// How many runs are expected at most of each.
    taken: BTreeMap<Ticket, Request>,
    ended: BTreeMap<Ticket, (End, u32)>,
    forgotten: BTreeSet<Key>,
    largest_batch: usize,
    losses: bool,
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let limits = Limits {
            items: random.pick(&[1, 8, 20, 60, 1000]),
            bytes: random.pick(&[500, 2000, 1 << 30]),
            caller_percent: random.pick(&[25, 50, 100]),
            slots: random.pick(&[0, 1, 1, 2, 3]),
            prepare: Duration::from_micros(random.below(2000)),
            window: Duration::ZERO,
            linger: Duration::ZERO,
            overtakes: false,
            losses: 1 + random.below(3) as u32,
        };
        let losses = random.chance(30);
        let mut batcher = Batcher::new(limits);
        if random.chance(50) {
            batcher.trace(20);
        }
        History {
            random,
            now: Time::default(),
            batcher,
            model: Model::new(limits),
            speeds: BTreeMap::new(),
            culprits: BTreeSet::new(),
            taken: BTreeMap::new(),
            ended: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            largest_batch: 1,
            losses,
        }
    }

    fn add_key(&mut self) {
        let sizes: &[u32] = self.random.pick(&[&[1][..], &[1, 2, 4, 8], &[1, 8, 32], &[2, 3, 7], &[4]]);
        let key = self.batcher.key(dala_batch::Sizes::new(sizes.iter().copied()));
        self.model.add_key(key, sizes);
        let speed = (self.random.below(5000), 1 + self.random.below(3000));
        self.speeds.insert(key, speed);
        for size in sizes {
            if self.random.chance(40) {
                let takes = Duration::from_micros(speed.0 + speed.1 * u64::from(*size));
                self.batcher.assume(key, *size, takes.mul_f64(0.5 + self.random.unit()));
            }
        }
    }

    fn collect(&mut self) {
        let ended = self.batcher.take_ended();
        let expected = std::mem::take(&mut self.model.ended);
        assert_eq!(ended.iter().map(|ended| (ended.ticket, ended.end)).collect::<Vec<_>>(), expected);
        for ended in ended {
            assert_eq!(Some(&ended.request), self.taken.get(&ended.ticket));
            let before = self.ended.insert(ended.ticket, (ended.end, ended.runs));
            assert_eq!(before, None, "{} ended twice", ended.ticket);
            assert!(ended.waited <= ended.took);
        }
    }

    fn offer(&mut self) {
        let Some(key) = self.key() else { return };
        let slack = self.random.pick(&[0, 1, 5, 20, 100, 1000]);
        let request = Request {
            key,
            lane: self.random.pick(&Lane::ALL),
            caller: Caller(self.random.below(4) * self.random.below(3)),
            deadline: self.random.chance(40).then(|| self.now + Duration::from_millis(slack)),
            items: self.random.pick(&[0, 1, 1, 1, 1, 1, 2, 3, 5, 9]),
            bytes: self.random.below(200),
        };
        let answer = self.batcher.offer(self.now, request);
        self.model.offered(&self.batcher, self.now, request, answer);
        if let Ok(ticket) = answer {
            assert!(self.taken.insert(ticket, request).is_none());
            if self.random.chance(10) {
                self.culprits.insert(ticket);
            }
        }
        self.collect();
    }

    fn key(&mut self) -> Option<Key> {
        let keys: Vec<Key> = self.speeds.keys().copied().collect();
        (!keys.is_empty()).then(|| self.random.pick(&keys))
    }

    fn next(&mut self) -> Option<Time> {
        loop {
            let answer = self.batcher.next(self.now);
            self.model.next(&self.batcher, self.now, &answer);
            self.collect();
            match answer {
                Next::Run(batch) => {
                    self.largest_batch = self.largest_batch.max(batch.tickets.len());
                    assert!(batch.items <= batch.size && !batch.tickets.is_empty());
                    for ticket in &batch.tickets {
                        let request = self.taken[ticket];
                        assert_eq!(request.key, batch.key);
                        assert!(request.deadline.is_none_or(|deadline| deadline > self.now), "{ticket} runs too late");
                        assert!(!self.ended.contains_key(ticket));
                    }
                }
                Next::WaitUntil(at) => {
                    assert!(at > self.now);
                    return Some(at);
                }
                Next::Idle => return None,
            }
        }
    }

    fn finish(&mut self) {
        let running = self.model.running();
        if running.is_empty() {
            return;
        }
        let place = if self.random.chance(80) { 0 } else { self.random.below(running.len() as u64) as usize };
        let (id, tickets) = &running[place];
        let key = self.taken[&tickets[0]].key;
        let (run, item) = self.speeds[&key];
        let takes = Duration::from_micros(run + item * tickets.len() as u64);
        self.now = self.now + takes.mul_f64(0.8 + 0.4 * self.random.unit());
        let outcome = match () {
            () if self.losses && self.random.chance(10) => Outcome::Lost,
            () if tickets.iter().any(|ticket| self.culprits.contains(ticket)) => Outcome::Failed,
            () => Outcome::Done,
        };
        self.batcher.finished(self.now, *id, outcome);
        self.model.finished(&self.batcher, self.now, *id, outcome);
        self.collect();
        // Nothing is answered twice.
        self.batcher.finished(self.now, *id, outcome);
        self.collect();
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.offer(),
            45..70 => self.finish(),
            70..85 => self.now = self.now + Duration::from_micros(self.random.below(8000)),
            85..93 => {
                let held: Vec<Ticket> = self.taken.keys().copied().collect();
                if !held.is_empty() {
                    let ticket = self.random.pick(&held);
                    self.batcher.gone(self.now, ticket);
                    self.model.gone(ticket);
                }
            }
            93..95 => {
                let caller = Caller(self.random.below(4));
                self.batcher.caller_gone(self.now, caller);
                self.model.caller_gone(caller);
            }
            95..97 => {
                if let Some(key) = self.key() {
                    self.batcher.forget(self.now, key);
                    self.forgotten.insert(key);
                    self.model.forget(key);
                }
            }
            97..99 => self.add_key(),
            // A laptop that slept.
            _ => self.now = self.now + Duration::from_secs(self.random.pick(&[1, 3600, 1 << 30])),
        }
        self.collect();
        let load = self.batcher.load(self.now);
        assert_eq!((load.queued + load.running > 0), !self.batcher.is_empty());
        // What is decided late is decided all the same.
        if self.random.chance(80) {
            self.next();
        }
    }

    fn end(&mut self) {
        if self.random.chance(50) {
            self.batcher.drain(self.now);
            self.model.drain();
        }
        loop {
            let until = self.next();
            if !self.model.running().is_empty() {
                self.finish();
            } else if let Some(until) = until {
                self.now = until;
            } else {
                break;
            }
        }
        assert!(self.batcher.holds_nothing() && self.model.held.is_empty());
        assert_eq!(self.taken.len(), self.ended.len(), "every request that was taken ended");
        // Once for each halving, and what was lost on the way.
        let most = (self.largest_batch as f64).log2().ceil() as u32 + 1;
        for (ticket, (end, runs)) in &self.ended {
            assert!(*runs <= most + if self.losses { 3 } else { 0 }, "{ticket} was run {runs} times");
            let is_culprit = self.culprits.contains(ticket);
            // What is forgotten cannot be run again without the culprit.
            let is_forgotten = self.forgotten.contains(&self.taken[ticket].key);
            assert!(*end != End::Failed || is_culprit || is_forgotten, "{ticket} failed for another");
            assert!(*end != End::Done || !is_culprit, "{ticket} cannot be done");
        }
    }
}

#[test]
fn random_histories_are_those_of_the_model() {
    let count = std::env::var("DALA_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(6_000);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..count {
        let told = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            history.add_key();
            for _ in 0..20 + history.random.below(100) {
                history.step();
            }
            history.end();
            history.ended.into_values().map(|(end, _)| end).collect::<Vec<_>>()
        });
        match told {
            Ok(ended) => ended.into_iter().for_each(|end| *ends.entry(end.code()).or_default() += 1),
            Err(_) => panic!("history {seed}"),
        }
    }
    println!("{count} histories: {ends:?}");
    assert_eq!(ends.len(), 6, "every end was seen: {ends:?}");
}
