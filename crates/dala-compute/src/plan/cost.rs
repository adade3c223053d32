//! How long launches keep the device busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dala_plan::Task;

/// What a kind of launch takes, as it was measured.
#[derive(Debug)]
pub(super) struct Cost {
    /// In nanoseconds; 0 if it was never measured.
    measured: AtomicU64,
    /// The longest that can be, if its size tells.
    ceiling: Duration,
}

impl Cost {
    pub(super) fn of(task: &Task) -> Cost {
        Cost { measured: AtomicU64::new(0), ceiling: ceiling(task) }
    }

    /// How long it keeps the device busy, if that was measured. On a machine that does other things too, a measurement is
    /// mostly waiting: then small work would never share a pass.
    pub(super) fn get(&self) -> Option<Duration> {
        let nanoseconds = self.measured.load(Ordering::Relaxed);
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds).min(self.ceiling))
    }

    /// Learns from a measurement. `expected` is what was known when the work was chosen: launches of one kind that run
    /// together are measured once.
    pub(super) fn learn(&self, expected: Option<Duration>, measured: Duration) {
        let known = expected.map_or(measured, |expected| {
            // Waits make measurements too long, never too short.
            let (old, new) = if measured < expected { (1, 3) } else { (3, 1) };
            (expected * old + measured * new) / 4
        });
        self.measured.store(known.as_nanos().clamp(1, u64::MAX.into()) as u64, Ordering::Relaxed);
    }
}

/// What a task takes at most, generously, on a slow device: known where each element is computed by itself.
fn ceiling(task: &Task) -> Duration {
    const LAUNCH: Duration = Duration::from_micros(30);
    const OPERATION_NANOSECONDS: u64 = 4;
    let Task::Map(map) = task else { return Duration::MAX };
    let operations = map.program.weight() + map.program.ops().len() as u64;
    let elements = map.shape.len() as u64;
    LAUNCH + Duration::from_nanos(elements.saturating_mul(operations).saturating_mul(OPERATION_NANOSECONDS))
}
