//! Devices: open one, and run kernels on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use dala_kernels::{Kernel, Registry, Work};
use dala_spec::{DType, DeviceFacts, Params, Place, Program, Scalar, Support, TensorType, validate};

use crate::account::{Account, MemoryStats, system_memory};
use crate::buffer::Allocation;
use crate::engine::{Adapter, CubeEngine, Engine, EngineError, Launch, Memory, open_adapter};
use crate::plan::{Plan, Plans};
use crate::{Backend, Buffer, Definition, DeviceInfo, DeviceKind, Error};

/// One adapter through one engine back end, with kernels, memory and counters of its own. Cheap to clone.
#[derive(Clone)]
pub struct Device(Arc<Core>);

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// The most bytes that buffers may use; by default most of what the adapter has.
    pub memory_budget: Option<u64>,
}

/// What a device did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Kernels launched on the device.
    pub launches: u64,
    /// Kernels built for the device by this process. A new value of a param or a new length builds none, unless it shapes the
    /// code, as a blur's radius does.
    pub compilations: u64,
    /// Kernels computed by the host in the device's place. There is no code that does so; tests hold it to that.
    pub host_fallbacks: u64,
    /// Bytes copied to the device.
    pub uploaded_bytes: u64,
    /// Bytes copied from the device.
    pub downloaded_bytes: u64,
}

pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) info: DeviceInfo,
    pub(crate) account: Arc<Account>,
    engine: Box<dyn Engine>,
    registry: RwLock<Registry>,
    plans: Plans,
    /// Held while work is queued and waited for, so that it runs in the order of the calls.
    queue: Mutex<()>,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
}

/// The memory of one run of a plan, but for its output.
struct Staged {
    inputs: Vec<Memory>,
    transients: Vec<Allocation>,
    /// What is read in place of an input that is also the output.
    _copy: Option<Allocation>,
}

impl Device {
    /// Every device of this machine that this build can use, best first.
    pub fn list() -> Vec<DeviceInfo> {
        let mut devices: Vec<DeviceInfo> = Backend::ALL
            .into_iter()
            .filter(|backend| backend.is_built())
            .filter_map(|backend| open_adapter(backend).ok())
            .map(|adapter| adapter.info.clone())
            .collect();
        devices.sort_by_key(|info| preference(info.kind));
        devices
    }

