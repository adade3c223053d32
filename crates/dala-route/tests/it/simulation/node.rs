//! Nodes: a batcher, and a device that takes as long as it was measured to.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use dala_batch::{Batch, Batcher, Caller, End, Key, Lane, Limits, Next, Outcome, Request, Sizes, Ticket, Time};
use dala_route::Word;

use super::random::Random;

/// What a device takes.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// For each planned size, in milliseconds.
    pub(crate) runs: Cow<'static, [(u32, f64)]>,
    /// How much longer or shorter a run may be, as a part of it.
    pub(crate) spread: f64,
    /// By how many milliseconds every run is longer than that, as where nodes wait by timers.
    pub(crate) longer: f64,
    /// How long an answer may take to be of use.
    pub(crate) useful: Duration,
}

/// MobileNetV2 on two cores: an item in a batch is hardly cheaper than alone.
pub(crate) const CORES: Table = Table {
    runs: Cow::Borrowed(&[(1, 8.9), (2, 17.0), (4, 33.0), (8, 64.0)]),
    spread: 0.1,
    longer: 0.0,
    useful: Duration::from_millis(300),
};

/// A device that one item hardly uses.
pub(crate) const GPU: Table =
    Table { runs: Cow::Borrowed(&[(1, 5.0), (8, 8.0), (32, 15.0)]), useful: Duration::from_millis(50), ..CORES };

impl Table {
    /// Items in a second when every run is the best.
    pub(crate) fn saturation(&self) -> f64 {
        self.runs.iter().map(|(size, ms)| f64::from(*size) / (ms / 1e3)).fold(0.0, f64::max)
    }

    /// What a run takes this time.
    fn ms(&self, size: u32, random: &mut Random) -> f64 {
        let usual = self.runs.iter().find(|(own, _)| *own == size).map_or(0.0, |(_, ms)| *ms);
        usual * (1.0 - self.spread + 2.0 * self.spread * random.unit()) + self.longer
    }
}

pub(crate) fn time(nanos: u64) -> Time {
    Time(Duration::from_nanos(nanos))
}

/// What a request of the fleet is to a node: its number, and which of its tries it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) request: u32,
    pub(crate) turn: u32,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer,
    Refusal,
}

pub(crate) struct Node {
    batcher: Batcher,
    keys: [Key; 2],
    running: Option<Batch>,
    jobs: HashMap<Ticket, (Job, u8)>,
    slow: f64,
    /// When it asks what to run, if it is to.
    pub(crate) wake: Option<u64>,
    pub(crate) up: bool,
    /// Changes when it goes down: what was meant for it before is not any more.
    pub(crate) life: u32,
    pub(crate) drains: bool,
}

impl Node {
    pub(crate) fn new(table: &Table, slow: f64) -> Node {
        let mut batcher = Batcher::new(Limits { items: 512, caller_percent: 100, ..Limits::default() });
        let sizes = Sizes::new(table.runs.iter().map(|(size, _)| *size));
        let keys = [(); 2].map(|()| batcher.key(sizes.clone()));
        for key in keys {
            for (size, ms) in table.runs.iter() {
                batcher.assume(key, *size, Duration::from_secs_f64(ms / 1e3));
            }
        }
        let (running, jobs) = (None, HashMap::new());
        Node { batcher, keys, running, jobs, slow, wake: None, up: true, life: 0, drains: false }
    }

    /// It is started again, and has nothing.
    pub(crate) fn restart(&mut self, table: &Table) {
        let life = self.life + 1;
        *self = Node { life, ..Node::new(table, self.slow) };
    }

    pub(crate) fn word(&self, now: u64, key: u8) -> Word {
        Word::of(&self.batcher, time(now), self.keys[usize::from(key)])
    }

    pub(crate) fn offer(&mut self, now: u64, job: Job, caller: u64, key: u8, deadline: u64) -> bool {
        let request = Request {
            key: self.keys[usize::from(key)],
            lane: Lane::Default,
            caller: Caller(caller),
            deadline: Some(time(deadline)),
            items: 1,
            bytes: 1,
        };
        match self.batcher.offer(time(now), request) {
            Ok(ticket) => self.jobs.insert(ticket, (job, key)).is_none(),
            Err(_) => false,
        }
    }

    /// Starts a run, if there is anything to run: gives when it ends.
    pub(crate) fn next(&mut self, now: u64, table: &Table, random: &mut Random) -> Option<u64> {
        if self.running.is_some() {
            return None;
        }
        self.wake = None;
        match self.batcher.next(time(now)) {
            Next::Run(batch) => {
                let ms = table.ms(batch.size, random) * self.slow;
                self.running = Some(batch);
                Some(now + (ms * 1e6) as u64)
            }
            Next::WaitUntil(at) => {
                self.wake = Some((at.0.as_nanos() as u64).max(now));
                None
            }
            Next::Idle => None,
        }
    }

    /// The run ended.
    pub(crate) fn finished(&mut self, now: u64) {
        if let Some(batch) = self.running.take() {
            self.batcher.finished(time(now), batch.id, Outcome::Done);
        }
    }

    /// What ended, and for which model.
    pub(crate) fn take_ended(&mut self, mut tell: impl FnMut(Job, u8, Reply)) {
        for ended in self.batcher.take_ended() {
            if let Some((job, key)) = self.jobs.remove(&ended.ticket) {
                tell(job, key, if ended.end == End::Done { Reply::Answer } else { Reply::Refusal });
            }
        }
    }

    /// What it has when it goes down.
    pub(crate) fn take_jobs(&mut self) -> Vec<Job> {
        // In an order that is the same in every run.
        let mut jobs: Vec<Job> = self.jobs.drain().map(|(_, (job, _))| job).collect();
        jobs.sort_by_key(|job| job.request);
        jobs
    }

    pub(crate) fn drain(&mut self, now: u64) {
        self.drains = true;
        self.batcher.drain(time(now));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}
