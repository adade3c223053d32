//! The CPU as a device: the engine's compiler, and threads and memory of our own.
//!
//! The engine's threads wait by yielding, so that the device nearly stands still beside any other load, and a launch costs
//! it 9 µs. Here a launch is described to the engine once, on its thread ([`server`]); what comes of it is code ([`code`]), pointers
//! and numbers ([`ready`], found again by [`forms`]), which the thread that asks runs in a loop, large launches together with
//! threads that sleep in between ([`workers`]). What was launched is done when the call returns, and what failed is known then.

mod code;
mod forms;
mod memory;
mod ready;
mod server;
mod subnormal;
mod workers;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cubecl::client::Client;
use cubecl::device::DeviceId;
use cubecl::prelude::{CubeKernel, KernelId};
use cubecl::server::Handle;
use cubecl_environment::stream::StreamId;
use dala_kernels::launch as kernels;
use dala_plan::{DeviceFacts, Task};
use dala_spec::Data;
use smallvec::SmallVec;

use super::adapter::Adapter;
use super::ending::EngineCall;
use super::error::EngineError;
use super::heap;
use super::held::HeldThread;
use super::interface::{Engine, Synchronisation};
use super::launch::{Launch, Memory, Sequence};
use code::{Count, NotReady};
use forms::{Forms, Shape, roles};
use memory::{Chunk, CpuBlock, Held, SharedHeap, Spare, lock, piece};
use ready::{Length, Pass, Ready};
use server::{Taken, TakingServer, codes, taken};

/// The most units of a cube in functions that others wrote, who may have GPUs in mind: threads run them in turn.
const UNITS_OF_OTHERS: u32 = 1024;

/// Not the number of the engine's own CPU device, so that its thread is ours alone.
const DEVICE: DeviceId = DeviceId { type_id: 0, index_id: 0xda1a };

/// The client of the CPU device.
pub(super) fn client() -> Client {
    Client::load::<TakingServer>(DEVICE)
}

/// As many threads as `DALA_THREADS` says, or as there are cores for this process.
pub(super) fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = std::env::var("DALA_THREADS").ok().and_then(|threads| threads.trim().parse().ok());
    wanted.filter(|threads| *threads > 0).unwrap_or(cores).min(MOST_THREADS)
}

/// More than any machine has.
pub(super) const MOST_THREADS: usize = 1024;

/// Drives the CPU, on a stream and with memory of its own.
pub(crate) struct CpuEngine {
    adapter: Arc<Adapter>,
    facts: DeviceFacts,
    thread: Arc<HeldThread>,
    client: Client,
    stream: StreamId,
    heap: SharedHeap,
    spare: Arc<Mutex<Spare>>,
    /// How many pieces of memory hold a failure.
    failed: Arc<AtomicUsize>,
    /// Kernels whose machine code was made or found.
    obtained: Count,
    /// Part of every kernel, and of no interest here.
    generated: kernels::CompileCount,
    launches: AtomicU64,
}

/// A launch that is ready; none if there is nothing to do.
type ReadyLaunch = Option<Arc<Ready>>;

impl CpuEngine {
    pub(crate) fn new(adapter: Arc<Adapter>, threads: Option<usize>) -> Result<CpuEngine, EngineError> {
        static NEXT_STREAM: AtomicU64 = AtomicU64::new(0);
        let thread = adapter.thread.clone().ok_or_else(|| EngineError::internal("the CPU device has no thread"))?;
        let mut client = adapter.client.clone();
        // Far from the ids that the engine counts up for threads.
        let value = (1 << 32) + NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        let stream = StreamId { value };
        // SAFETY: every use of this engine's memory goes through this one stream, so the engine's order holds.
        unsafe { client.set_stream(stream) };
        let mut facts = adapter.facts.clone();
        if let Some(threads) = threads {
            facts.units_per_cube = threads.clamp(1, MOST_THREADS) as u32;
        }
        Ok(CpuEngine {
            adapter,
            facts,
            thread,
            client,
            stream,
            heap: Arc::default(),
            spare: Arc::default(),
            failed: Arc::default(),
            obtained: Count::default(),
            generated: kernels::CompileCount::default(),
            launches: AtomicU64::new(0),
        })
    }

    fn threads(&self) -> usize {
        self.facts.units_per_cube as usize
    }

