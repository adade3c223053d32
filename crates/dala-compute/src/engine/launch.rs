//! What engines run: tasks over memory.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dala_kernels::launch::Geometry;
use dala_plan::{DeviceFacts, Task};
use dala_spec::Scalar;
use smallvec::SmallVec;

/// A piece of device memory. Dropping the last clone gives it back.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Usable bytes: the size asked for, rounded up.
    pub(crate) capacity: u64,
    /// The engine's own handle.
    pub(crate) inner: Arc<dyn Any + Send + Sync>,
}

impl Memory {
    /// Whether both are the same piece of memory.
    pub(crate) fn is(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// A task as it is launched again and again, over whatever memory.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) task: Task,
    pub(crate) geometry: Geometry,
    /// What an engine keeps, so that the next launch is quicker.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "only the CPU device keeps them"))]
    pub(super) notes: Notes,
}

impl Step {
    pub(crate) fn new(task: Task, facts: &DeviceFacts) -> Step {
        Step { geometry: Geometry::choose(&task, facts), task, notes: Notes::default() }
    }
}

/// One launch of a step.
pub(crate) struct Launch {
    /// What an engine keeps of it, if it is run again. First, because it is to be dropped before the memory.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "only the CPU device keeps them"))]
    pub(super) notes: Notes,
    pub(crate) step: Arc<Step>,
    pub(crate) reads: SmallVec<[Memory; 4]>,
    pub(crate) outputs: SmallVec<[Memory; 2]>,
    pub(crate) params: SmallVec<[Scalar; 4]>,
    /// Whether it is run again and again as it is, so that it is worth an engine's while to prepare.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "only the CPU device keeps them"))]
    pub(super) again: bool,
}

impl Launch {
    pub(crate) fn new(
        step: &Arc<Step>,
        reads: SmallVec<[Memory; 4]>,
        outputs: SmallVec<[Memory; 2]>,
        params: SmallVec<[Scalar; 4]>,
        again: bool,
    ) -> Launch {
        Launch { notes: Notes::default(), step: step.clone(), reads, outputs, params, again }
    }

    /// For each output, the read whose memory it shares, if any.
    pub(super) fn aliases(&self) -> SmallVec<[Option<usize>; 2]> {
        self.outputs.iter().map(|output| self.reads.iter().position(|read| read.is(output))).collect()
    }
}

/// Launches over known memory, one after the other: what an engine runs.
pub(crate) struct Sequence {
    /// What an engine keeps of it, if it is repeated. First, because it is to be dropped before the memory.
    pub(super) notes: Notes,
    all: Arc<[Arc<Launch>]>,
    /// Which of them are its own.
    own: Range<usize>,
    /// The memory that they write, each once.
    pub(crate) outputs: SmallVec<[Memory; 2]>,
    /// Whether it is run again and again as it is, so that it is worth an engine's while to prepare it as a whole.
    pub(super) repeated: bool,
}

impl Sequence {
    /// Some of these launches.
    pub(crate) fn new(all: &Arc<[Arc<Launch>]>, own: Range<usize>, repeated: bool) -> Sequence {
        let mut outputs: SmallVec<[Memory; 2]> = SmallVec::new();
        for output in all[own.clone()].iter().flat_map(|launch| &launch.outputs) {
            if !outputs.iter().any(|own| own.is(output)) {
                outputs.push(output.clone());
            }
        }
        Sequence { all: all.clone(), own, outputs, repeated, notes: Notes::default() }
    }

    /// What tracing calls it while it is handed to the device.
    pub(super) fn span(&self) -> tracing::span::EnteredSpan {
        let tasks = || self.launches().iter().map(|launch| launch.step.task.kind().describe()).collect::<Vec<_>>();
        tracing::trace_span!("launch", launches = self.own.len(), tasks = tasks().join(" | ")).entered()
    }

    /// Its launches, in order.
    pub(crate) fn launches(&self) -> &[Arc<Launch>] {
        &self.all[self.own.clone()]
    }
}

/// Notes of an engine's, about which others know nothing.
#[derive(Default)]
pub(super) struct Notes(OnceLock<Box<dyn Any + Send + Sync>>);

impl Notes {
    #[cfg(feature = "cpu")]
    pub(super) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get().and_then(|notes| notes.downcast_ref())
    }

    /// Notes something, if nothing was noted yet.
    #[cfg(feature = "cpu")]
    pub(super) fn put<T: Send + Sync + 'static>(&self, note: T) {
        self.0.get_or_init(|| Box::new(note));
    }

    pub(super) fn get_or_put<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "notes" } else { "no notes" })
    }
}
