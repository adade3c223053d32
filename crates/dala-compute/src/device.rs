//! Devices: open one, and run kernels on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use dala_kernels::{Kernel, Registry};
use dala_plan::{DeviceFacts, Support};
use dala_schedule::{CommandId, Lane, Power, Queue, QueueOptions, QueueStats, Submission, Thermal, WhileSuspended};
use dala_spec::{DType, Params};

use crate::account::{Account, MemoryStats, system_memory};
use crate::buffer::{Directory, Slot};
use crate::engine::{AdapterId, Engine, EngineError, kinds, open_adapter, open_engine};
use crate::job::{Job, Prepared};
use crate::plan::Plans;
use crate::pool::{Allocation, Pool};
use crate::recorder::Recorder;
use crate::runner::Runner;
use crate::trace::Trace;
use crate::{Backend, Buffer, BufferId, Command, Definition, DeviceInfo, DeviceKind, Error, Stage, SubmitOptions};

/// One adapter through one engine back end, with kernels, memory and counters of its own. Cheap to clone.
#[derive(Clone)]
pub struct Device(Arc<Core>);

/// How to open a device.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The most bytes that buffers may use; by default most of what the adapter has.
    pub memory_budget: Option<u64>,
    /// Commands that may wait in each lane; by default 4096.
    pub queue_capacity: Option<usize>,
    /// Threads of the CPU device, the calling one among them; by default what the environment variable `DALA_THREADS` says, or
    /// as many as there are cores. Other devices have none of ours.
    pub threads: Option<usize>,
}

impl DeviceOptions {
    /// The defaults.
    pub fn new() -> DeviceOptions {
        DeviceOptions::default()
    }

    /// The most bytes that buffers may use.
    pub fn memory_budget(mut self, bytes: u64) -> DeviceOptions {
        self.memory_budget = Some(bytes);
        self
    }

    /// Threads of the CPU device, the calling one among them.
    pub fn threads(mut self, threads: usize) -> DeviceOptions {
        self.threads = Some(threads);
        self
    }

    /// Commands that may wait in each lane.
    pub fn queue_capacity(mut self, commands: usize) -> DeviceOptions {
        self.queue_capacity = Some(commands);
        self
    }
}

/// Commands that may wait in each lane, unless the options say otherwise.
const QUEUE_CAPACITY: usize = 4096;

/// What a device did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Kernels launched on the device.
    pub launches: u64,
    /// Kernels built for the device by this process. A new value of a param or a new length builds none, unless it shapes the
    /// code, as a blur's radius does.
    pub compilations: u64,
    /// Bytes copied to the device.
    pub uploaded_bytes: u64,
    /// Bytes copied from the device.
    pub downloaded_bytes: u64,
    /// Commands, lanes, and how hard the device may work. Every call is a command: also a read or a write.
    pub queue: QueueStats,
    /// How often memory was given back because the system was short of it.
    pub memory_pressures: u64,
}

pub(crate) struct Core {
    /// The only way to work on the device. The first field, so that it is dropped first: that waits for what is in flight.
    pub(crate) queue: Queue<Runner>,
    pub(crate) id: u64,
    pub(crate) info: DeviceInfo,
    pub(crate) pool: Arc<Pool>,
    pub(crate) plans: Plans,
    recorder: Arc<Recorder>,
    registry: RwLock<Registry>,
    /// Buffers that somebody holds, so that they can be found by id.
    pub(crate) buffers: Directory,
    memory_pressures: AtomicU64,
}

impl Device {
    /// Every device of this machine that this build can use, best first. Each is opened to say what it can do.
    pub fn list() -> Vec<DeviceInfo> {
        let all = Backend::ALL.into_iter().flat_map(numbered);
        let mut devices: Vec<DeviceInfo> =
            all.filter_map(|(id, _)| open_adapter(id).ok()).map(|adapter| adapter.info.clone()).collect();
        devices.sort_by_key(|info| preference(info.kind));
        devices
    }

    /// Opens a device: `vulkan`, `gl`, `metal`, `cuda`, `rocm` or `cpu`. Where there are several of a kind, that is the best of
    /// them; `vulkan:1` is the second one that the driver lists. `auto` takes a real GPU if there is one, then the CPU runtime,
    /// then a software driver, and opens no other. The environment variable `DALA_DEVICE` overrides `auto`.
    ///
    /// # Errors
    ///
    /// The name is none of these, or this machine or this build has no such device.
    pub fn open(name: &str) -> Result<Device, Error> {
        Device::open_with(name, DeviceOptions::default())
    }

