//! A command's work, ready to launch: what stages come down to once they are validated and planned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dala_schedule::{ResourceId, Schedulable};
use smallvec::SmallVec;

use crate::memory::{Allocation, HostData, Readback, Slot};
use crate::plan::Run;

/// A stage, ready to launch.
pub(crate) enum Prepared {
    /// A segment of a run, by its number.
    Segment(Arc<Run>, usize),
    /// Data for a buffer.
    Upload { to: Arc<Allocation>, data: HostData },
    /// A buffer's data, for the host.
    Download { from: Arc<Allocation>, bytes: usize, into: Readback },
    /// What the thread that submitted it does itself.
    ByCaller,
    /// No work: a barrier, or an output without elements.
    Nothing,
    /// A kernel that fails.
    #[cfg(test)]
    Faulty { output: Arc<Allocation>, fault: crate::engine::tests::Fault },
}

/// Bytes that are copied to or from the device in a microsecond, at worst: what is not measured by kind must be guessed by
/// size.
const COPIED_PER_MICROSECOND: usize = 1000;

/// How long such a copy takes, at worst.
fn copy_time(bytes: usize) -> Duration {
    Duration::from_micros((20 + bytes / COPIED_PER_MICROSECOND) as u64)
}

impl Prepared {
    fn cost(&self) -> Option<Duration> {
        match self {
            Prepared::Segment(run, index) => run.compiled.cost(&run.segments[*index]),
            Prepared::Upload { data, .. } => Some(copy_time(data.len())),
            Prepared::Download { bytes, .. } => Some(copy_time(*bytes)),
            Prepared::Nothing => Some(Duration::ZERO),
            Prepared::ByCaller => None,
            #[cfg(test)]
            Prepared::Faulty { .. } => None,
        }
    }
}

/// The work of one command.
#[derive(Default)]
pub(crate) struct Job {
    /// Whether calls that were not planned yet are refused while it is prepared.
    pub(crate) only_planned: bool,
    /// When it was submitted, if somebody wants to know.
    pub(crate) submitted: Option<Instant>,
    pub(crate) stages: SmallVec<[Prepared; 1]>,
    /// The user's stage that each of them belongs to.
    of: SmallVec<[usize; 1]>,
    /// How many stages the user has.
    users: usize,
    reads: SmallVec<[ResourceId; 3]>,
    writes: SmallVec<[ResourceId; 1]>,
    read: SmallVec<[Arc<Slot>; 3]>,
    pub(crate) written: SmallVec<[Arc<Slot>; 1]>,
}

impl Job {
    /// What is added from now on belongs to the user's next stage.
    pub(crate) fn begin_stage(&mut self) {
        self.users += 1;
    }

    /// Adds a stage that reads and then writes these buffers.
    pub(crate) fn push(&mut self, stage: Prepared, reads: &[&Arc<Slot>], writes: &[&Arc<Slot>]) {
        self.touch(reads, writes);
        self.add(stage);
    }

    /// Adds a run, which reads and then writes these buffers.
    pub(crate) fn push_run(&mut self, run: Run, reads: &[&Arc<Slot>], writes: &[&Arc<Slot>]) {
        self.touch(reads, writes);
        let run = Arc::new(run);
        if run.segments.is_empty() {
            self.add(Prepared::Nothing);
        }
        for index in 0..run.segments.len() {
            self.add(Prepared::Segment(run.clone(), index));
        }
    }

    /// The run of compiled stages that it is, if it is one.
    pub(crate) fn run(&self) -> Option<&Arc<Run>> {
        self.stages.iter().find_map(|stage| match stage {
            Prepared::Segment(run, _) => Some(run),
            _ => None,
        })
    }

    fn add(&mut self, stage: Prepared) {
        self.stages.push(stage);
        self.of.push(self.users.saturating_sub(1));
    }

    /// Says that it reads, and then writes, these buffers.
    fn touch(&mut self, reads: &[&Arc<Slot>], writes: &[&Arc<Slot>]) {
        for slot in reads {
            // What it wrote itself comes from nobody else.
            if !self.reads.contains(&slot.resource()) && !self.writes.contains(&slot.resource()) {
                self.reads.push(slot.resource());
                self.read.push(Arc::clone(slot));
            }
        }
        for slot in writes {
            if !self.writes.contains(&slot.resource()) {
                self.writes.push(slot.resource());
                self.written.push(Arc::clone(slot));
            }
        }
    }

    /// The user's stage that one of its own belongs to, and how many the user has.
    pub(crate) fn users_stage(&self, stage: usize) -> (usize, usize) {
        match self.stages.get(stage) {
            // A plan by itself, whose stages are the user's.
            Some(Prepared::Segment(run, index)) if self.users == 0 => {
                (run.compiled.stage_of(&run.segments[*index]), run.compiled.blueprint.labels.len())
            }
            _ => (self.of.get(stage).copied().unwrap_or(0), self.users),
        }
    }

    /// What one of its stages is called.
    pub(crate) fn label(&self, stage: usize) -> String {
        match self.stages.get(stage) {
            Some(Prepared::Segment(run, index)) => run.compiled.label(&run.segments[*index]),
            Some(Prepared::Upload { .. }) => "write".to_owned(),
            Some(Prepared::Download { .. }) => "read".to_owned(),
            _ => "nothing".to_owned(),
        }
    }

    /// A buffer that it reads.
    pub(crate) fn buffer_read(&self, resource: ResourceId) -> Option<&Arc<Slot>> {
        self.read.iter().find(|slot| slot.resource() == resource)
    }
}

impl Schedulable for Job {
    fn stages(&self) -> usize {
        self.stages.len()
    }

    fn cost(&self, stage: usize) -> Option<Duration> {
        self.stages.get(stage).and_then(Prepared::cost)
    }

    fn reads(&self) -> &[ResourceId] {
        &self.reads
    }

    fn writes(&self) -> &[ResourceId] {
        &self.writes
    }

    fn needs_caller(&self) -> bool {
        matches!(self.stages[..], [Prepared::ByCaller])
    }
}
