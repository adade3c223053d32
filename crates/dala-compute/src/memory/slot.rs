//! What a buffer shares with the commands that use it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dala_schedule::{CommandId, ResourceId};
use dala_spec::TensorType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::allocation::Allocation;
use super::id::BufferId;
use crate::error::Error;

/// What users hold of a buffer, beside its device.
pub(crate) struct Held {
    pub(crate) ty: TensorType,
    pub(crate) slot: Arc<Slot>,
    directory: Arc<Directory>,
}

impl Held {
    /// A buffer over memory that nobody wrote.
    pub(crate) fn new(ty: TensorType, memory: Allocation, directory: &Arc<Directory>) -> Arc<Held> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = BufferId(NEXT.fetch_add(1, Ordering::Relaxed));
        // Nothing is nothing, whoever wrote it.
        let poison = (!ty.shape.is_empty()).then(|| Arc::new(Error::Unwritten { buffer: id }));
        let state = State { memory: Some(Arc::new(memory)), writer: CommandId(0), poison, holders: SmallVec::new() };
        let slot = Arc::new(Slot { id, state: Mutex::new(state) });
        let held = Arc::new(Held { ty, slot, directory: directory.clone() });
        directory.part(id).insert(id, Arc::downgrade(&held));
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.directory.part(self.slot.id).remove(&self.slot.id);
    }
}

/// The buffers of a device that somebody holds, by id. In parts: a table that grows moves all it holds, which takes too long
/// for whoever makes a buffer just then.
#[derive(Default)]
pub(crate) struct Directory([Mutex<FxHashMap<BufferId, Weak<Held>>>; 32]);

impl Directory {
    fn part(&self, id: BufferId) -> MutexGuard<'_, FxHashMap<BufferId, Weak<Held>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0[id.0 as usize % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        (0..self.0.len() as u64).map(|part| self.part(BufferId(part)).len()).sum()
    }

    /// A buffer that somebody still holds.
    pub(crate) fn find(&self, id: BufferId) -> Result<Arc<Held>, Error> {
        self.part(id).get(&id).and_then(Weak::upgrade).ok_or(Error::UnknownBuffer { buffer: id })
    }
}

/// What holds the memory of buffers, and lets go of it when one of them is freed.
pub(crate) trait Holder: Send + Sync {
    fn let_go(&self);
}

/// What a buffer shares with the commands that use it. They do not keep its device alive.
pub(crate) struct Slot {
    id: BufferId,
    state: Mutex<State>,
}

struct State {
    memory: Option<Arc<Allocation>>,
    /// The last command that was to write it, of those that ended.
    writer: CommandId,
    /// Why the contents are not to be trusted.
    poison: Option<Arc<Error>>,
    holders: SmallVec<[Weak<dyn Holder>; 1]>,
}

impl Slot {
    pub(crate) fn id(&self) -> BufferId {
        self.id
    }

    pub(crate) fn resource(&self) -> ResourceId {
        ResourceId(self.id.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done by a panic under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what is told when the buffer is freed.
    pub(crate) fn held_by(&self, holder: Weak<dyn Holder>) {
        let holders = &mut self.state().holders;
        if holders.len().is_power_of_two() {
            holders.retain(|holder| holder.strong_count() > 0);
        }
        holders.push(holder);
    }

    /// The memory, whatever is in it.
    pub(crate) fn memory(&self) -> Result<Arc<Allocation>, Error> {
        self.state().memory.clone().ok_or(Error::Freed { buffer: self.id })
    }

    /// Gives the memory back once nothing uses it any more.
    pub(crate) fn free(&self) {
        let (memory, holders) = {
            let mut state = self.state();
            (state.memory.take(), std::mem::take(&mut state.holders))
        };
        // Not under the lock: giving memory back takes others.
        holders.iter().filter_map(Weak::upgrade).for_each(|holder| holder.let_go());
        drop(memory);
    }

    /// Whether anyone knows what is in it.
    pub(crate) fn check_readable(&self) -> Result<(), Error> {
        match &self.state().poison {
            Some(cause) => Err(Error::Poisoned { buffer: self.id, cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Records how a command that was to write it ended. One that came later may have ended before: then that counts.
    pub(crate) fn settle(&self, command: CommandId, result: &Result<(), Arc<Error>>) {
        let mut state = self.state();
        if command >= state.writer {
            state.writer = command;
            // The first cause, not the chain.
            state.poison = result.as_ref().err().map(|error| match &**error {
                Error::Poisoned { cause, .. } | Error::DependencyFailed { cause, .. } => cause.clone(),
                _ => error.clone(),
            });
        }
    }
}