    /// Opens a device with options.
    ///
    /// # Errors
    ///
    /// As [`open`](Device::open).
    pub fn open_with(name: &str, options: DeviceOptions) -> Result<Device, Error> {
        let id = match name {
            "auto" => match std::env::var("DALA_DEVICE") {
                Ok(wanted) if !wanted.is_empty() && wanted != "auto" => named(&wanted)?,
                _ => best()?,
            },
            other => named(other)?,
        };
        let unavailable = |reason| Error::DeviceUnavailable { name: name.to_owned(), reason };
        let adapter = open_adapter(id).map_err(unavailable)?;
        let (info, engine) = (adapter.info.clone(), open_engine(adapter, &options)?);
        Ok(Device::with_engine(info, engine, options))
    }

    pub(crate) fn with_engine(info: DeviceInfo, engine: Arc<dyn Engine>, options: DeviceOptions) -> Device {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = adapter_account(&info);
        let budget = options.memory_budget.unwrap_or(shared.budget());
        let pool = Arc::new(Pool::new(engine, Account::new(budget, Some(shared))));
        let recorder = Arc::<Recorder>::default();
        let capacity = options.queue_capacity.unwrap_or(QUEUE_CAPACITY);
        Device(Arc::new(Core {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            info,
            queue: Queue::new(Runner::new(pool.clone(), recorder.clone()), QueueOptions { capacity }),
            recorder,
            pool,
            plans: Plans::new(),
            registry: RwLock::new(Registry::built_in()),
            buffers: Directory::default(),
            memory_pressures: AtomicU64::new(0),
        }))
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Defines a kernel from an expression; it is then used by name like any other.
    ///
    /// # Errors
    ///
    /// The expression does not parse, or the name is taken or no name.
    pub fn define(&self, name: &str, expression: &str, definition: Definition) -> Result<(), Error> {
        self.add_kernel(definition.kernel(name, expression)?)
    }

    /// Adds a kernel; it is then used by name like any other.
    ///
    /// # Errors
    ///
    /// One of its names is taken or no name.
    pub fn add_kernel(&self, kernel: Kernel) -> Result<(), Error> {
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        Ok(registry.add(kernel)?)
    }

    /// Every kernel that can be called, by name.
    pub fn kernels(&self) -> Vec<Arc<Kernel>> {
        self.0.registry().kernels()
    }

    /// How the device runs a kernel on elements of a type.
    ///
    /// # Errors
    ///
    /// No kernel has this name.
    pub fn support(&self, kernel: &str, dtype: DType) -> Result<Support, Error> {
        let registry = self.0.registry();
        Ok(dala_kernels::table::support(registry.get(kernel)?, dtype, self.0.facts()))
    }

    /// Runs a kernel and waits until its output is written. The output may be one of the inputs.
    ///
    /// This is [`submit`](Device::submit) and [`wait`](Command::wait) in the default lane; on an idle device this thread
    /// itself does the work.
    ///
    /// # Errors
    ///
    /// The call does not fit the kernel, or the device cannot run it: nothing was launched then. Or the device failed:
    /// then `output` is poisoned until it is written again.
    pub fn run(
        &self,
        kernel: &str,
        inputs: &[&Buffer],
        output: &Buffer,
        params: impl Into<Params>,
    ) -> Result<(), Error> {
        let mut job = Job::default();
        self.0.prepare_kernel(&mut job, kernel, inputs, output, &params.into())?;
        self.0.run_job(job)
    }

    /// Queues stages, to be executed in order, and returns at once; unless the lane is full and the options say to wait.
    ///
    /// Commands that touch the same buffer keep the order in which they were submitted, whatever their lanes. Buffers may
    /// be freed or dropped before the command ends.
    ///
    /// ```
    /// # use dala_compute::{Buffer, CommandState, DType, Device, Lane, Stage};
    /// # fn main() -> Result<(), dala_compute::Error> {
    /// # let device = Device::open("cpu")?;
    /// let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2])?;
    /// let y = Buffer::zeros(&device, DType::F32, [2])?;
    /// let stages = [
    ///     Stage::run_kernel("relu", &[&x], &y, ()),
    ///     Stage::run_kernel("scalar_mul", &[&y], &y, [("scalar", 3.0)]),
    /// ];
    /// let command = device.submit(stages, Lane::Background)?;
    /// command.wait(None)?;
    /// assert_eq!(command.poll(), CommandState::Completed);
    /// assert_eq!(y.read::<f32>()?, [3.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A stage does not fit its kernel, a buffer is freed, of another device, or known to be unreadable; the lane is full and
    /// the options say so; or the device is suspended and commands are to fail. Nothing is queued then.
    pub fn submit(&self, stages: impl Into<Vec<Stage>>, options: impl Into<SubmitOptions>) -> Result<Command, Error> {
        let options = options.into();
        let job = self.0.prepare(&stages.into(), options.only_planned)?;
        self.0.submit_job(job, options)
    }

    /// A command by its id: one that has not ended, or one of the last 65,536 that have.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn command(&self, id: CommandId) -> Result<Command, Error> {
        let ticket = self.0.queue.find(id).ok_or(Error::UnknownCommand { command: id })?;
        Ok(Command::new(ticket, self.0.clone()))
    }

