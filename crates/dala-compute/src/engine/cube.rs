//! The engine on CubeCL.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cubecl::MemoryScope;
use cubecl::bytes::Bytes;
use cubecl::client::{Client, Graph};
use cubecl::execution::{ProcessMode, ProcessModeOverride, StatisticsCollector, StreamMode, StreamModeOverride};
use cubecl::server::{Handle, ProfileError, ServerError};
use cubecl_environment::stream::StreamId;
use dala_kernels::launch as kernels;
use dala_plan::DeviceFacts;
use smallvec::SmallVec;

use super::adapter::Adapter;
use super::ending::EngineCall;
use super::error::EngineError;
use super::guard::{caught, guarded};
use super::heap::{self, ChunkSlot, Heap};
use super::interface::{Engine, Synchronisation};
use super::launch::{Launch, Memory, Sequence};
use super::waiting::Started;

/// Copies of at least this many bytes go through staging buffers of ours.
#[cfg(feature = "graphics")]
const STAGED: usize = 256 * 1024;

/// Drives one adapter, on a stream and with memory of its own.
pub(crate) struct CubeEngine {
    adapter: Arc<Adapter>,
    client: Client,
    heap: Arc<Mutex<Heap<Handle>>>,
    compiled: kernels::CompileCount,
    launches: AtomicU64,
    /// What was launched since the last synchronisation, if anything was.
    queued: Mutex<Option<EngineCall>>,
    /// Its launches are executed, also while another device only builds kernels.
    _executes: StreamModeOverride,
}

/// What the engine counts while kernels are only built, which nobody asks for.
static BUILT: LazyLock<StatisticsCollector> = LazyLock::new(StatisticsCollector::new);

type Answer = Result<(), ServerError>;

struct CubeSynchronisation {
    adapter: Arc<Adapter>,
    client: Client,
    outputs: Vec<Memory>,
    started: Result<Started<'static, Answer>, EngineError>,
    /// The answer for each output, if some were never written.
    checked: Vec<Result<(), EngineError>>,
    /// Until the device has answered.
    _queued: Option<EngineCall>,
}

impl Synchronisation for CubeSynchronisation {
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>> {
        let CubeSynchronisation { adapter, client, outputs, started, checked, _queued } = *self;
        let all = |error| vec![Err(error); outputs.len()];
        let answer = |started| answer(&adapter, started);
        let error = match started.map_err(Fault::OfAll).and_then(answer) {
            Ok(()) => return vec![Ok(()); outputs.len()],
            Err(Fault::OfAll(error)) => return all(error),
            Err(Fault::OfSome(error)) => error,
        };
        // Some were never written. The engine did not wait then; the rest is to be done before anyone asks for it.
        let rest = adapter.on_thread(|| Started::new(client.sync())).map_err(Fault::OfAll).and_then(answer);
        if let Err(Fault::OfAll(error) | Fault::OfSome(error)) = rest {
            return all(error);
        }
        // A failure that nobody owns is everybody's.
        if checked.iter().all(Result::is_ok) { all(error) } else { checked }
    }
}

/// What is kept of a sequence that is repeated.
struct Repeated {
    /// Each launch with what the engine is told of it, once that was put together; none if it cannot be said beforehand.
    prepared: Vec<OnceLock<Option<kernels::Prepared>>>,
    recorded: Mutex<Recorded>,
}

impl Repeated {
    fn new(launches: usize) -> Repeated {
        Repeated {
            prepared: (0..launches).map(|_| OnceLock::new()).collect(),
            recorded: Mutex::new(Recorded::Times(0)),
        }
    }
}

enum Recorded {
    /// Launched so often one by one.
    Times(u32),
    Yes(Arc<Recording>),
    /// It could not be.
    No,
}

/// How often a sequence is launched one by one before it is recorded: recording costs as much as several launches.
const BEFORE_RECORDING: u32 = 2;

/// Launches that the engine has recorded. The sequence holds the memory.
struct Recording {
    adapter: Arc<Adapter>,
    graph: Option<Graph>,
    /// What it reads before it writes it.
    inputs: Vec<Memory>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The engine is told. A failure has nobody to go to.
        let graph = self.graph.take();
        let _ = self.adapter.on_thread(|| drop(graph));
    }
}

