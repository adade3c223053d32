//! One run of compiled stages.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::binding::{Binding, Binds, Bound};
use super::compiled::{Compiled, Segment, Values};
use super::frame::Frames;
use crate::engine::EngineError;
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

impl Drop for Run {
    fn drop(&mut self) {
        if let (Keeps::Frames(frames), Some(bound)) = (&self.keeps, self.bound.take()) {
            frames.put(bound.frame.clone());
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
            Keeps::Frames(frames) => Binds::Again(frames.take()),
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
}
