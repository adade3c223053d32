//! Small allocations from shared chunks, in constant time.
//!
//! The engine's own pools walk every live allocation on each new one: 0.05 ms with a thousand alive, over 1 ms with a
//! hundred thousand. Here a chunk of device memory is cut into slots of one size, and each size keeps a list of free slots.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::EngineError;

/// Sizes are multiples of this.
pub(super) const STEP: u64 = dala_plan::CAPACITY_STEP as u64;
/// Larger pieces are allocated on their own.
pub(super) const LARGEST_SLOT: u64 = 64 * 1024;
/// The size of a chunk, at most; at least sixteen slots fit.
const CHUNK: u64 = 1024 * 1024;

/// Bytes in a slot that holds `bytes`: four sizes between one power of two and the next.
pub(super) fn slot_size(bytes: u64) -> u64 {
    let bytes = bytes.max(1).next_multiple_of(STEP);
    let grain = (bytes.next_power_of_two() / 8).max(STEP);
    bytes.next_multiple_of(grain)
}

/// Bytes in a chunk of such slots: 256 KiB for the smallest, so that few small buffers take little memory.
pub(super) fn chunk_size(slot: u64) -> u64 {
    let wanted = (slot * 64).clamp(CHUNK / 4, CHUNK);
    wanted / slot * slot
}

/// A slot: which chunk, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkSlot {
    pub(super) chunk: u64,
    pub(super) offset: u64,
}

/// A piece of memory: a whole chunk of its own, or a slot of a shared one.
pub(super) struct Room<C> {
    pub(super) chunk: C,
    pub(super) slot: Option<ChunkSlot>,
    pub(super) offset: u64,
    /// Usable bytes: the size asked for, rounded up.
    pub(super) capacity: u64,
}

/// Room for `bytes` bytes; `chunk` takes memory from the engine.
pub(super) fn allocate<C: Clone>(
    heap: &Mutex<Heap<C>>,
    bytes: u64,
    chunk: impl Fn(u64) -> Result<C, EngineError>,
) -> Result<Room<C>, EngineError> {
    if bytes > LARGEST_SLOT {
        let capacity = bytes.next_multiple_of(STEP);
        return Ok(Room { chunk: chunk(capacity)?, slot: None, offset: 0, capacity });
    }
    let size = slot_size(bytes);
    let found = lock(heap).take(size);
    let (slot, chunk) = match found {
        Some(found) => found,
        None => {
            // Not under the lock: this may wait for the device, and whoever gives memory back must not.
            let chunk = chunk(chunk_size(size))?;
            let mut heap = lock(heap);
            heap.add(size, chunk);
            heap.take(size).ok_or_else(|| EngineError::internal("a new chunk has no free slot"))?
        }
    };
    Ok(Room { chunk, slot: Some(slot), offset: slot.offset, capacity: size })
}

/// Nothing is left half-done by a panic under this lock.
pub(super) fn lock<C>(heap: &Mutex<Heap<C>>) -> MutexGuard<'_, Heap<C>> {
    heap.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Chunk<C> {
    memory: C,
    slot: u64,
    slots: u32,
    free: Vec<u32>,
    /// Its place in the list of chunks with free slots.
    listed: Option<usize>,
}

/// Chunks of memory `C`, cut into slots.
pub(super) struct Heap<C> {
    chunks: HashMap<u64, Chunk<C>>,
    next: u64,
    /// For each slot size, the chunks that have free slots.
    available: HashMap<u64, Vec<u64>>,
}

impl<C> Default for Heap<C> {
    fn default() -> Heap<C> {
        Heap { chunks: HashMap::new(), next: 0, available: HashMap::new() }
    }
}

impl<C: Clone> Heap<C> {
    /// A free slot of that size, and its chunk's memory; none if a new chunk is needed.
    pub(super) fn take(&mut self, slot: u64) -> Option<(ChunkSlot, C)> {
        let id = *self.available.get(&slot)?.last()?;
        let chunk = self.chunks.get_mut(&id)?;
        let index = chunk.free.pop()?;
        let found = (ChunkSlot { chunk: id, offset: u64::from(index) * chunk.slot }, chunk.memory.clone());
        if chunk.free.is_empty() {
            self.unlist(id);
        }
        Some(found)
    }

