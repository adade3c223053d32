//! One run of compiled stages.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::binding::{Binding, Bound};
use super::compiled::{Compiled, Segment, Values};
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
    /// Where it is kept for the next run, if there is to be one.
    kept: Option<Kept>,
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
        kept: Option<Kept>,
    ) -> Run {
        let segments = compiled.segments();
        Run { compiled: compiled.clone(), segments, values, memory, bound: OnceLock::new(), kept }
    }

    /// Its launches over its memory. For the thread that drives the device; `settle` waits for what was launched, where data must
    /// be copied first.
    pub(crate) fn bound(&self, pool: &MemoryPool, settle: impl FnOnce()) -> Result<&Arc<Bound>, EngineError> {
        if let Some(bound) = self.bound.get() {
            return Ok(bound);
        }
        if let Some(bound) = self.kept.as_ref().and_then(|kept| kept.binding.get()) {
            return Ok(self.bound.get_or_init(|| bound));
        }
        let repeated = self.kept.is_some();
        let bound = Arc::new(Bound::new(&self.compiled, &self.memory, &self.values, repeated, pool, settle)?);
        if let Some(Kept { binding, slots }) = &self.kept {
            binding.put(bound.clone());
            // A buffer that was freed meanwhile found nothing to let go of.
            if slots.iter().any(|slot| slot.memory().is_err()) {
                binding.let_go();
            }
        }
        Ok(self.bound.get_or_init(|| bound))
    }
}