/// While open, launches are recorded instead of executed: closed whatever happens.
struct Window<'a>(&'a Client);

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if self.0.is_capturing() {
            // What was recorded is of no use then.
            let _ = self.0.stop_capture();
        }
    }
}

/// What the engine answers for everything that was synchronised.
fn answer(adapter: &Adapter, started: Started<'_, Answer>) -> Result<(), Fault> {
    match adapter.answer(started) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.is_device_poisoned() => Err(Fault::OfAll(error.into())),
        Ok(Err(error)) => Err(Fault::OfSome(error.into())),
        // After a panic of the driver's, whole batches are lost without a trace.
        Err(late_or_panic) => Err(Fault::OfAll(late_or_panic)),
    }
}

/// Whom a failed synchronisation concerns.
enum Fault {
    /// Outputs that were never written; others may be well.
    OfSome(EngineError),
    /// Everything that was queued.
    OfAll(EngineError),
}

/// A piece of memory: a whole allocation of the engine's, or a slot of a chunk.
struct DeviceBlock {
    handle: Handle,
    slot: Option<(ChunkSlot, Arc<Mutex<Heap<Handle>>>)>,
}

impl Drop for DeviceBlock {
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
    match memory.inner.downcast_ref::<DeviceBlock>() {
        Some(piece) => Ok(&piece.handle),
        None => Err(EngineError::internal("memory of another engine")),
    }
}