    /// Adds a chunk of `chunk_size(slot)` bytes.
    pub(super) fn add(&mut self, slot: u64, memory: C) {
        let slots = (chunk_size(slot) / slot) as u32;
        let id = self.next;
        self.next += 1;
        // Lowest offsets first.
        self.chunks.insert(id, Chunk { memory, slot, slots, free: (0..slots).rev().collect(), listed: None });
        self.list(id);
    }

    /// Gives a slot back.
    pub(super) fn give_back(&mut self, slot: ChunkSlot) {
        let Some(chunk) = self.chunks.get_mut(&slot.chunk) else { return };
        chunk.free.push((slot.offset / chunk.slot) as u32);
        if chunk.listed.is_none() {
            self.list(slot.chunk);
        }
    }

    /// Removes the chunks that nobody uses, and returns their memory.
    pub(super) fn remove_empty(&mut self) -> Vec<C> {
        let is_empty = |chunk: &Chunk<C>| chunk.free.len() == chunk.slots as usize;
        let empty: Vec<u64> = self.chunks.iter().filter(|(_, chunk)| is_empty(chunk)).map(|(id, _)| *id).collect();
        empty
            .into_iter()
            .filter_map(|id| {
                self.unlist(id);
                self.chunks.remove(&id).map(|chunk| chunk.memory)
            })
            .collect()
    }

    fn list(&mut self, id: u64) {
        if let Some(chunk) = self.chunks.get_mut(&id) {
            let list = self.available.entry(chunk.slot).or_default();
            chunk.listed = Some(list.len());
            list.push(id);
        }
    }

    fn unlist(&mut self, id: u64) {
        let Some(chunk) = self.chunks.get_mut(&id) else { return };
        let Some(place) = chunk.listed.take() else { return };
        let Some(list) = self.available.get_mut(&chunk.slot) else { return };
        list.swap_remove(place);
        let moved = list.get(place).copied();
        if let Some(moved) = moved.and_then(|moved| self.chunks.get_mut(&moved)) {
            moved.listed = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slots_waste_at_most_a_quarter() {
        for bytes in 1..=LARGEST_SLOT {
            let slot = slot_size(bytes);
            assert!(slot >= bytes && slot.is_multiple_of(STEP), "{bytes}: {slot}");
            assert!(slot <= (bytes + bytes / 4).next_multiple_of(STEP), "{bytes}: {slot}");
            assert!(chunk_size(slot) >= 16 * slot && chunk_size(slot).is_multiple_of(slot));
        }
    }

    fn allocate(heap: &mut Heap<u64>, chunks: &mut u64, bytes: u64) -> (ChunkSlot, u64) {
        let slot = slot_size(bytes);
        heap.take(slot).unwrap_or_else(|| {
            heap.add(slot, *chunks);
            *chunks += 1;
            heap.take(slot).unwrap()
        })
    }

    #[test]
    fn no_two_live_slots_overlap() {
        let (mut heap, mut chunks) = (Heap::default(), 0);
        let mut live: Vec<(ChunkSlot, u64, u64)> = Vec::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if random >> 63 == 0 || live.is_empty() {
                let bytes = (random >> 20) % LARGEST_SLOT + 1;
                let (slot, memory) = allocate(&mut heap, &mut chunks, bytes);
                live.push((slot, memory, slot_size(bytes)));
            } else {
                let (slot, ..) = live.swap_remove((random >> 20) as usize % live.len());
                heap.give_back(slot);
            }
        }
        let mut taken = HashSet::new();
        for (slot, memory, size) in &live {
            for step in (slot.offset..slot.offset + size).step_by(STEP as usize) {
                assert!(taken.insert((*memory, step)), "{slot:?} overlaps another");
            }
        }
        for (slot, ..) in live {
            heap.give_back(slot);
        }
        assert_eq!(heap.remove_empty().len() as u64, chunks);
        assert!(heap.chunks.is_empty() && heap.available.values().all(Vec::is_empty));
    }
}
