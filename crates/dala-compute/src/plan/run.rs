//! One run of compiled stages.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use dala_plan::plan::BlueprintStep;
use smallvec::SmallVec;

use super::LaunchTime;
use super::binding::{Binding, Binds, Bound, Frame};
use super::compiled::{Compiled, Segment, Values};
use crate::core::Core;
use crate::engine::EngineError;
use crate::Error;
use crate::memory::{Allocation, Holder, MemoryPool, Slot};

/// Compiled stages with the memory and the values of one run. Holding the memory keeps it alive until the command ended,
/// whatever becomes of the buffers.
pub(crate) struct Run {
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) segments: Arc<[Segment]>,
    values: Arc<Values>,
    memory: SmallVec<[Arc<Allocation>; 3]>,
    /// What is bound for this run, by the first of its segments.
    bound: OnceLock<Arc<Bound>>,
    /// What is kept of it for the next run.
    keeps: Keeps,
}

/// What is kept for the next run.
pub(crate) enum Keeps {
    /// Nothing: there may be none.
    Nothing,
    /// Everything: it is over the same memory.
    All(Kept),
    /// What does not depend on the users' buffers.
    Frames(Arc<Frames>),
}

/// What runs that have ended left for the next.
#[derive(Default)]
pub(crate) struct Frames(Mutex<Vec<Arc<Frame>>>);

impl Frames {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Frame>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let (Keeps::Frames(frames), Some(bound)) = (&self.keeps, self.bound.take()) {
            let mut frames = frames.lock();
            // Runs side by side are rare: the memory of one is kept.
            if frames.is_empty() {
                frames.push(bound.frame.clone());
            }
        }
    }
}

/// What a plan that users hold keeps between runs.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) binding: Arc<Binding>,
    pub(crate) slots: Arc<[Arc<Slot>]>,
}

impl Run {
    pub(crate) fn new(
        compiled: &Arc<Compiled>,
        memory: SmallVec<[Arc<Allocation>; 3]>,
        values: Arc<Values>,
        keeps: Keeps,
    ) -> Run {
        let segments = compiled.segments();
        Run { compiled: compiled.clone(), segments, values, memory, bound: OnceLock::new(), keeps }
    }

    /// Its launches over its memory. For the thread that drives the device; `settle` waits for what was launched, where data must
    /// be copied first.
    pub(crate) fn bound(&self, pool: &MemoryPool, settle: impl FnOnce()) -> Result<&Arc<Bound>, EngineError> {
        if let Some(bound) = self.bound.get() {
            return Ok(bound);
        }
        let binds = match &self.keeps {
            Keeps::Nothing => Binds::Once,
            Keeps::All(kept) => match kept.binding.get() {
                Some(bound) => return Ok(self.bound.get_or_init(|| bound)),
                None => Binds::Repeated,
            },
            Keeps::Frames(frames) => Binds::Again(frames.lock().pop()),
        };
        let bound = Arc::new(Bound::new(&self.compiled, &self.memory, &self.values, binds, pool, settle)?);
        if let Keeps::All(Kept { binding, slots }) = &self.keeps {
            binding.put(bound.clone());
            // A buffer that was freed meanwhile found nothing to let go of.
            if slots.iter().any(|slot| slot.memory().is_err()) {
                binding.let_go();
            }
        }
        Ok(self.bound.get_or_init(|| bound))
    }

    /// Runs it launch by launch, and says how long the device took for each.
    pub(crate) fn profile(
        &self,
        core: &Core,
        reads: &[&Arc<Slot>],
        writes: &[&Arc<Slot>],
    ) -> Result<Vec<LaunchTime>, Error> {
        let times = core.access(reads, writes, || {
            let bound = self.bound(&core.pool, || ())?;
            bound.launches.iter().map(|launch| core.pool.engine.profile(launch)).collect::<Result<Vec<_>, _>>()
        })?;
        let steps = self.compiled.blueprint.steps.iter();
        let time = |(index, (step, time)): (usize, (&BlueprintStep, Duration))| LaunchTime {
            stages: step.stages.clone(),
            name: self.compiled.label(&(index..index + 1)),
            task: step.task.kind().describe(),
            bytes: step.bytes,
            time,
        };
        Ok(steps.zip(times).enumerate().map(time).collect())
    }
}