fn handles(memories: &[Memory]) -> Result<SmallVec<[&Handle; 4]>, EngineError> {
    memories.iter().map(handle).collect()
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
            _executes: StreamModeOverride::new(StreamMode::Execute, &client),
            client,
            heap: Arc::default(),
            compiled: kernels::CompileCount::default(),
            launches: AtomicU64::new(0),
            queued: Mutex::default(),
        }
    }

    /// Says that the engine's threads have something to do until it is synchronised.
    fn will_queue(&self) -> Result<(), EngineError> {
        let mut queued = lock(&self.queued);
        if queued.is_none() {
            *queued = Some(EngineCall::begin()?);
        }
        Ok(())
    }

    /// A whole allocation, checked: the engine reports failures of one only when asked.
    fn allocate_whole(&self, bytes: u64) -> Result<Handle, EngineError> {
        let max = self.adapter.info.limits.max_buffer_bytes;
        if bytes > max {
            return Err(EngineError::BufferTooLarge { bytes, max });
        }
        let empty = || -> Result<Handle, ServerError> {
            let handle = self.client.empty(bytes as usize);
            self.client.check([&handle])?;
            Ok(handle)
        };
        match self.adapter.on_thread(|| guarded(empty))? {
            Ok(handle) => Ok(handle),
            Err(EngineError::BufferTooLarge { .. }) => Err(EngineError::BufferTooLarge { bytes, max }),
            Err(error) => Err(error),
        }
    }

    /// Queues what a sequence launches. On the device's own thread.
    fn run_one(&self, sequence: &Sequence) -> Result<(), EngineError> {
        let _span = sequence.span();
        let repeated = match sequence.repeated {
            true => sequence.notes.get_or_put(|| Repeated::new(sequence.launches().len())),
            false => None,
        };
        if let Some(recording) = repeated.and_then(|repeated| self.recording(sequence, repeated)) {
            return self.replay(sequence, &recording);
        }
        let mut whole = Ok(());
        for (number, launch) in sequence.launches().iter().enumerate() {
            whole = whole.and(self.launch_one(launch, repeated.map(|repeated| &repeated.prepared[number])));
        }
        whole
    }

    /// The recording of a sequence, if it was launched often enough; made now if it is time.
    fn recording(&self, sequence: &Sequence, repeated: &Repeated) -> Option<Arc<Recording>> {
        let mut recorded = lock(&repeated.recorded);
        match &mut *recorded {
            Recorded::Yes(recording) => return Some(recording.clone()),
            Recorded::No => return None,
            Recorded::Times(times) if *times < BEFORE_RECORDING => {
                *times += 1;
                return None;
            }
            Recorded::Times(_) => {}
        }
        // What cannot be recorded is launched as before.
        let recording = self.record(sequence, repeated).ok().map(Arc::new);
        *recorded = recording.clone().map_or(Recorded::No, Recorded::Yes);
        recording
    }

    /// Records a sequence that was launched before and went well. Nothing is executed. On the device's own thread as a whole, so that
    /// nobody else's launch or allocation gets in between.
    fn record(&self, sequence: &Sequence, repeated: &Repeated) -> Result<Recording, EngineError> {
        let client = &self.client;
        let take = || -> Result<Result<Graph, EngineError>, ServerError> {
            client.graph_prepare()?;
            let _window = Window(client);
            client.start_capture()?;
            for (launch, prepared) in sequence.launches().iter().zip(&repeated.prepared) {
                if let Err(refused) = self.queue_one(launch, Some(prepared)) {
                    return Ok(Err(refused));
                }
            }
            client.stop_capture().map(Ok)
        };
        let graph = Some(guarded(take)??);
        let (mut inputs, mut written): (Vec<Memory>, Vec<&Memory>) = (Vec::new(), Vec::new());
        for launch in sequence.launches() {
            for read in &launch.reads {
                if !inputs.iter().chain(written.iter().copied()).any(|own| own.is(read)) {
                    inputs.push(read.clone());
                }
            }
            written.extend(&launch.outputs);
        }
        Ok(Recording { adapter: self.adapter.clone(), graph, inputs })
    }

    /// Repeats what was recorded. On the device's own thread.
    fn replay(&self, sequence: &Sequence, recording: &Recording) -> Result<(), EngineError> {
        // A replay does not look at what it reads: what a failed launch left behind would count as data.
        let inputs = recording.inputs.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let Some(graph) = &recording.graph else { return Err(EngineError::internal("a recording that is gone")) };
        guarded(|| {
            self.client.check(inputs)?;
            // SAFETY: the sequence holds every buffer that is used, and all work on them is on this stream.
            unsafe { graph.replay() }
        })?;
        self.launches.fetch_add(sequence.launches().len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn launch_one(
        &self,
        launch: &Launch,
        repeated: Option<&OnceLock<Option<kernels::Prepared>>>,
    ) -> Result<(), EngineError> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        self.queue_one(launch, repeated)
    }

    fn queue_one(
        &self,
        launch: &Launch,
        repeated: Option<&OnceLock<Option<kernels::Prepared>>>,
    ) -> Result<(), EngineError> {
        if let Some(Some(prepared)) = repeated.and_then(OnceLock::get) {
            // It was checked when it was prepared.
            return caught(|| prepared.launch(&self.client));
        }
        let (cubes, max) = (launch.step.geometry.cubes, self.adapter.info.limits.max_cubes);
        if cubes.0 > max.0 || cubes.1 > max.1 || cubes.2 > max.2 {
            // The engine would let it pass, and lose the whole batch.
            return Err(EngineError::LimitExceeded {
                what: format!("a grid of {cubes:?} cubes, and the limit is {max:?}"),
            });
        }
        let (units, max) = (launch.step.geometry.units, self.adapter.info.limits.max_units);
        if units > max {
            return Err(EngineError::LimitExceeded {
                what: format!("{units} units in a cube, and the limit is {max}"),
            });
        }
        let (reads, outputs) = (handles(&launch.reads)?, handles(&launch.outputs)?);
        let prepared = kernels::Launch {
            task: &launch.step.task,
            geometry: launch.step.geometry,
            facts: &self.adapter.facts,
            reads: &reads,
            outputs: &outputs,
            aliases: &launch.aliases(),
            params: &launch.params,
        };
        let refused = |refused| EngineError::refused(&launch.step.task, refused);
        if let Some(repeated) = repeated {
            let prepared = caught(|| kernels::prepare(&self.client, &self.compiled, &prepared))?.map_err(refused)?;
            if let Some(prepared) = repeated.get_or_init(|| prepared) {
                return caught(|| prepared.launch(&self.client));
            }
        }
        caught(|| kernels::launch(&self.client, &self.compiled, &prepared))?.map_err(refused)
    }

    /// Waits for the engine, but not for ever.
    fn wait<'a, T: Send>(
        &self,
        start: impl FnOnce() -> Pin<Box<dyn Future<Output = Result<T, ServerError>> + Send + 'a>> + Send,
    ) -> Result<T, EngineError> {
        let started = self.adapter.on_thread(|| Started::new(start()))?;
        Ok(self.adapter.answer(started)??)
    }

    #[cfg(feature = "graphics")]
    fn check(&self, handle: &Handle) -> Result<(), EngineError> {
        self.adapter.on_thread(|| guarded(|| self.client.check([handle])))?
    }

    /// The place of a handle in its wgpu buffer.
    #[cfg(feature = "graphics")]
    fn with_place<T>(
        &self,
        handle: &Handle,
        use_place: impl FnOnce(super::Place<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let managed = self.adapter.on_thread(|| {
            guarded(|| {
                // What was launched before must be on the queue before our copy.
                self.client.flush()?;
                self.client.get_resource::<super::shaders::ShaderServer>(handle.clone())
            })
        })??;
        let resource = managed.resource();
        let place = super::Place { buffer: &resource.buffer, offset: resource.offset, bytes: resource.size };
        caught(|| use_place(place))?
    }
}

