//! What it is worth: requests that come at random, on devices with measured times.

use std::time::Duration;

use dala_batch::{Batch, Batcher, Caller, End, Lane, Limits, Next, Outcome, Request, Time};

use crate::random::Random;

/// What a device takes for each planned size, in milliseconds.
pub(crate) struct Table {
    name: &'static str,
    runs: &'static [(u32, u64)],
    /// How long an answer may take to be of use.
    useful: Duration,
}

/// MobileNetV2 on two cores: an item in a batch is hardly cheaper than alone.
pub(crate) const CORES: Table =
    Table { name: "two cores", runs: &[(1, 11), (2, 20), (4, 38), (8, 74)], useful: Duration::from_millis(300) };

/// A device that is hardly used by one item.
pub(crate) const GPU: Table =
    Table { name: "like a GPU", runs: &[(1, 5), (8, 8), (32, 15)], useful: Duration::from_millis(50) };

impl Table {
    /// Items in a second when every run is the best.
    fn saturation(&self) -> f64 {
        self.runs.iter().map(|(size, ms)| f64::from(*size) / (*ms as f64 / 1e3)).fold(0.0, f64::max)
    }

    /// A run takes a tenth more or less.
    fn takes(&self, size: u32, random: &mut Random) -> Duration {
        let ms = self.runs.iter().find(|(own, _)| *own == size).unwrap().1;
        Duration::from_secs_f64(ms as f64 / 1e3 * (0.9 + 0.2 * random.unit()))
    }
}

#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) offered: usize,
    pub(crate) refused: usize,
    pub(crate) expired: usize,
    /// What each answer took, in order.
    pub(crate) took: Vec<Duration>,
    pub(crate) good: usize,
    pub(crate) batches: usize,
    pub(crate) seconds: f64,
}

impl Figures {
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let place = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    }
    pub(crate) fn mean(&self) -> f64 {
        self.took.iter().map(|t| t.as_secs_f64() * 1e3).sum::<f64>() / self.took.len() as f64
    }
}

/// Something that decides what runs, to be compared.
pub(crate) trait Policy {
    fn offer(&mut self, now: Time, deadline: Option<Time>) -> bool;
    /// A batch to run now: its size; or when to ask again.
    fn next(&mut self, now: Time) -> Result<u32, Option<Time>>;
    /// The batch ended; gives how long each of its requests took, and how many expired since the last time.
    fn finished(&mut self, now: Time) -> (Vec<Duration>, usize);
}

/// The batcher, as a server uses it.
pub(crate) struct Ours {
    batcher: Batcher,
    request: Request,
    running: Option<Batch>,
}

impl Ours {
    pub(crate) fn new(table: &Table) -> Ours {
        let linger = Duration::from_micros(std::env::var("LINGER").map_or(0, |w| w.parse().unwrap()));
        let mut batcher = Batcher::new(Limits { items: 100_000, linger, caller_percent: 100, ..Limits::default() });
        let key = batcher.key(dala_batch::Sizes::new(table.runs.iter().map(|(size, _)| *size)));
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
        let batch = self.running.take().unwrap();
        self.batcher.finished(now, batch.id, Outcome::Done);
        let ended = self.batcher.take_ended();
        let done = ended.iter().filter(|ended| ended.end == End::Done);
        let took: Vec<Duration> = done.map(|ended| ended.took).collect();
        let expired = ended.len() - took.len();
        (took, expired)
    }
}

/// Plain ways to do it: a queue, a largest batch, and a time that it waits to be full. Batches are filled up to the smallest
/// plan that holds them.
pub(crate) struct Plain {
    sizes: Vec<u32>,
    window: Duration,
    queue: std::collections::VecDeque<(Time, Option<Time>)>,
    running: Vec<(Time, Option<Time>)>,
}

impl Plain {
    pub(crate) fn new(sizes: &[u32], window: Duration) -> Plain {
        Plain { sizes: sizes.to_vec(), window, queue: Default::default(), running: Vec::new() }
    }
}

impl Policy for Plain {
    fn offer(&mut self, now: Time, deadline: Option<Time>) -> bool {
        self.queue.push_back((now, deadline));
        true
    }

    fn next(&mut self, now: Time) -> Result<u32, Option<Time>> {
        if !self.running.is_empty() {
            return Err(None);
        }
        let Some((first, _)) = self.queue.front() else { return Err(None) };
        let largest = *self.sizes.last().unwrap() as usize;
        let until = *first + self.window;
        if self.queue.len() < largest && now < until {
            return Err(Some(until));
        }
        let count = self.queue.len().min(largest);
        self.running = self.queue.drain(..count).collect();
        Ok(*self.sizes.iter().find(|size| **size as usize >= count).unwrap())
    }

    fn finished(&mut self, now: Time) -> (Vec<Duration>, usize) {
        (self.running.drain(..).map(|(offered, _)| now.since(offered)).collect(), 0)
    }
}

/// Requests at a rate for some time; then what is left is run.
pub(crate) fn simulate(
    table: &Table,
    policy: &mut dyn Policy,
    rate: f64,
    seconds: f64,
    deadlines: bool,
    seed: u64,
) -> Figures {
    let mut random = Random(seed);
    let mut figures = Figures::default();
    let mut now = Time::default();
    let mut arrival = now + random.gap(rate);
    let mut end: Option<Time> = None;
    let last = Time(Duration::from_secs_f64(seconds));
    loop {
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
        let next = [(arrival <= last).then_some(arrival), end, wake].into_iter().flatten().min();
        let Some(next) = next else { break };
        now = next.max(now);
        if end == Some(now) {
            end = None;
            let (took, expired) = policy.finished(now);
            figures.expired += expired;
            figures.good += took.iter().filter(|took| **took <= table.useful).count();
            figures.took.extend(took);
        } else if arrival == now && arrival <= last {
            figures.offered += 1;
            let deadline = deadlines.then(|| now + table.useful);
            figures.refused += usize::from(!policy.offer(now, deadline));
            arrival = now + random.gap(rate);
        }
    }
    figures.took.sort_unstable();
    figures.seconds = now.0.as_secs_f64();
    figures
}