    /// Memory in a place where it stays.
    fn chunk(&self, bytes: u64) -> Result<Arc<Chunk>, EngineError> {
        let max = self.adapter.info.limits.max_buffer_bytes;
        if bytes > max {
            return Err(EngineError::BufferTooLarge { bytes, max });
        }
        Ok(Arc::new(Chunk::new(self.named(bytes), &self.spare)?))
    }

    /// A name of the engine's for memory of that size, which it knows nothing else of.
    fn named(&self, bytes: u64) -> Handle {
        Handle::new(self.client.service_id(), self.stream, bytes)
    }

    /// Describes a launch to the engine; none if there is nothing to do.
    fn describe(&self, launch: &Launch) -> Result<Option<Taken>, NotReady> {
        let max = self.adapter.info.limits.max_units.max(self.facts.units_per_cube);
        let (units, max) = match launch.step.task {
            Task::Opaque(_) => (launch.step.geometry.units, max.max(UNITS_OF_OTHERS)),
            _ => (launch.step.geometry.units, max),
        };
        if units > max {
            return Err(EngineError::LimitExceeded {
                what: format!("{units} units in a cube, and the limit is {max}"),
            }
            .into());
        }
        let handles = |memories: &[Memory]| -> Result<SmallVec<[Handle; 4]>, EngineError> {
            memories.iter().map(|memory| piece(memory).map(|piece| piece.handle.clone())).collect()
        };
        let (reads, outputs) = (handles(&launch.reads)?, handles(&launch.outputs)?);
        let (reads, outputs): (SmallVec<[&Handle; 4]>, SmallVec<[&Handle; 4]>) =
            (reads.iter().collect(), outputs.iter().collect());
        let described = kernels::Launch {
            task: &launch.step.task,
            geometry: launch.step.geometry,
            facts: &self.facts,
            reads: &reads,
            outputs: &outputs,
            aliases: &launch.aliases(),
            params: &launch.params,
        };
        let (described, taken) =
            self.thread.run(|| taken(|| kernels::launch(&self.client, &self.generated, &described)))?;
        let refused = |refused| EngineError::refused(&launch.step.task, refused);
        described.map_err(refused)?;
        if let (None, Task::Opaque(_), (1.., ..)) = (&taken, &launch.step.task, launch.step.geometry.cubes) {
            return Err(refused(kernels::LaunchRefused("it launches nothing".to_owned())).into());
        }
        taken.transpose()
    }

    /// The launches, ready to run; each none if there is nothing to do. Kernels that are new are built side by side.
    fn all_ready(&self, launches: &[&Launch]) -> Vec<Result<Option<Arc<Ready>>, EngineError>> {
        let (mut missing, mut kernels) = (Vec::new(), Vec::new());
        let first = |(number, launch): (usize, &&Launch)| match self.ready(launch) {
            Ok(ready) => Ok(ready),
            Err(NotReady::Failed(error)) => Err(error),
            Err(NotReady::Missing(kernel)) => {
                missing.push((number, kernel.id()));
                kernels.push(kernel);
                Ok(None)
            }
        };
        let mut ready: Vec<_> = launches.iter().enumerate().map(first).collect();
        if missing.is_empty() {
            return ready;
        }
        let obtained = self.obtain(kernels);
        for (number, id) in missing {
            let again = || self.ready(launches[number]).map_err(NotReady::into_error);
            ready[number] = match &obtained {
                Ok(failures) => failures.get(&id).map_or_else(again, |failure| Err(failure.clone())),
                Err(failure) => Err(failure.clone()),
            };
        }
        ready
    }

    /// Obtains the code of kernels, and says which of them failed.
    fn obtain(&self, kernels: Vec<Box<dyn CubeKernel>>) -> Result<HashMap<KernelId, EngineError>, EngineError> {
        let codes = codes().ok_or_else(|| EngineError::internal("the CPU device has no code"))?;
        // They are built with a compiler that the end of the process must not meet.
        let _building = EngineCall::begin()?;
        Ok(codes.obtain(kernels, self.threads(), &self.obtained))
    }

