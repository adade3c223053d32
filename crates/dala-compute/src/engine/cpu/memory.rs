//! Memory of our own. The engine only has names for it: its pools write all memory that they take, keep whatever they had, and
//! round up to pages as large as the largest piece.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubecl::server::{BufferBinding, Handle};
use dala_spec::Data;

use super::super::error::EngineError;
use super::super::heap::{ChunkSlot, Heap};
use super::super::launch::Memory;

pub(super) type SharedHeap = Arc<Mutex<Heap<Arc<Chunk>>>>;

/// Where vectors of any width are aligned.
const ALIGNMENT: usize = 64;

/// Memory in a place where it stays. What is in it is undefined.
struct Region {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: it owns the memory, and the callers of the engine order its use.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// None if the system has no such memory.
    fn new(bytes: u64) -> Option<Region> {
        let layout = Layout::from_size_align(usize::try_from(bytes.max(1)).ok()?, ALIGNMENT).ok()?;
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc(layout) };
        (!at.is_null()).then_some(Region { at, layout })
    }

    fn bytes(&self) -> u64 {
        self.layout.size() as u64
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody else gives it back.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Memory that nobody uses, for the next that asks: the system hands out fresh memory page by page, which takes longer than most work
/// on it.
#[derive(Default)]
pub(super) struct Spare {
    /// What was given back first comes first.
    regions: VecDeque<Region>,
    /// The bytes of all regions, used or not.
    held: u64,
}

impl Spare {
    /// Memory for so many bytes: the smallest that fits and is not twice too large, or new memory. For that, as much as it takes is
    /// given back to the system, so that what is held does not grow while there is spare memory of other sizes.
    fn take(spare: &Mutex<Spare>, bytes: u64) -> Option<Region> {
        let mut own = lock(spare);
        let fits = |(place, region): (usize, &Region)| (region.bytes() >= bytes).then(|| (region.bytes(), place));
        let found = own.regions.iter().enumerate().filter_map(fits).min().filter(|(found, _)| *found <= 2 * bytes);
        if let Some((_, place)) = found {
            return own.regions.remove(place);
        }
        let mut given_back = Vec::new();
        let mut room = 0;
        while room < bytes
            && let Some(region) = own.regions.pop_front()
        {
            room += region.bytes();
            given_back.push(region);
        }
        own.held = own.held + bytes - room;
        // Not under the lock: the system takes its time.
        drop(own);
        drop(given_back);
        let region = Region::new(bytes);
        if region.is_none() {
            lock(spare).held -= bytes;
        }
        region
    }

    /// Gives all of it back to the system.
    pub(super) fn clear(spare: &Mutex<Spare>) {
        let mut own = lock(spare);
        let regions = std::mem::take(&mut own.regions);
        own.held -= regions.iter().map(Region::bytes).sum::<u64>();
        drop(own);
    }

    /// The bytes of all memory, used or not.
    pub(super) fn held(spare: &Mutex<Spare>) -> u64 {
        lock(spare).held
    }
}

/// A piece of memory, with the engine's name for it.
pub(super) struct Chunk {
    pub(super) handle: Handle,
    region: Option<Region>,
    spare: Arc<Mutex<Spare>>,
}

impl Chunk {
    /// Memory of the size that a handle says.
    pub(super) fn new(handle: Handle, spare: &Arc<Mutex<Spare>>) -> Result<Chunk, EngineError> {
        let wanted = handle.size();
        let region = Spare::take(spare, wanted).ok_or(EngineError::OutOfMemory { wanted, budget: 0, live: 0 })?;
        Ok(Chunk { handle, region: Some(region), spare: spare.clone() })
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.region.as_ref().map_or(std::ptr::null_mut(), |region| region.at)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        lock(&self.spare).regions.extend(self.region.take());
    }
}

/// What the engine calls a piece of memory: which, and where in it.
pub(super) type Name = (usize, u64);

pub(super) fn bound_name(binding: &BufferBinding) -> Name {
    (binding.memory.id().value, binding.offset_start.unwrap_or_default())
}

/// A whole chunk, a slot of one, or data of the host's.
pub(super) struct CpuBlock {
    pub(super) handle: Handle,
    pub(super) at: *mut u8,
    /// Why it was not written.
    pub(super) failure: Mutex<Option<EngineError>>,
    pub(super) failed: Arc<AtomicUsize>,
    pub(super) _held: Held,
    pub(super) slot: Option<(ChunkSlot, SharedHeap)>,
}

/// What keeps memory in place.
pub(super) enum Held {
    Chunk(#[expect(dead_code, reason = "it is only held")] Arc<Chunk>),
    Data(#[expect(dead_code, reason = "it is only held")] Arc<Data>),
}

// SAFETY: the pointer is to memory that is kept in place, and whose use the callers of the engine order.
unsafe impl Send for CpuBlock {}
// SAFETY: as above.
unsafe impl Sync for CpuBlock {}

impl CpuBlock {
    pub(super) fn name(&self) -> Name {
        (self.handle.memory.descriptor().id.value, self.handle.offset_start.unwrap_or_default())
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn give(spare: &Mutex<Spare>, region: Region) {
        lock(spare).regions.push_back(region);
    }

    #[test]
    fn spare_memory_is_used_again_and_never_adds_up() {
        let spare = Mutex::new(Spare::default());
        let large = Spare::take(&spare, 1 << 20).unwrap();
        let (at, small) = (large.at, Spare::take(&spare, 1 << 12).unwrap());
        assert_eq!(Spare::held(&spare), (1 << 20) + (1 << 12));
        give(&spare, small);
        give(&spare, large);
        // Nearly as large: the same memory. Much smaller: not that one.
        let again = Spare::take(&spare, (1 << 20) - 512).unwrap();
        assert_eq!(again.at, at);
        give(&spare, again);
        let other = Spare::take(&spare, 1 << 14).unwrap();
        // The small one was given back for it, and the large one too, as that was not enough.
        assert_eq!(Spare::held(&spare), 1 << 14);
        give(&spare, other);
        Spare::clear(&spare);
        assert_eq!(Spare::held(&spare), 0);
        assert!(Spare::take(&spare, u64::MAX / 4).is_none());
        assert_eq!(Spare::held(&spare), 0);
    }
}