#[test]
fn figures() {
    for table in [&CORES, &GPU] {
        println!("{}, {:.0}/s", table.name, table.saturation());
        let sizes: Vec<u32> = table.runs.iter().map(|(size, _)| *size).collect();
        for load in [50, 80, 100, 120] {
            let rate = table.saturation() * f64::from(load) / 100.0;
            let seconds = 20000.0 / rate;
            let wait = Duration::from_millis(table.runs[0].1);
            for (name, policy, deadlines) in [
                ("single", &mut Plain::new(&sizes[..1], Duration::ZERO) as &mut dyn Policy, true),
                ("window, largest plan", &mut Plain::new(&sizes[sizes.len() - 1..], wait), true),
                ("window, planned sizes", &mut Plain::new(&sizes, wait), true),
                ("no window, planned sizes", &mut Plain::new(&sizes, Duration::ZERO), true),
                ("ours", &mut Ours::new(table), false),
                ("ours, deadlines", &mut Ours::new(table), true),
            ] {
                let f = simulate(table, policy, rate, seconds, deadlines, 7);
                println!(
                    "{load:4} % {name:<26} {:7.1}/s  good {:7.1}/s  p50 {:8.1}  p99 {:8.1} mean {:8.2}  refused {:5.1} %, expired {:5.2} %, {:.1} in a batch",
                    f.took.len() as f64 / f.seconds,
                    f.good as f64 / f.seconds,
                    f.percentile(50),
                    f.percentile(99),
                    f.mean(),
                    100.0 * f.refused as f64 / f.offered as f64,
                    100.0 * f.expired as f64 / f.offered as f64,
                    f.took.len() as f64 / f.batches as f64,
                );
            }
        }
    }
}

#[test]
fn windows() {
    const FLAT: Table = Table {
        name: "flat",
        runs: &[(1, 10), (2, 10), (4, 11), (8, 12), (16, 14), (32, 18)],
        useful: Duration::from_millis(100),
    };
    const STEP: Table = Table { name: "step", runs: &[(1, 10), (16, 12)], useful: Duration::from_millis(100) };
    const SUB: Table =
        Table { name: "sub", runs: &[(1, 10), (2, 12), (4, 16), (8, 24)], useful: Duration::from_millis(100) };
    for table in [&CORES, &GPU, &FLAT, &STEP, &SUB] {
        for load in [10, 20, 30, 50, 70, 90] {
            let rate = table.saturation() * f64::from(load) / 100.0;
            let f = simulate(table, &mut Ours::new(table), rate, 200000.0 / rate, false, 7);
            println!(
                "WW {:<10} {load:3} % mean {:8.3} p50 {:8.2} p99 {:8.2}  {:.2} in a batch",
                table.name,
                f.mean(),
                f.percentile(50),
                f.percentile(99),
                f.took.len() as f64 / f.batches as f64
            );
        }
    }
}

fn closed(table: &Table, policy: &mut dyn Policy, clients: usize, think: Duration, seconds: f64, seed: u64) -> Figures {
    let mut random = Random(seed);
    let mut figures = Figures::default();
    let mut now = Time::default();
    let mut arrivals: std::collections::BTreeSet<(Time, usize)> =
        (0..clients).map(|c| (now + think.mul_f64(2.0 * random.unit()), c)).collect();
    let mut end: Option<Time> = None;
    let last = Time(Duration::from_secs_f64(seconds));
    let mut n = clients;
    while now < last {
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
        let next = [arrivals.first().map(|a| a.0), end, wake].into_iter().flatten().min();
        let Some(next) = next else { break };
        now = next.max(now);
        if end == Some(now) {
            end = None;
            let (took, _) = policy.finished(now);
            for _ in &took {
                n += 1;
                arrivals.insert((now + think.mul_f64(2.0 * random.unit()), n));
            }
            figures.took.extend(took);
        } else if arrivals.first().is_some_and(|a| a.0 == now) {
            arrivals.pop_first();
            policy.offer(now, None);
        }
    }
    figures.took.sort_unstable();
    figures.seconds = now.0.as_secs_f64();
    figures
}

#[test]
fn closed_loops() {
    for table in [&CORES, &GPU] {
        for clients in [1, 2, 4, 8, 16, 32, 64] {
            for think in [50, 200, 1000, 10000] {
                let f = closed(table, &mut Ours::new(table), clients, Duration::from_micros(think), 60.0, 7);
                println!(
                    "CC {:<10} {clients:3} {think:5} {:8.1}/s mean {:8.3} p50 {:8.2} p99 {:8.2}  {:.2} in a batch",
                    table.name,
                    f.took.len() as f64 / f.seconds,
                    f.mean(),
                    f.percentile(50),
                    f.percentile(99),
                    f.took.len() as f64 / f.batches as f64
                );
            }
        }
    }
}
#[test]
fn look() {
    let mut ours = Ours::new(&GPU);
    ours.batcher.trace(3000);
    closed(&GPU, &mut ours, 32, Duration::from_micros(50), 5.0, 7);
    for (at, e) in ours.batcher.take_events() {
        if !matches!(e, dala_batch::Event::Took { .. }) {
            println!("LL {at} {e}");
        }
    }
}