    /// A buffer of this device by its id, as long as somebody holds it.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn buffer(&self, id: BufferId) -> Result<Buffer, Error> {
        Buffer::find(&self.0, id)
    }

    /// The number of buffers that somebody holds, freed ones among them.
    pub fn buffer_count(&self) -> usize {
        self.0.buffers.len()
    }

    /// What is wrong with stages, all of it: an empty list if [`submit`](Device::submit) would take them.
    pub fn check(&self, stages: &[Stage]) -> Vec<Error> {
        self.0.problems(stages)
    }

    /// Stops using the device, as an app must that goes into the background. When this returns, nothing is in flight.
    /// Commands that have not ended wait for [`resume`](Device::resume) or fail, as asked; so do new ones, reads and writes
    /// among them.
    pub fn suspend(&self, pending: WhileSuspended) {
        self.0.queue.suspend(pending);
    }

    /// Uses the device again.
    pub fn resume(&self) {
        self.0.queue.resume();
    }

    /// Changes how much energy may be spent: how long lanes rest, and how much is in flight at once.
    pub fn set_power(&self, power: Power) {
        self.0.queue.set_power(power);
    }

    /// Says how hot the device is, so that it is given time to cool.
    pub fn report_thermal(&self, level: Thermal) {
        self.0.queue.set_thermal(level);
    }

    /// The system is short of memory: gives back what no buffer uses. While the device is suspended it is not touched, and
    /// only what is known about calls is forgotten.
    ///
    /// # Errors
    ///
    /// The device fails.
    pub fn memory_pressure(&self) -> Result<(), Error> {
        self.0.memory_pressures.fetch_add(1, Ordering::Relaxed);
        self.0.plans.trim();
        match self.0.tend(|| self.0.pool.engine.trim()) {
            Err(Error::Suspended) => Ok(()),
            other => other,
        }
    }

    /// Begins to take down what the device does, until [`stop_trace`](Device::stop_trace); one that was begun before is
    /// forgotten. Traces are large: this is for people who look at a few seconds.
    pub fn start_trace(&self) {
        self.0.recorder.start(format!("{} ({})", self.0.info.backend, self.0.info.name));
    }

    /// What the device did since [`start_trace`](Device::start_trace). [`trace::to_perfetto`](crate::trace::to_perfetto) makes
    /// a file of it that people can look at.
    pub fn stop_trace(&self) -> Trace {
        self.0.recorder.stop()
    }

    /// What the device did so far.
    pub fn stats(&self) -> Stats {
        let Core { pool, queue, .. } = &*self.0;
        Stats {
            launches: pool.engine.launches(),
            compilations: pool.engine.compilations(),
            uploaded_bytes: pool.uploaded(),
            downloaded_bytes: pool.downloaded(),
            queue: queue.stats(),
            memory_pressures: self.0.memory_pressures.load(Ordering::Relaxed),
        }
    }

    /// The device's memory.
    ///
    /// # Errors
    ///
    /// The device fails.
    pub fn memory(&self) -> Result<MemoryStats, Error> {
        let pool = &self.0.pool;
        let reserved = match self.0.tend(|| pool.measure_reserved()) {
            // It is not touched: what was known last.
            Err(Error::Suspended) => pool.reserved(),
            other => other?,
        };
        let account = &pool.account;
        let live = account.live();
        let cached = reserved.saturating_sub(live);
        Ok(MemoryStats { budget: account.budget(), live, peak: account.peak(), cached })
    }

    /// The bytes that buffers use now: [`MemoryStats::live`], without a turn on the device.
    pub fn live_bytes(&self) -> u64 {
        self.0.pool.account.live()
    }

    /// Changes the most bytes that buffers may use. Buffers that exist stay.
    pub fn set_memory_budget(&self, bytes: u64) {
        self.0.pool.account.set_budget(bytes);
    }

    /// Gives memory that no buffer uses back to the system.
    ///
    /// # Errors
    ///
    /// The device is suspended, or fails.
    pub fn trim(&self) -> Result<(), Error> {
        self.0.plans.trim();
        self.0.tend(|| self.0.pool.engine.trim())
    }

    pub(crate) fn from_core(core: Arc<Core>) -> Device {
        Device(core)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Core {
    pub(crate) fn facts(&self) -> &DeviceFacts {
        self.pool.engine.facts()
    }

    pub(crate) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        // Nothing is left half-done by a panic under this lock.
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a buffer; nothing waits for the device.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        let (bytes, max) = (bytes as u64, self.info.limits.max_buffer_bytes);
        if bytes > max {
            return Err(EngineError::BufferTooLarge { bytes, max }.into());
        }
        Ok(self.pool.reserve(bytes as usize)?)
    }

    /// Queues work.
    pub(crate) fn submit_job(self: &Arc<Core>, mut job: Job, options: SubmitOptions) -> Result<Command, Error> {
        self.stamp(&mut job);
        let ticket = self.queue.submit(job, options.submission())?;
        Ok(Command::new(ticket, self.clone()))
    }

    /// Notes when work was submitted, if somebody wants to know.
    fn stamp(&self, job: &mut Job) {
        if self.recorder.is_on() {
            job.submitted = Some(std::time::Instant::now());
        }
    }

    /// Queues work and waits for it.
    pub(crate) fn run_job(&self, mut job: Job) -> Result<(), Error> {
        self.stamp(&mut job);
        Ok(self.queue.run(job, Submission::default())?)
    }

    /// Does something with the device itself, when it is the turn of this thread: after the commands before it that use
    /// these buffers, and while nothing else runs.
    pub(crate) fn access<T>(
        &self,
        reads: &[&Arc<Slot>],
        writes: &[&Arc<Slot>],
        act: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        self.act(reads, writes, false, act)
    }

    /// Does something about the device itself, while nothing else runs; refused while it is suspended.
    fn tend<T>(&self, act: impl FnOnce() -> Result<T, EngineError>) -> Result<T, Error> {
        self.act(&[], &[], true, act)
    }

    fn act<T>(
        &self,
        reads: &[&Arc<Slot>],
        writes: &[&Arc<Slot>],
        refuse_if_suspended: bool,
        act: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        let mut job = Job::default();
        job.push(Prepared::ByCaller, reads, writes);
        let how = Submission { lane: Lane::Interactive, refuse_if_suspended, ..Submission::default() };
        Ok(self.queue.act(job, how, || act().map_err(|error| Arc::new(error.into())))?)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device {} ({}, {})", self.0.id, self.0.info.backend, self.0.info.name)
    }
}

