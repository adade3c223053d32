//! Simulated devices, and those who send them requests.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use dala_batch::{Batch, Batcher, Caller, End, Lane, Limits, Next, Outcome, Request, Sizes, Time};

use crate::random::Random;

/// What a device takes for each planned size, in milliseconds.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) runs: &'static [(u32, u64)],
    /// How long an answer may take to be of use.
    pub(crate) useful: Duration,
}

/// MobileNetV2 on two cores: an item in a batch is hardly cheaper than alone.
pub(crate) const CORES: Table =
    Table { name: "two cores", runs: &[(1, 11), (2, 20), (4, 38), (8, 74)], useful: Duration::from_millis(300) };

/// A device that one item hardly uses.
pub(crate) const GPU: Table =
    Table { name: "like a GPU", runs: &[(1, 5), (8, 8), (32, 15)], useful: Duration::from_millis(50) };

impl Table {
    /// Items in a second when every run is the best.
    pub(crate) fn saturation(&self) -> f64 {
        self.runs.iter().map(|(size, ms)| f64::from(*size) / (*ms as f64 / 1e3)).fold(0.0, f64::max)
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::new(self.runs.iter().map(|(size, _)| *size))
    }

    /// A run takes a tenth more or less.
    pub(crate) fn takes(&self, size: u32, random: &mut Random) -> Duration {
        let ms = self.runs.iter().find(|(own, _)| *own == size).unwrap().1;
        Duration::from_secs_f64(ms as f64 / 1e3 * (0.9 + 0.2 * random.unit()))
    }
}

/// Something that decides what runs.
pub(crate) trait Policy {
    fn offer(&mut self, now: Time, deadline: Option<Time>) -> bool;
    /// The size of a batch to run now; or when to ask again.
    fn next(&mut self, now: Time) -> Result<u32, Option<Time>>;
    /// The batch ended: how long each of its requests took, and how many others expired.
    fn finished(&mut self, now: Time) -> (Vec<Duration>, usize);
}

/// The batcher, as a server uses it, with requests of fifty callers.
pub(crate) struct Ours {
    batcher: Batcher,
    request: Request,
    running: Option<Batch>,
}

impl Ours {
    pub(crate) fn new(table: &Table, limits: Limits) -> Ours {
        let mut batcher = Batcher::new(Limits { items: 100_000, caller_percent: 100, ..limits });
        let key = batcher.key(table.sizes());
        let request = Request { key, lane: Lane::Default, caller: Caller(0), deadline: None, items: 1, bytes: 1 };
        Ours { batcher, request, running: None }
    }
}

impl Policy for Ours {
    fn offer(&mut self, now: Time, deadline: Option<Time>) -> bool {
        self.request.caller = Caller((self.request.caller.0 + 1) % 50);
        self.batcher.offer(now, Request { deadline, ..self.request }).is_ok()
    }

    fn next(&mut self, now: Time) -> Result<u32, Option<Time>> {
        match self.batcher.next(now) {
            Next::Run(batch) => Ok(self.running.insert(batch).size),
            Next::WaitUntil(at) => Err(Some(at)),
            Next::Idle => Err(None),
        }
    }

    fn finished(&mut self, now: Time) -> (Vec<Duration>, usize) {
        self.batcher.finished(now, self.running.take().unwrap().id, Outcome::Done);
        let ended = self.batcher.take_ended();
        let took: Vec<Duration> = ended.iter().filter(|ended| ended.end == End::Done).map(|ended| ended.took).collect();
        let expired = ended.len() - took.len();
        (took, expired)
    }
}

/// A queue, and a time that a batch waits to be full; the smallest plan that holds it.
pub(crate) struct Plain {
    sizes: Vec<u32>,
    window: Duration,
    queue: VecDeque<Time>,
    running: Vec<Time>,
}

impl Plain {
    pub(crate) fn new(sizes: &[u32], window: Duration) -> Plain {
        Plain { sizes: sizes.to_vec(), window, queue: VecDeque::new(), running: Vec::new() }
    }
}