    /// The launch, ready to run; none if there is nothing to do.
    fn ready(&self, launch: &Launch) -> Result<Option<Arc<Ready>>, NotReady> {
        let length = || {
            let bytes = launch.reads.iter().chain(&launch.outputs).map(|memory| memory.capacity).sum();
            Arc::new(Length::guess(bytes))
        };
        let shape = Shape::of(launch)?;
        let forms = launch.step.notes.get_or_put(Forms::default);
        let forms = forms.ok_or_else(|| EngineError::internal("notes of another engine"))?;
        // Sums of products.
        let flushes = matches!(launch.step.task, Task::Matmul(_) | Task::Pool(_));
        forms.ready(shape, flushes, || {
            let taken = self.describe(launch)?;
            let roles = roles(launch, taken.as_ref())?;
            Ok((taken, roles, length()))
        })
    }

    /// Why a launch must not run: what it reads was not written.
    fn unreadable(&self, launch: &Launch) -> Option<EngineError> {
        if self.failed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let failure = |memory: &Memory| piece(memory).ok().and_then(|piece| lock(&piece.failure).clone());
        launch.reads.iter().find_map(failure)
    }

    /// What became of a launch is true of its outputs.
    fn settle(&self, launch: &Launch, result: &Result<(), EngineError>) {
        if result.is_ok() && self.failed.load(Ordering::Relaxed) == 0 {
            return;
        }
        for output in launch.outputs.iter().filter_map(|output| piece(output).ok()) {
            output.fail(result.as_ref().err().cloned());
        }
    }
}

impl Drop for CpuEngine {
    fn drop(&mut self) {
        // Buffers may live on. A failure has nobody to go to.
        let _ = self.trim();
    }
}

/// Everything was done when it was launched.
struct Done(Vec<Result<(), EngineError>>);

impl Synchronisation for Done {
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>> {
        self.0
    }
}

