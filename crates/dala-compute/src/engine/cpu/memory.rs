//! Memory that stays where it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubecl::server::Handle;
use cubecl_server::storage::{BytesResource, ManagedResource};

use super::super::error::EngineError;
use super::super::heap::{ChunkSlot, Heap};
use super::super::launch::Memory;

pub(super) type SharedHeap = Arc<Mutex<Heap<Arc<Chunk>>>>;

/// Memory of the engine's, held in its place.
pub(super) struct Chunk {
    pub(super) handle: Handle,
    pub(super) resource: ManagedResource<BytesResource>,
}

// SAFETY: the resource is only asked where it is.
unsafe impl Sync for Chunk {}

/// A whole chunk or a slot of one.
pub(super) struct CpuBlock {
    pub(super) handle: Handle,
    pub(super) at: *mut u8,
    /// Why it was not written.
    pub(super) failure: Mutex<Option<EngineError>>,
    pub(super) failed: Arc<AtomicUsize>,
    pub(super) _chunk: Arc<Chunk>,
    pub(super) slot: Option<(ChunkSlot, SharedHeap)>,
}

// SAFETY: the pointer is to memory that the chunk keeps in place, and whose use the callers of the engine order.
unsafe impl Send for CpuBlock {}
// SAFETY: as above.
unsafe impl Sync for CpuBlock {}

impl CpuBlock {
    pub(super) fn fail(&self, error: Option<EngineError>) {
        let mut failure = lock(&self.failure);
        match (failure.is_some(), error.is_some()) {
            (false, true) => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.failed.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        *failure = error;
    }
}

impl Drop for CpuBlock {
    fn drop(&mut self) {
        self.fail(None);
        if let Some((slot, heap)) = &self.slot {
            lock(heap).give_back(*slot);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a panic under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn piece(memory: &Memory) -> Result<&CpuBlock, EngineError> {
    memory.inner.downcast_ref::<CpuBlock>().ok_or_else(|| EngineError::internal("memory of another engine"))
}
