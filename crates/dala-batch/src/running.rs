//! Batches that are with the device.

use std::time::Duration;

use crate::{BatchId, Key, Ticket, Time};

/// A batch that was given out.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: BatchId,
    pub(crate) key: Key,
    pub(crate) size: u32,
    pub(crate) tickets: Vec<Ticket>,
    /// Its items in each lane.
    pub(crate) items: [u32; 3],
    pub(crate) started: Time,
    /// What it is expected to take; zero if nobody knows.
    pub(crate) expected: Duration,
}

/// Those that run, in the order in which they were given out.
#[derive(Debug, Default)]
pub(crate) struct Running {
    runs: Vec<Run>,
    /// When the last one ended.
    pub(crate) last_end: Option<Time>,
    /// How many there were.
    count: u64,
}

impl Running {
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn items(&self) -> u32 {
        self.runs.iter().flat_map(|run| run.items).sum()
    }

    pub(crate) fn next_id(&mut self) -> BatchId {
        self.count += 1;
        BatchId(self.count)
    }

    pub(crate) fn start(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Ends a batch; says also how long it kept the device busy. A device works on one after the other, whenever they were
    /// given to it.
    pub(crate) fn end(&mut self, id: BatchId, now: Time) -> Option<(Run, Duration)> {
        let place = self.runs.iter().position(|run| run.id == id)?;
        let run = self.runs.remove(place);
        let busy = now.since(self.last_end.map_or(run.started, |last| last.max(run.started)));
        self.last_end = Some(now);
        Some((run, busy))
    }

    /// When the device is expected to be free, or was; none if nothing runs.
    pub(crate) fn free_at(&self) -> Option<Time> {
        let mut free = self.last_end.unwrap_or_default();
        for run in &self.runs {
            free = free.max(run.started) + run.expected;
        }
        (!self.runs.is_empty()).then_some(free)
    }

    /// How long until then. A device that should be free by now is expected to take as long again as it is late.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        self.free_at().map_or(Duration::ZERO, |free| free.since(now).max(now.since(free)))
    }
}
