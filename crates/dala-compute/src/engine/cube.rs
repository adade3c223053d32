//! The engine on CubeCL.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubecl::MemoryScope;
use cubecl::bytes::Bytes;
use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::server::Handle;
use cubecl_environment::stream::StreamId;
use dala_kernels::launch as kernels;
use dala_spec::DeviceFacts;

use super::error::{caught, guarded};
use super::heap::{self, Heap, Slot};
use super::{Adapter, Engine, EngineError, Launch, Memory};

/// Copies of at least this many bytes go through staging buffers of ours.
#[cfg(any(feature = "vulkan", feature = "gl", feature = "metal"))]
const STAGED: usize = 256 * 1024;
/// Launches handed to the engine at a time: its queue has 32 places, and a caller that finds it full spins.
const FLUSH_EVERY: u64 = 16;

/// Drives one adapter, on a stream and with memory of its own.
pub(crate) struct CubeEngine {
    adapter: Arc<Adapter>,
    client: Client,
    heap: Arc<Mutex<Heap<Handle>>>,
    compiled: kernels::CompileCount,
    launches: AtomicU64,
}

/// A piece of memory: a whole allocation of the engine's, or a slot of a chunk.
struct Piece {
    handle: Handle,
    slot: Option<(Slot, Arc<Mutex<Heap<Handle>>>)>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((slot, heap)) = &self.slot {
            lock(heap).give_back(*slot);
        }
    }
}

impl Drop for CubeEngine {
    fn drop(&mut self) {
        // The engine keeps memory for each stream, and nobody will use this one again. A failure has nobody to go to.
        let _ = self.trim();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a panic under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(memory: &Memory) -> Result<&Handle, EngineError> {
    match memory.inner.downcast_ref::<Piece>() {
        Some(piece) => Ok(&piece.handle),
        None => Err(EngineError::internal("memory of another engine")),
    }
}

fn handles(memories: &[Memory]) -> Result<Vec<Handle>, EngineError> {
    memories.iter().map(|memory| handle(memory).cloned()).collect()
}

impl CubeEngine {
    pub(crate) fn new(adapter: Arc<Adapter>) -> CubeEngine {
        static NEXT_STREAM: AtomicU64 = AtomicU64::new(0);
        let mut client = adapter.client.clone();
        // Far from the ids that the engine counts up for threads.
        let value = (1 << 32) + NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        // SAFETY: every use of this engine's memory goes through this one stream, so the engine's order holds.
        unsafe { client.set_stream(StreamId { value }) };
        CubeEngine {
            adapter,
            client,
            heap: Arc::default(),
            compiled: kernels::CompileCount::default(),
            launches: AtomicU64::new(0),
        }
    }

    /// A whole allocation, checked: the engine reports failures of one only when asked.
    fn allocate_whole(&self, bytes: u64) -> Result<Handle, EngineError> {
        let max = self.adapter.info.limits.max_buffer_bytes;
        if bytes > max {
            return Err(EngineError::BufferTooLarge { bytes, max });
        }
        let handle = caught(|| self.client.empty(bytes as usize))?;
        match guarded(|| self.client.check([&handle])) {
            Ok(()) => Ok(handle),
            Err(EngineError::BufferTooLarge { .. }) => Err(EngineError::BufferTooLarge { bytes, max }),
            Err(error) => Err(error),
        }
    }

    /// The place of a handle in its wgpu buffer.
    #[cfg(any(feature = "vulkan", feature = "gl", feature = "metal"))]
    fn with_place<T>(
        &self,
        handle: &Handle,
        use_place: impl FnOnce(super::staging::Place) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        use cubecl::wgpu::{AutoCompiler, WgpuServer};
        // What was launched before must be on the queue before our copy.
        guarded(|| self.client.flush())?;
        let managed = guarded(|| self.client.get_resource::<WgpuServer<AutoCompiler>>(handle.clone()))?;
        let resource = managed.resource();
        caught(|| use_place(super::staging::Place { buffer: &resource.buffer, offset: resource.offset }))?
    }
}

impl Engine for CubeEngine {
    fn facts(&self) -> &DeviceFacts {
        &self.adapter.facts
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        if bytes > heap::LARGEST_SLOT {
            let capacity = bytes.next_multiple_of(heap::STEP);
            let handle = self.allocate_whole(capacity)?;
            return Ok(Memory { capacity, inner: Arc::new(Piece { handle, slot: None }) });
        }
        let size = heap::slot_size(bytes);
        let mut heap = lock(&self.heap);
        if heap.take(size).map(|(slot, _)| heap.give_back(slot)).is_none() {
            let chunk = self.allocate_whole(heap::chunk_size(size))?;
            heap.add(size, chunk);
        }
        let Some((slot, chunk)) = heap.take(size) else {
            return Err(EngineError::internal("a new chunk has no free slot"));
        };
        let rest = chunk.size() - slot.offset - size;
        let handle = chunk.offset_start(slot.offset).offset_end(rest);
        drop(heap);
        let piece = Piece { handle, slot: Some((slot, self.heap.clone())) };
        Ok(Memory { capacity: size, inner: Arc::new(piece) })
    }

    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        let handle = handle(memory)?;
        #[cfg(any(feature = "vulkan", feature = "gl", feature = "metal"))]
        if let (Some(staging), STAGED..) = (&self.adapter.staging, data.len())
            // The engine would not see that our copy heals what a failed launch left behind.
            && guarded(|| self.client.check([handle])).is_ok()
        {
            return self.with_place(handle, |place| lock(staging).upload(&place, data));
        }
        #[cfg(feature = "cpu")]
        if self.adapter.info.backend == super::Backend::Cpu
            // Copied in place, once nothing is running and if nothing failed there.
            && guarded(|| block_on(self.client.sync_buffers([handle]))).is_ok()
        {
            use cubecl::cpu::compute::server::CpuServer;
            let mut managed = guarded(|| self.client.get_resource::<CpuServer>(handle.clone()))?;
            return caught(|| managed.resource_mut().write()[..data.len()].copy_from_slice(data));
        }
        // Written to the end: what a failed launch left behind is healed only where something is written.
        let mut whole = Vec::with_capacity(memory.capacity as usize);
        whole.extend_from_slice(data);
        whole.resize(memory.capacity as usize, 0);
        caught(|| self.client.write(handle, Bytes::from_bytes_vec(whole)))?;
        guarded(|| block_on(self.client.sync_buffers([handle])))
    }

    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        let handle = handle(memory)?;
        #[cfg(any(feature = "vulkan", feature = "gl", feature = "metal"))]
        if let (Some(staging), STAGED..) = (&self.adapter.staging, into.len()) {
            guarded(|| self.client.check([handle]))?;
            return self.with_place(handle, |place| lock(staging).download(&place, into));
        }
        let unused = memory.capacity - into.len() as u64;
        let bytes = guarded(|| self.client.read_one(handle.clone().offset_end(unused)))?;
        // Copied, because on the CPU runtime these bytes are the live memory itself.
        caught(|| into.copy_from_slice(&bytes[..into.len()]))
    }