    /// Opens a device: `vulkan`, `gl`, `metal`, `cuda`, `rocm` or `cpu`; `auto` takes a real GPU if there is one, then
    /// the CPU runtime, then a software driver. The environment variable `DALA_DEVICE` overrides `auto`.
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
        let backend = match name {
            "auto" => match std::env::var("DALA_DEVICE") {
                Ok(wanted) if !wanted.is_empty() && wanted != "auto" => backend_of(&wanted)?,
                _ => best()?,
            },
            other => backend_of(other)?,
        };
        let adapter = open_adapter(backend)
            .map_err(|reason| Error::DeviceUnavailable { name: backend.name().to_owned(), reason })?;
        Ok(Device::on(adapter, options))
    }

    fn on(adapter: Arc<Adapter>, options: DeviceOptions) -> Device {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = adapter_account(&adapter.info);
        let budget = options.memory_budget.unwrap_or(shared.budget());
        Device(Arc::new(Core {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            info: adapter.info.clone(),
            account: Account::new(budget, Some(shared)),
            engine: Box::new(CubeEngine::new(adapter)),
            registry: RwLock::new(Registry::built_in()),
            plans: Plans::new(),
            queue: Mutex::new(()),
            uploaded: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
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
        let kernel = definition.kernel(name, expression)?;
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        Ok(registry.add(kernel)?)
    }

    /// Every kernel that can be called, by name.
    pub fn kernels(&self) -> Vec<Arc<Kernel>> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner).kernels()
    }

    /// How the device runs a kernel on elements of a type.
    ///
    /// # Errors
    ///
    /// No kernel has this name.
    pub fn support(&self, kernel: &str, dtype: DType) -> Result<Support, Error> {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        Ok(dala_kernels::table::support(registry.get(kernel)?, dtype, self.0.facts()))
    }

    /// Runs a kernel and waits until its output is written. The output may be one of the inputs.
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
        let core = &self.0;
        let kernel = core.registry.read().unwrap_or_else(PoisonError::into_inner).get(kernel)?.clone();
        for buffer in inputs.iter().chain([&output]) {
            buffer.check_device(core)?;
        }
        let types: Vec<TensorType> = inputs.iter().map(|input| input.ty().clone()).collect();
        // Every problem is found; the first one is reported.
        let signature = validate(&kernel.spec, &types, output.ty(), &params.into())
            .map_err(|mut problems| Error::Spec(problems.swap_remove(0)))?;
        if output.is_empty() && matches!(kernel.work, Work::Lowered(_)) {
            // Nothing to do, so nothing is planned: tables for one huge side of an empty picture would be.
            output.memory()?;
            inputs.iter().try_for_each(|input| input.readable().map(drop))?;
            return Ok(());
        }
        let plan = core.plans.get(core, &kernel, &signature)?;
        let values = plan.param_values(&kernel.spec.name, &signature)?;
        let target = output.memory()?;
        let sources: Vec<Arc<Allocation>> = inputs.iter().map(|input| input.readable()).collect::<Result<_, _>>()?;
        if output.is_empty() {
            return Ok(());
        }
        let sources: Vec<Memory> = sources.iter().map(|source| source.memory.clone()).collect();
        let staged = core.stage(&plan, &sources, &target.memory)?;
        let result = core.launch(&plan, &staged, &target.memory, &values);
        output.settle(&result);
        result
    }

    /// What the device did so far.
    pub fn stats(&self) -> Stats {
        Stats {
            launches: self.0.engine.launches(),
            compilations: self.0.engine.compilations(),
            host_fallbacks: 0,
            uploaded_bytes: self.0.uploaded.load(Ordering::Relaxed),
            downloaded_bytes: self.0.downloaded.load(Ordering::Relaxed),
        }
    }

    /// The device's memory.
    ///
    /// # Errors
    ///
    /// The device fails.
    pub fn memory(&self) -> Result<MemoryStats, Error> {
        let account = &self.0.account;
        let live = account.live();
        let cached = self.0.engine.reserved_bytes()?.saturating_sub(live);
        Ok(MemoryStats { budget: account.budget(), live, peak: account.peak(), cached })
    }

    /// Changes the most bytes that buffers may use. Buffers that exist stay.
    pub fn set_memory_budget(&self, bytes: u64) {
        self.0.account.set_budget(bytes);
    }

    /// Gives memory that no buffer uses back to the system.
    ///
    /// # Errors
    ///
    /// The device fails.
    pub fn trim(&self) -> Result<(), Error> {
        self.0.plans.trim();
        let _queue = self.0.queue();
        Ok(self.0.engine.trim()?)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Core {
    pub(crate) fn facts(&self) -> &DeviceFacts {
        self.engine.facts()
    }

    fn queue(&self) -> MutexGuard<'_, ()> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        match self.engine.allocate(bytes) {
            // What is cached for other sizes may be enough.
            Err(EngineError::OutOfMemory { .. }) => {
                self.engine.trim()?;
                let told = |error| match error {
                    EngineError::OutOfMemory { wanted, .. } => {
                        EngineError::OutOfMemory { wanted, budget: self.account.budget(), live: self.account.live() }
                    }
                    other => other,
                };
                self.engine.allocate(bytes).map_err(told)
            }
            other => other,
        }
    }

    pub(crate) fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), Error> {
        let _queue = self.queue();
        self.uploaded.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(self.engine.upload(memory, data)?)
    }

    pub(crate) fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), Error> {
        let _queue = self.queue();
        self.downloaded.fetch_add(into.len() as u64, Ordering::Relaxed);
        Ok(self.engine.download(memory, into)?)
    }

    /// Everything a plan needs beside its output. A failure here leaves the output as it is.
    fn stage(&self, plan: &Plan, inputs: &[Memory], output: &Memory) -> Result<Staged, Error> {
        let mut staged = Staged { inputs: inputs.to_vec(), transients: Vec::new(), _copy: None };
        if let Some(alias) = inputs.iter().position(|input| input.is(output))
            && !plan.works_in_place()
        {
            // Elements would be read after they were overwritten: read from a copy.
            let copy = Allocation::new(self, output.capacity as usize)?;
            let words = output.capacity as usize / 4;
            let copy_plan = Plan::over_words(Program::move_words(), words, self.facts());
            self.execute(&copy_plan, &[inputs[alias].clone()], &copy.memory, &[Vec::new()])?;
            let aliases = staged.inputs.iter_mut().filter(|input| input.is(output));
            aliases.for_each(|input| *input = copy.memory.clone());
            staged._copy = Some(copy);
        }
        let transients = plan.transients.iter().map(|bytes| Allocation::new(self, *bytes));
        staged.transients = transients.collect::<Result<_, _>>()?;
        Ok(staged)
    }

    /// Launches a plan and waits for a checked synchronisation of its output. `params` holds the run-time values of each
    /// launch.
    fn launch(&self, plan: &Plan, staged: &Staged, output: &Memory, params: &[Vec<Scalar>]) -> Result<(), Error> {
        let memory = |place: &Place| match *place {
            Place::Input(index) => staged.inputs[index].clone(),
            Place::Output => output.clone(),
            Place::Transient(index) => staged.transients[index].memory.clone(),
            Place::Constant(index) => plan.constants[index].memory.clone(),
        };
        self.complete(output, |engine| {
            for (planned, params) in plan.steps.iter().zip(params) {
                let reads: Vec<Memory> = planned.step.reads.iter().map(memory).collect();
                let outputs: Vec<Memory> = planned.step.writes.iter().map(memory).collect();
                let alias = |output: &Memory| reads.iter().position(|read| read.is(output));
                let aliases: Vec<Option<usize>> = outputs.iter().map(alias).collect();
                engine.launch(&Launch {
                    task: &planned.step.task,
                    geometry: planned.geometry,
                    reads: &reads,
                    outputs: &outputs,
                    aliases: &aliases,
                    params,
                })?;
            }
            Ok(())
        })
    }

    /// Stages and launches a plan.
    pub(crate) fn execute(
        &self,
        plan: &Plan,
        inputs: &[Memory],
        output: &Memory,
        params: &[Vec<Scalar>],
    ) -> Result<(), Error> {
        let staged = self.stage(plan, inputs, output)?;
        self.launch(plan, &staged, output, params)
    }

    /// Queues work that writes `output`, and waits until a checked synchronisation says that it is written.
    pub(crate) fn complete(
        &self,
        output: &Memory,
        queue: impl FnOnce(&dyn Engine) -> Result<(), EngineError>,
    ) -> Result<(), Error> {
        let _queue = self.queue();
        queue(&*self.engine)?;
        Ok(self.engine.synchronise(std::slice::from_ref(output))?)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device {} ({}, {})", self.0.id, self.0.info.backend, self.0.info.name)
    }
}

fn backend_of(name: &str) -> Result<Backend, Error> {
    let found = Backend::ALL.into_iter().find(|backend| backend.name() == name);
    found.ok_or_else(|| Error::UnknownDevice { name: name.to_owned() })
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

fn best() -> Result<Backend, Error> {
    let unavailable = || Error::DeviceUnavailable {
        name: "auto".to_owned(),
        reason: "this build finds no device on this machine".to_owned(),
    };
    Device::list().first().map(|info| info.backend).ok_or_else(unavailable)
}

/// The account that all devices of an adapter share.
fn adapter_account(info: &DeviceInfo) -> Arc<Account> {
    static ACCOUNTS: OnceLock<Mutex<HashMap<Backend, Arc<Account>>>> = OnceLock::new();
    const UNKNOWN: u64 = 4 << 30;
    let mut accounts = ACCOUNTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let total = info.memory_bytes.or_else(system_memory).unwrap_or(UNKNOWN);
    // The rest is for the program itself, its driver, and the engine's own buffers.
    accounts.entry(info.backend).or_insert_with(|| Account::new(total / 5 * 4, None)).clone()
}
