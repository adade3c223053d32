//! Batches that are with the device.

use std::time::Duration;

use crate::{BatchId, Key, Lane, Ticket, Time};

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
    /// Whether it passes others that run.
    pub(crate) overtakes: bool,
    /// How long others passed it.
    pub(crate) held_up: Duration,
}

impl Run {
    /// The highest lane of its requests.
    pub(crate) fn lane(&self) -> Lane {
        Lane::ALL.into_iter().find(|lane| self.items[lane.index()] > 0).unwrap_or(Lane::Background)
    }
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

    /// How many have a slot: those that pass others need none.
    pub(crate) fn slots(&self) -> usize {
        self.runs.iter().filter(|run| !run.overtakes).count()
    }

    /// Whether a batch of a lane may pass those that run.
    pub(crate) fn lets_pass(&self, lane: Lane) -> bool {
        self.runs.iter().all(|run| !run.overtakes && lane < run.lane())
    }

    /// Ends a batch; says also how long it kept the device busy. A device works on one after the other, whenever they were
    /// given to it; but for those that pass others.
    pub(crate) fn end(&mut self, id: BatchId, now: Time) -> Option<(Run, Duration)> {
        let place = self.runs.iter().position(|run| run.id == id)?;
        let run = self.runs.remove(place);
        if run.overtakes {
            for other in &mut self.runs {
                other.held_up += now.since(run.started.max(other.started));
            }
            let busy = now.since(run.started);
            return Some((run, busy));
        }
        let begun = self.last_end.map_or(run.started, |last| last.max(run.started));
        self.last_end = Some(now);
        let passing = self.runs.iter().filter(|other| other.overtakes);
        let held_up: Duration = passing.map(|other| now.since(other.started.max(begun))).sum();
        let busy = now.since(begun).saturating_sub(run.held_up).saturating_sub(held_up);
        Some((run, busy))
    }

    /// When the device is expected to be free, or was; none if nothing runs.
    pub(crate) fn free_at(&self) -> Option<Time> {
        self.free_of(|_| true)
    }

    fn free_of(&self, counts: impl Fn(&Run) -> bool) -> Option<Time> {
        let mut free = None;
        for run in self.runs.iter().filter(|run| counts(run)) {
            let before = free.unwrap_or(self.last_end.unwrap_or_default());
            free = Some(before.max(run.started) + run.expected + run.held_up);
        }
        free
    }

    /// How long until then. A device that should be free by now is expected to take as long again as it is late.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        self.until(now, self.free_at())
    }

    /// The same for a batch of a lane, which passes those of lower ones.
    pub(crate) fn remaining_for(&self, now: Time, lane: Lane) -> Duration {
        self.until(now, self.free_of(|run| run.lane() <= lane))
    }

    fn until(&self, now: Time, free: Option<Time>) -> Duration {
        free.map_or(Duration::ZERO, |free| free.since(now).max(now.since(free)))
    }
}