impl Policy for Plain {
    fn offer(&mut self, now: Time, _: Option<Time>) -> bool {
        self.queue.push_back(now);
        true
    }

    fn next(&mut self, now: Time) -> Result<u32, Option<Time>> {
        let first = *self.queue.front().ok_or(None)?;
        let (largest, until) = (*self.sizes.last().unwrap() as usize, first + self.window);
        if self.queue.len() < largest && now < until {
            return Err(Some(until));
        }
        let count = self.queue.len().min(largest);
        self.running = self.queue.drain(..count).collect();
        Ok(*self.sizes.iter().find(|size| **size as usize >= count).unwrap())
    }

    fn finished(&mut self, now: Time) -> (Vec<Duration>, usize) {
        (self.running.drain(..).map(|offered| now.since(offered)).collect(), 0)
    }
}

/// Who sends requests.
#[derive(Clone, Copy)]
pub(crate) enum Senders {
    /// So many in a second, each by itself.
    Rate(f64),
    /// So many callers, each of whom sends again after it was answered: so much later, on average.
    Callers(usize, Duration),
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) offered: usize,
    pub(crate) refused: usize,
    pub(crate) expired: usize,
    /// What each answer took, in order.
    pub(crate) took: Vec<Duration>,
    /// Answers that were of use.
    pub(crate) good: usize,
    pub(crate) batches: usize,
    pub(crate) seconds: f64,
}

impl Figures {
    /// In milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let place = (self.took.len() * percent / 100).min(self.took.len() - 1);
        self.took[place].as_secs_f64() * 1e3
    }

    /// In milliseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.took.iter().sum::<Duration>().as_secs_f64() * 1e3 / self.took.len() as f64
    }

    /// Answers in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.took.len() as f64 / self.seconds
    }

    /// Answers in a second that were of use.
    pub(crate) fn good_rate(&self) -> f64 {
        self.good as f64 / self.seconds
    }
}

/// Requests for some seconds; with deadlines, if answers are useful only so long.
pub(crate) fn simulate(
    table: &Table,
    policy: &mut dyn Policy,
    senders: Senders,
    seconds: f64,
    deadlines: bool,
) -> Figures {
    let mut random = Random(7);
    let mut figures = Figures::default();
    let mut now = Time::default();
    let mut end: Option<Time> = None;
    let mut arrivals: BTreeSet<(Time, usize)> = BTreeSet::new();
    let mut count = 0;
    let mut arrive = |arrivals: &mut BTreeSet<(Time, usize)>, at: Time| {
        count += 1;
        arrivals.insert((at, count));
    };
    match senders {
        Senders::Rate(rate) => arrive(&mut arrivals, now + random.gap(rate)),
        Senders::Callers(callers, _) => (0..callers).for_each(|_| arrive(&mut arrivals, now)),
    }
    while now < Time(Duration::from_secs_f64(seconds)) {
        let mut wake = None;
        if end.is_none() {
            match policy.next(now) {
                Ok(size) => {
                    figures.batches += 1;
                    end = Some(now + table.takes(size, &mut random));
                }
                Err(at) => wake = at,
            }
        }
        let arrival = arrivals.first().map(|(at, _)| *at);
        now = [arrival, end, wake].into_iter().flatten().min().unwrap();
        if end == Some(now) {
            end = None;
            let (took, expired) = policy.finished(now);
            if let Senders::Callers(_, later) = senders {
                took.iter().for_each(|_| arrive(&mut arrivals, now + later.mul_f64(2.0 * random.unit())));
            }
            figures.expired += expired;
            figures.good += took.iter().filter(|took| **took <= table.useful).count();
            figures.took.extend(took);
        } else if arrival == Some(now) {
            arrivals.pop_first();
            figures.offered += 1;
            figures.refused += usize::from(!policy.offer(now, deadlines.then(|| now + table.useful)));
            if let Senders::Rate(rate) = senders {
                arrive(&mut arrivals, now + random.gap(rate));
            }
        }
    }
    figures.took.sort_unstable();
    figures.seconds = now.0.as_secs_f64();
    figures
}
