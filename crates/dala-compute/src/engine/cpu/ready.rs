//! Launches that are ready: code, pointers, numbers, and nothing left to look up.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use cubecl_llvm::PlironData;

use super::code::Code;
use super::server::Taken;
use super::subnormal::Flushing;
use super::workers::{Enlisted, Helpers, MAX_UNITS, Units};

/// Launches that take longer than this on one thread are shared with helpers that are awake, in nanoseconds.
const WORTH_SHARING: u32 = 3_000;
/// Launches that take longer than this are worth waking helpers for: that takes the system some 20 µs.
const WORTH_WAKING: u32 = 40_000;
/// How many times a launch is timed before it is known, and then once in so many times.
const TIMED: u32 = 16;

/// What is known of a launch's length. Launches of one kind share it.
pub(super) struct Length {
    /// On one thread, in nanoseconds: the least that was seen.
    serial: AtomicU32,
    runs: AtomicU32,
}

impl Length {
    /// A first guess, from the bytes that are touched.
    pub(super) fn guess(bytes: u64) -> Length {
        Length { serial: AtomicU32::new((bytes / 16).min(u64::from(u32::MAX)) as u32), runs: AtomicU32::new(0) }
    }

    fn get(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    fn is_to_be_timed(&self) -> bool {
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
        runs < TIMED || runs.is_multiple_of(256)
    }

    /// Learns how long a run took on so many threads. The first measurement takes the place of the guess.
    fn learn(&self, start: Instant, threads: u32) {
        let nanos = start.elapsed().as_nanos().saturating_mul(threads.into()).min(u32::MAX.into()) as u32;
        let known = if self.runs.load(Ordering::Relaxed) <= 1 { u32::MAX } else { self.get() };
        self.serial.store(nanos.min(known), Ordering::Relaxed);
    }
}

/// A launch over known memory.
pub(super) struct Ready {
    work: Recorded,
    units: u32,
    length: Arc<Length>,
}

struct Recorded {
    code: Code,
    data: PlironData,
    flushes: bool,
}

impl Units for Recorded {
    fn run_unit(&self, unit: u32) {
        let _flushing = self.flushes.then(Flushing::begin);
        self.run(&mut self.arguments(), unit);
    }
}

impl Recorded {
    /// The arguments of a run, which differ in the unit. A clone would count references, on a line that all threads write.
    fn arguments(&self) -> ManuallyDrop<PlironData> {
        // SAFETY: it is never dropped, and what it refers to lives in `self` as long as it does: it stays in here.
        ManuallyDrop::new(unsafe { ptr::read(&raw const self.data) })
    }

    fn run(&self, arguments: &mut PlironData, unit: u32) {
        let [x, y, _] = self.code.units;
        arguments.set_unit_pos([unit % x, unit / x % y, unit / (x * y)]);
        self.code.engine.run_kernel(arguments);
    }
}

impl Ready {
    /// The launch that was recorded, with its buffers elsewhere.
    pub(super) fn new(
        taken: &Taken,
        buffers: impl Iterator<Item = *mut u8>,
        length: Arc<Length>,
        flushes: bool,
    ) -> Ready {
        let pointers = buffers.map(<*mut u8>::cast).collect();
        let data = PlironData::new(pointers, taken.numbers.clone(), taken.cubes, Vec::new());
        let code = taken.code.clone();
        Ready { units: code.units.iter().product(), work: Recorded { code, data, flushes }, length }
    }

    fn is_shareable(&self) -> bool {
        (2..=MAX_UNITS).contains(&self.units) && self.length.get() > WORTH_SHARING
    }

    fn alone(&self) {
        let _flushing = self.work.flushes.then(Flushing::begin);
        let mut arguments = self.work.arguments();
        for unit in 0..self.units {
            self.work.run(&mut arguments, unit);
        }
    }
}

/// Runs of launches, one after the other, on this thread and its helpers.
pub(super) struct Pass {
    threads: usize,
    helpers: Option<Enlisted>,
    /// Whether the launches that could be shared are long enough together to wake helpers.
    wakes: bool,
}

impl Pass {
    /// A pass over these launches, on at most so many threads.
    pub(super) fn new<'a>(threads: usize, launches: impl Iterator<Item = &'a Ready>) -> Pass {
        let mut shareable = 0u64;
        if threads > 1 {
            shareable =
                launches.filter(|launch| launch.is_shareable()).map(|launch| u64::from(launch.length.get())).sum();
        }
        let helpers = if shareable > 0 { Helpers::get().enlist(threads - 1) } else { None };
        Pass { threads, helpers, wakes: shareable > u64::from(WORTH_WAKING) }
    }

    /// Runs a launch. When this returns, it is done.
    pub(super) fn run(&self, launch: &Ready) {
        let timed = launch.length.is_to_be_timed().then(Instant::now);
        let helpers = self.helpers.as_ref().filter(|_| launch.is_shareable());
        let threads = match helpers.filter(|helpers| self.wakes || helpers.are_awake()) {
            Some(helpers) => {
                helpers.share(&launch.work, launch.units);
                launch.units.min(self.threads as u32)
            }
            None => {
                launch.alone();
                1
            }
        };
        if let Some(start) = timed {
            launch.length.learn(start, threads);
        }
    }
}
