//! How long calls keep a scheduler of the VM busy, when somebody wants to know.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::lock;

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: Mutex<BTreeMap<&'static str, Times>> = Mutex::new(BTreeMap::new());

/// The calls of one function, in nanoseconds of its thread's CPU time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) calls: u64,
    pub(crate) max: u64,
    pub(crate) total: u64,
}

/// Starts from nothing, or stops.
pub(crate) fn switch(on: bool) {
    if on {
        lock(&TIMES).clear();
    }
    ON.store(on, Ordering::Relaxed);
}

/// What was measured, by function.
pub(crate) fn times() -> Vec<(&'static str, Times)> {
    lock(&TIMES).iter().map(|(name, times)| (*name, *times)).collect()
}

/// Calls `call`, and measures it if somebody wants to know.
pub(crate) fn measured<T>(name: &'static str, call: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return call();
    }
    let start = cpu_time();
    let result = call();
    let took = cpu_time().saturating_sub(start);
    let mut times = lock(&TIMES);
    let times = times.entry(name).or_default();
    *times = Times { calls: times.calls + 1, max: times.max.max(took), total: times.total + took };
    result
}

/// The CPU time of this thread.
#[cfg(unix)]
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every unix, and the result is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Elsewhere, time as such: an upper bound.
#[cfg(not(unix))]
fn cpu_time() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}