    fn launch(&self, task: &Launch) -> Result<(), EngineError> {
        let (cubes, max) = (task.geometry.cubes, self.adapter.info.limits.max_cubes);
        if cubes.0 > max.0 || cubes.1 > max.1 || cubes.2 > max.2 {
            // The engine would let it pass, and lose the whole batch.
            return Err(EngineError::LimitExceeded {
                what: format!("a grid of {cubes:?} cubes, and the limit is {max:?}"),
            });
        }
        if task.geometry.units > self.adapter.info.limits.max_units {
            let (units, max) = (task.geometry.units, self.adapter.info.limits.max_units);
            return Err(EngineError::LimitExceeded {
                what: format!("{units} units in a cube, and the limit is {max}"),
            });
        }
        let (reads, outputs) = (handles(task.reads)?, handles(task.outputs)?);
        let prepared = kernels::Launch {
            task: task.task,
            geometry: task.geometry,
            facts: &self.adapter.facts,
            reads: &reads,
            outputs: &outputs,
            aliases: task.aliases,
            params: task.params,
        };
        caught(|| kernels::launch(&self.client, &self.compiled, &prepared))?
            .map_err(|refused| EngineError::internal(refused.0))?;
        if self.launches.fetch_add(1, Ordering::Relaxed) % FLUSH_EVERY == FLUSH_EVERY - 1 {
            guarded(|| self.client.flush())?;
        }
        Ok(())
    }

    fn synchronise(&self, outputs: &[Memory]) -> Result<(), EngineError> {
        let outputs: Vec<&Handle> = outputs.iter().map(handle).collect::<Result<_, _>>()?;
        guarded(|| block_on(self.client.sync_buffers(outputs)))
    }

    fn reserved_bytes(&self) -> Result<u64, EngineError> {
        caught(|| self.client.memory_report(MemoryScope::CurrentStream).usage().bytes_reserved)
    }

    fn trim(&self) -> Result<(), EngineError> {
        let empty = lock(&self.heap).remove_empty();
        drop(empty);
        #[cfg(any(feature = "vulkan", feature = "gl", feature = "metal"))]
        if let Some(staging) = &self.adapter.staging {
            caught(|| lock(staging).trim())?;
        }
        guarded(|| self.client.memory_cleanup())
    }

    fn compilations(&self) -> u64 {
        self.compiled.get()
    }

    fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: super::tests::Fault) -> Result<(), EngineError> {
        let handle = handle(output)?;
        caught(|| super::tests::launch_faulty(&self.client, handle, fault))
    }
}