/// The adapter of that name: a back end, or one of its adapters by number.
fn named(name: &str) -> Result<AdapterId, Error> {
    let unknown = || Error::UnknownDevice { name: name.to_owned() };
    let (backend, number) = match name.split_once(':') {
        Some((backend, number)) => (backend, Some(number.parse().map_err(|_| unknown())?)),
        None => (name, None),
    };
    let backend = Backend::ALL.into_iter().find(|own| own.name() == backend).ok_or_else(unknown)?;
    match number {
        Some(number) => Ok(AdapterId { backend, number }),
        // Where there is none, opening the first says why.
        None => Ok(best_of(numbered(backend)).map_or(AdapterId { backend, number: 0 }, |(id, _)| id)),
    }
}

fn numbered(backend: Backend) -> impl Iterator<Item = (AdapterId, DeviceKind)> {
    kinds(backend).into_iter().enumerate().map(move |(number, kind)| (AdapterId { backend, number }, kind))
}

fn best_of(adapters: impl Iterator<Item = (AdapterId, DeviceKind)>) -> Option<(AdapterId, DeviceKind)> {
    adapters.min_by_key(|(_, kind)| preference(*kind))
}

/// Smaller is better: real GPUs, then the CPU runtime, then software drivers.
fn preference(kind: DeviceKind) -> u8 {
    match kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::OtherGpu => 2,
        DeviceKind::Cpu => 3,
        DeviceKind::Software => 4,
    }
}

fn best() -> Result<AdapterId, Error> {
    let mut found: Vec<(AdapterId, DeviceKind)> = Vec::new();
    for backend in Backend::ALL {
        found.extend(best_of(numbered(backend)));
        // What comes after promises less.
        if found.last().is_some_and(|(_, kind)| kind.is_gpu()) {
            break;
        }
    }
    best_of(found.into_iter()).map(|(id, _)| id).ok_or_else(|| Error::DeviceUnavailable {
        name: "auto".to_owned(),
        reason: "this build finds no device on this machine".to_owned(),
    })
}

/// The account that all devices of an adapter share.
fn adapter_account(info: &DeviceInfo) -> Arc<Account> {
    static ACCOUNTS: OnceLock<Mutex<HashMap<String, Arc<Account>>>> = OnceLock::new();
    const UNKNOWN: u64 = 4 << 30;
    let mut accounts = ACCOUNTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let total = info.memory_bytes.or_else(system_memory).unwrap_or(UNKNOWN);
    // The rest is for the program itself, its driver, and the engine's own buffers.
    accounts.entry(info.id.clone()).or_insert_with(|| Account::new(total / 5 * 4, None)).clone()
}