impl Engine for CubeEngine {
    fn facts(&self) -> &DeviceFacts {
        &self.adapter.facts
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        let room = heap::allocate(&self.heap, bytes, |bytes| self.allocate_whole(bytes))?;
        let capacity = room.capacity;
        let piece = match room.slot {
            Some(slot) => {
                let rest = room.chunk.size() - room.offset - capacity;
                let handle = room.chunk.offset_start(room.offset).offset_end(rest);
                DeviceBlock { handle, slot: Some((slot, self.heap.clone())) }
            }
            None => DeviceBlock { handle: room.chunk, slot: None },
        };
        Ok(Memory { capacity, inner: Arc::new(piece) })
    }

    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        let handle = handle(memory)?;
        #[cfg(feature = "graphics")]
        if let (Some(staging), STAGED..) = (&self.adapter.staging, data.len())
            // The engine would not see that our copy heals what a failed launch left behind.
            && self.check(handle).is_ok()
        {
            return self.with_place(handle, |place| lock(staging).upload(&place, data));
        }
        // Written to the end: what a failed launch left behind is healed only where something is written.
        let mut whole = Vec::with_capacity(memory.capacity as usize);
        whole.extend_from_slice(data);
        whole.resize(memory.capacity as usize, 0);
        self.wait(|| {
            self.client.write(handle, Bytes::from_bytes_vec(whole));
            self.client.sync_buffers([handle])
        })
    }

    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        let handle = handle(memory)?;
        #[cfg(feature = "graphics")]
        if let (Some(staging), STAGED..) = (&self.adapter.staging, into.len()) {
            self.check(handle)?;
            return self.with_place(handle, |place| lock(staging).download(&place, into));
        }
        let unused = memory.capacity - into.len() as u64;
        let read = || self.client.read_async(vec![handle.clone().offset_end(unused)]);
        let bytes = self.wait(|| Box::pin(read()))?.remove(0);
        caught(|| into.copy_from_slice(&bytes[..into.len()]))
    }

    fn run(&self, sequences: &[Arc<Sequence>]) -> Vec<Result<(), EngineError>> {
        if let Err(error) = self.will_queue() {
            return vec![Err(error); sequences.len()];
        }
        let all = || sequences.iter().map(|sequence| self.run_one(sequence)).collect::<Vec<_>>();
        self.adapter.on_thread(all).unwrap_or_else(|error| vec![Err(error); sequences.len()])
    }

    fn profile(&self, launch: &Arc<Launch>) -> Result<Duration, EngineError> {
        let timed = self.adapter.on_thread(|| self.client.profile(|| self.launch_one(launch, None), "dala"))?;
        let (launched, time) = timed.map_err(|error| EngineError::internal(format!("not measured: {error}")))?;
        launched?;
        let ticks = self.adapter.answer(Started::new(Box::pin(time.resolve())))?;
        Ok(ticks.map(|ticks| ticks.duration()).unwrap_or_default())
    }

    fn foresee(&self, launches: &[Arc<Launch>]) {
        let queue = || {
            // The engine builds what is queued when the first of them is launched.
            let _queued = StreamModeOverride::new(StreamMode::Discard, &self.client);
            launches.iter().for_each(|launch| drop(self.queue_one(launch, None)));
        };
        let _ = self.adapter.on_thread(queue);
    }

    fn build(&self, launches: &[Arc<Launch>]) -> Vec<Result<(), EngineError>> {
        let build = |launch: &Launch| {
            // First, because it panics while somebody else in the process has the engine build kernels only.
            let _building = ProcessModeOverride::new(ProcessMode::CompileAndAutotune, &BUILT);
            let _discarded = StreamModeOverride::new(StreamMode::Discard, &self.client);
            // Failures to compile show nowhere else than in a measurement of nothing.
            let not_measured = |error| EngineError::internal(format!("not measured: {error}"));
            let window = self.client.profile_start().map_err(not_measured)?;
            // Whatever happens, the window is closed.
            let launched = caught(|| self.queue_one(launch, None)).and_then(|launched| launched);
            match self.client.profile_end(window) {
                Err(ProfileError::Server(error)) => Err((*error).into()),
                _ => launched,
            }
        };
        let all = || launches.iter().map(|launch| caught(|| build(launch)).and_then(|built| built)).collect::<Vec<_>>();
        self.adapter.on_thread(all).unwrap_or_else(|error| vec![Err(error); launches.len()])
    }

    fn synchronise(&self, outputs: Vec<Memory>) -> Box<dyn Synchronisation> {
        let begin = |handles: SmallVec<[&Handle; 4]>| {
            let started = Started::new(self.client.sync_buffers(handles.iter().copied()));
            // What failed shows at once, and must be asked for before a later pass overwrites it.
            let checked = match &started {
                Started::Ready(Err(_)) => {
                    handles.iter().map(|handle| guarded(|| self.client.check([*handle]))).collect()
                }
                _ => Vec::new(),
            };
            (started, checked)
        };
        let begun = handles(&outputs).and_then(|handles| self.adapter.on_thread(|| begin(handles)));
        let (started, checked) = match begun {
            Ok((started, checked)) => (Ok(started), checked),
            Err(error) => (Err(error), Vec::new()),
        };
        let (adapter, client) = (self.adapter.clone(), self.client.clone());
        let _queued = lock(&self.queued).take();
        Box::new(CubeSynchronisation { adapter, client, outputs, started, checked, _queued })
    }

    fn overlaps(&self) -> bool {
        true
    }

    #[cfg(feature = "graphics")]
    fn graphics(&self) -> Option<&super::Graphics> {
        self.adapter.graphics.as_ref()
    }

    #[cfg(feature = "graphics")]
    fn place(&self, memory: &Memory, act: &mut dyn FnMut(super::Place<'_>)) -> Result<(), EngineError> {
        if self.adapter.graphics.is_none() {
            return Err(EngineError::internal("no graphics device"));
        }
        let handle = handle(memory)?;
        // What a failed launch left behind is no data.
        self.check(handle)?;
        self.with_place(handle, |place| {
            act(place);
            Ok(())
        })
    }

    fn reserved_bytes(&self) -> Result<u64, EngineError> {
        self.adapter.on_thread(|| self.client.memory_report(MemoryScope::CurrentStream).usage().bytes_reserved)
    }

    fn trim(&self) -> Result<(), EngineError> {
        let empty = lock(&self.heap).remove_empty();
        drop(empty);
        #[cfg(feature = "graphics")]
        if let Some(staging) = &self.adapter.staging {
            caught(|| lock(staging).trim())?;
        }
        self.adapter.on_thread(|| guarded(|| self.client.memory_cleanup()))?
    }

    fn compilations(&self) -> u64 {
        self.compiled.built()
    }

    fn found(&self) -> u64 {
        self.compiled.found()
    }

    fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: super::tests::Fault) -> Result<(), EngineError> {
        let handle = handle(output)?;
        self.adapter.on_thread(|| super::tests::launch_faulty(&self.client, handle, fault))
    }
}
