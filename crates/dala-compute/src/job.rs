//! A command's work, ready to launch: what stages come down to once they are validated and planned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dala_schedule::{ResourceId, Work};
use dala_spec::Scalar;
use smallvec::SmallVec;

use crate::buffer::Slot;
use crate::host::{HostData, Readback};
use crate::plan::CallPlan;
use crate::pool::Allocation;
use crate::replay::Run;

/// A stage, ready to launch.
pub(crate) enum Prepared {
    /// A plan over buffers.
    Launch(Planned),
    /// A segment of a compiled pipeline, by its number.
    Segment(Run, usize),
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

/// A plan with its buffers and run-time values. Holding the memory keeps it alive until the command ended, whatever
/// becomes of the buffers.
pub(crate) struct Planned {
    pub(crate) plan: Arc<CallPlan>,
    /// What copies the output, if it is read after it was written.
    pub(crate) copy: Option<Arc<CallPlan>>,
    pub(crate) inputs: SmallVec<[Arc<Allocation>; 3]>,
    pub(crate) output: Arc<Allocation>,
    /// The values of each step.
    pub(crate) params: Vec<Vec<Scalar>>,
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
            Prepared::Launch(planned) => planned.plan.cost(),
            Prepared::Segment(run, index) => run.plan.compiled.cost(&run.segments[*index]),
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
    reads: SmallVec<[ResourceId; 3]>,
    writes: SmallVec<[ResourceId; 1]>,
    read: SmallVec<[Arc<Slot>; 3]>,
    pub(crate) written: SmallVec<[Arc<Slot>; 1]>,
}

impl Job {
    /// Adds a stage that reads and then writes these buffers.
    pub(crate) fn push(&mut self, stage: Prepared, reads: &[&Arc<Slot>], writes: &[&Arc<Slot>]) {
        self.touch(reads, writes);
        self.stages.push(stage);
    }

    /// Says that it reads, and then writes, these buffers.
    pub(crate) fn touch(&mut self, reads: &[&Arc<Slot>], writes: &[&Arc<Slot>]) {
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
            Some(Prepared::Segment(run, index)) => {
                let compiled = &run.plan.compiled;
                (compiled.stage_of(&run.segments[*index]), compiled.spec.stages.len())
            }
            _ => (stage, self.stages.len()),
        }
    }

    /// What one of its stages is called.
    pub(crate) fn label(&self, stage: usize) -> String {
        match self.stages.get(stage) {
            Some(Prepared::Segment(run, index)) => run.plan.compiled.label(&run.segments[*index]),
            Some(Prepared::Launch(planned)) => planned.plan.name().to_owned(),
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

impl Work for Job {
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