impl Engine for CpuEngine {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        let room = heap::allocate(&self.heap, bytes, |bytes| self.chunk(bytes))?;
        let (chunk, offset, capacity) = (room.chunk, room.offset, room.capacity);
        let handle = match room.slot {
            Some(_) => {
                let rest = chunk.handle.size() - offset - capacity;
                chunk.handle.clone().offset_start(offset).offset_end(rest)
            }
            None => chunk.handle.clone(),
        };
        let at = chunk.at().wrapping_add(offset as usize);
        let slot = room.slot.map(|slot| (slot, self.heap.clone()));
        let piece = CpuBlock {
            handle,
            at,
            failure: Mutex::default(),
            failed: self.failed.clone(),
            _held: Held::Chunk(chunk),
            slot,
        };
        Ok(Memory { capacity, inner: Arc::new(piece) })
    }

    fn adopt(&self, data: &Arc<Data>) -> Option<Memory> {
        let Cow::Borrowed(bytes) = data.as_bytes() else { return None };
        let capacity = bytes.len().next_multiple_of(heap::STEP as usize);
        // Small pieces share chunks, where they take less room and are found sooner.
        if bytes.len() <= heap::LARGEST_SLOT as usize || data.room_bytes() < capacity {
            return None;
        }
        let capacity = capacity as u64;
        let piece = CpuBlock {
            handle: self.named(capacity),
            // Nothing writes to it: it is read by launches that only read it.
            at: bytes.as_ptr().cast_mut(),
            failure: Mutex::default(),
            failed: self.failed.clone(),
            _held: Held::Data(data.clone()),
            slot: None,
        };
        Some(Memory { capacity, inner: Arc::new(piece) })
    }

    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        let piece = piece(memory)?;
        if data.len() as u64 > memory.capacity {
            return Err(EngineError::internal("more data than memory"));
        }
        // SAFETY: the piece has so many bytes, and nobody else uses it while its device is driven by this thread.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), piece.at, data.len()) };
        piece.fail(None);
        Ok(())
    }

    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        let piece = piece(memory)?;
        if into.len() as u64 > memory.capacity {
            return Err(EngineError::internal("more data wanted than there is memory"));
        }
        if let Some(failure) = lock(&piece.failure).clone() {
            return Err(failure);
        }
        // SAFETY: as for uploads.
        unsafe { std::ptr::copy_nonoverlapping(piece.at, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn run(&self, sequences: &[Arc<Sequence>]) -> Vec<Result<(), EngineError>> {
        let launches = sequences.iter().map(|sequence| sequence.launches().len() as u64).sum();
        self.launches.fetch_add(launches, Ordering::Relaxed);
        let all = || sequences.iter().flat_map(|sequence| sequence.launches());
        let known = |launch: &Launch| launch.notes.get::<ReadyLaunch>().is_some();
        let new: Vec<&Launch> = all().map(|launch| &**launch).filter(|launch| !known(launch)).collect();
        // Of all of them at once, so that kernels that are new are built side by side.
        let mut made = self.all_ready(&new).into_iter();
        let ready = |launch: &'_ Arc<Launch>| -> Result<ReadyLaunch, EngineError> {
            match launch.notes.get::<ReadyLaunch>() {
                Some(known) => Ok(known.clone()),
                None => {
                    let made = made.next().unwrap_or_else(|| Err(EngineError::internal("a launch was not made ready")));
                    if let (true, Ok(ready)) = (launch.again, &made) {
                        launch.notes.put::<ReadyLaunch>(ready.clone());
                    }
                    made
                }
            }
        };
        let ready: SmallVec<[Result<ReadyLaunch, EngineError>; 4]> = all().map(ready).collect();
        let pass = Pass::new(self.threads(), ready.iter().flatten().flatten().map(|ready| &**ready));
        let run = |(launch, ready): (&Arc<Launch>, &Result<ReadyLaunch, EngineError>)| {
            let result = match (self.unreadable(launch), ready) {
                (_, Err(failure)) => Err(failure.clone()),
                (Some(failure), Ok(_)) => Err(failure),
                (None, Ok(ready)) => {
                    ready.iter().for_each(|ready| pass.run(ready));
                    Ok(())
                }
            };
            self.settle(launch, &result);
            result
        };
        let mut ready = ready.iter();
        let run_all = |sequence: &Arc<Sequence>| {
            let _span = sequence.span();
            let mut whole = Ok(());
            for result in sequence.launches().iter().zip(ready.by_ref()).map(run) {
                whole = whole.and(result);
            }
            whole
        };
        sequences.iter().map(run_all).collect()
    }

    fn profile(&self, launch: &Arc<Launch>) -> Result<Duration, EngineError> {
        // What is built is not what is measured.
        self.all_ready(&[launch]).remove(0)?;
        let sequence = [Arc::new(Sequence::new(&Arc::from([launch.clone()]), 0..1, false))];
        let start = Instant::now();
        self.run(&sequence).remove(0)?;
        Ok(start.elapsed())
    }

    fn foresee(&self, launches: &[Arc<Launch>]) {
        drop(self.all_ready(&launches.iter().map(|launch| &**launch).collect::<Vec<_>>()));
    }

    fn build(&self, launches: &[Arc<Launch>]) -> Vec<Result<(), EngineError>> {
        let ready = self.all_ready(&launches.iter().map(|launch| &**launch).collect::<Vec<_>>());
        ready.into_iter().map(|ready| ready.map(drop)).collect()
    }

    fn synchronise(&self, outputs: Vec<Memory>) -> Box<dyn Synchronisation> {
        let answer = |memory: &Memory| match lock(&piece(memory)?.failure).clone() {
            Some(failure) => Err(failure),
            None => Ok(()),
        };
        if self.failed.load(Ordering::Relaxed) == 0 {
            return Box::new(Done(vec![Ok(()); outputs.len()]));
        }
        Box::new(Done(outputs.iter().map(answer).collect()))
    }

    fn overlaps(&self) -> bool {
        false
    }

    fn reserved_bytes(&self) -> Result<u64, EngineError> {
        Ok(Spare::held(&self.spare))
    }

    fn trim(&self) -> Result<(), EngineError> {
        let empty = lock(&self.heap).remove_empty();
        drop(empty);
        Spare::clear(&self.spare);
        Ok(())
    }

    fn compilations(&self) -> u64 {
        self.obtained.made.load(Ordering::Relaxed)
    }

    fn found(&self) -> u64 {
        self.obtained.found.load(Ordering::Relaxed)
    }

    fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: super::tests::Fault) -> Result<(), EngineError> {
        let handle = &piece(output)?.handle;
        let ((), taken) = self.thread.run(|| taken(|| super::tests::launch_faulty(&self.client, handle, fault)))?;
        let result = match taken {
            Some(Err(NotReady::Missing(kernel))) => self.obtain(vec![kernel])?.into_values().next().map_or(Ok(()), Err),
            Some(Err(NotReady::Failed(error))) => Err(error),
            Some(Ok(_)) | None => Ok(()),
        };
        piece(output)?.fail(result.clone().err());
        result
    }
}
