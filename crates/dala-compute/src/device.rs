//! Devices: open one, and run kernels on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use dala_kernels::{Kernel, Registry};
use dala_plan::Support;
use dala_schedule::{Power, Queue, QueueOptions, QueueStats, Thermal, WhileSuspended};
use dala_spec::DType;

use crate::command::Runner;
use crate::core::Core;
use crate::engine::{AdapterId, Backend, DeviceInfo, DeviceKind, Engine, kinds, open_adapter, open_engine};
use crate::error::Error;
use crate::front::Definition;
use crate::memory::{Account, Directory, MemoryPool, MemoryStats, system_memory};
use crate::plan::Calls;
use crate::trace::{Recorder, Trace};

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
    /// Kernels that were not built, because an earlier process kept them: see [`KernelCache`](crate::KernelCache).
    pub kernels_found: u64,
    /// Bytes copied to the device.
    pub uploaded_bytes: u64,
    /// Bytes copied from the device.
    pub downloaded_bytes: u64,
    /// Commands, lanes, and how hard the device may work. Every call is a command: also a read or a write.
    pub queue: QueueStats,
    /// How often memory was given back because the system was short of it.
    pub memory_pressures: u64,
}

impl Device {
    /// Every device of this machine that this build can use, best first. Each is opened to say what it can do.
    pub fn list() -> Vec<DeviceInfo> {
        let all = Backend::ALL.into_iter().flat_map(|backend| numbered(backend, kinds));
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
                _ => best(kinds)?,
            },
            other => named(other)?,
        };
        let unavailable = |reason| Error::DeviceUnavailable { name: name.to_owned(), reason };
        let adapter = open_adapter(id).map_err(unavailable)?;
        let (info, engine) = (adapter.info.clone(), open_engine(adapter, options.threads)?);
        Ok(Device::with_engine(info, engine, options))
    }

    pub(crate) fn with_engine(info: DeviceInfo, engine: Arc<dyn Engine>, options: DeviceOptions) -> Device {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = adapter_account(&info);
        let budget = options.memory_budget.unwrap_or(shared.budget());
        let pool = Arc::new(MemoryPool::new(engine, Account::new(budget, Some(shared))));
        let recorder = Arc::<Recorder>::default();
        let capacity = options.queue_capacity.unwrap_or(QUEUE_CAPACITY);
        Device(Arc::new(Core {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            info,
            queue: Queue::new(Runner::new(pool.clone(), recorder.clone()), QueueOptions { capacity }),
            recorder,
            pool,
            calls: Calls::new(),
            registry: RwLock::new(Registry::built_in()),
            buffers: Arc::<Directory>::default(),
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

    /// The number of buffers that somebody holds, freed ones among them.
    pub fn buffer_count(&self) -> usize {
        self.0.buffers.len()
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
        self.0.calls.trim();
        match self.0.tend(|| self.0.pool.engine.trim()) {
            Err(Error::Suspended) => Ok(()),
            other => other,
        }
    }

    /// Begins to record what the device does, until [`stop_trace`](Device::stop_trace); one that was begun before is
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
            kernels_found: pool.engine.found(),
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
        self.0.calls.trim();
        self.0.tend(|| self.0.pool.engine.trim())
    }

    pub(crate) fn from_core(core: Arc<Core>) -> Device {
        Device(core)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
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
        None => Ok(best_of(numbered(backend, kinds)).map_or(AdapterId { backend, number: 0 }, |(id, _)| id)),
    }
}

fn numbered(
    backend: Backend,
    mut kinds: impl FnMut(Backend) -> Vec<DeviceKind>,
) -> impl Iterator<Item = (AdapterId, DeviceKind)> {
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

/// The best adapter, asking of as few back ends as need be.
fn best(mut kinds: impl FnMut(Backend) -> Vec<DeviceKind>) -> Result<AdapterId, Error> {
    let mut found: Vec<(AdapterId, DeviceKind)> = Vec::new();
    for backend in Backend::ALL {
        found.extend(best_of(numbered(backend, &mut kinds)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_the_best_and_asks_no_further() {
        let mut asked = Vec::new();
        let id = best(|backend| {
            asked.push(backend);
            match backend {
                Backend::Vulkan => vec![DeviceKind::Software, DeviceKind::Integrated, DeviceKind::Discrete],
                Backend::Gl => vec![DeviceKind::Discrete],
                Backend::Cpu => vec![DeviceKind::Cpu],
                _ => Vec::new(),
            }
        });
        let id = id.unwrap();
        assert_eq!((id.backend, id.number), (Backend::Vulkan, 2));
        assert_eq!(asked.last(), Some(&Backend::Vulkan));
    }
}
