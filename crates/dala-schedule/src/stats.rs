//! What happened so far.

use std::time::Duration;

use crate::{End, Governor};

/// What became of commands so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands that were accepted.
    pub submitted: u64,
    /// Commands that completed.
    pub completed: u64,
    /// Commands that failed, for whatever reason.
    pub failed: u64,
    /// Commands that were cancelled.
    pub cancelled: u64,
    /// Of the failed ones: those whose deadline passed before they started.
    pub deadline_exceeded: u64,
    /// Of the failed ones: those that made room for newer ones.
    pub dropped: u64,
    /// Passes that were executed.
    pub passes: u64,
    /// How long passes kept the device busy.
    pub busy: Duration,
}

/// One lane, now and so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Commands that have not started.
    pub pending: usize,
    /// How long its passes kept the device busy.
    pub busy: Duration,
}

/// A queue, now and so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// What became of commands.
    pub totals: Totals,
    /// Each lane, in the order of [`Lane::ALL`](crate::Lane::ALL).
    pub lanes: [LaneStats; 3],
    /// How hard the device may work.
    pub governor: Governor,
}

impl Totals {
    pub(crate) fn count<E>(&mut self, end: &End<E>) {
        match end {
            End::Completed => self.completed += 1,
            End::Cancelled => self.cancelled += 1,
            other => {
                self.failed += 1;
                match other {
                    End::DeadlineExceeded => self.deadline_exceeded += 1,
                    End::Dropped => self.dropped += 1,
                    _ => {}
                }
            }
        }
    }
}
