//! Finds and opens adapters, and tells the truth about them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::ir::{ElemType, FloatKind, IntKind, UIntKind};
use dala_plan::{DeviceFacts, Support};
use dala_spec::DType;

use super::ending::{attend_exit, stay_first};
use super::error::{caught, guarded};
use super::panics::silence_caught_panics;
#[cfg(feature = "graphics")]
use super::staging::Staging;
use super::{EngineError, HeldThread};

/// An engine back end: how kernels reach the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// NVIDIA's CUDA.
    Cuda,
    /// AMD's ROCm.
    Rocm,
    /// Apple's Metal.
    Metal,
    /// Vulkan, with kernels in SPIR-V.
    Vulkan,
    /// OpenGL ES, with kernels in WGSL.
    Gl,
    /// The engine's CPU runtime, with kernels compiled by LLVM.
    Cpu,
}

impl Backend {
    /// All of them, the ones that promise most first.
    pub const ALL: [Backend; 6] =
        [Backend::Cuda, Backend::Rocm, Backend::Metal, Backend::Vulkan, Backend::Gl, Backend::Cpu];

    /// The name by which a device is opened.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Rocm => "rocm",
            Backend::Metal => "metal",
            Backend::Vulkan => "vulkan",
            Backend::Gl => "gl",
            Backend::Cpu => "cpu",
        }
    }

    /// Whether this build contains it.
    pub const fn is_built(self) -> bool {
        match self {
            Backend::Cuda => cfg!(feature = "cuda"),
            Backend::Rocm => cfg!(feature = "rocm"),
            Backend::Metal => cfg!(feature = "metal"),
            Backend::Vulkan => cfg!(feature = "vulkan"),
            Backend::Gl => cfg!(feature = "gl"),
            Backend::Cpu => cfg!(feature = "cpu"),
        }
    }

    /// Whether it goes through wgpu, whose shaders need 8-bit elements packed.
    const fn is_wgpu(self) -> bool {
        matches!(self, Backend::Metal | Backend::Vulkan | Backend::Gl)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of hardware executes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the system's memory.
    Integrated,
    /// A graphics driver that computes on the CPU.
    Software,
    /// The engine's own CPU runtime.
    Cpu,
    /// A GPU behind a driver that does not say which kind it is.
    OtherGpu,
}

impl DeviceKind {
    /// The name used in listings.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "discrete",
            DeviceKind::Integrated => "integrated",
            DeviceKind::Software => "software",
            DeviceKind::Cpu => "cpu",
            DeviceKind::OtherGpu => "other",
        }
    }

    /// Whether kernels run on a GPU.
    pub const fn is_gpu(self) -> bool {
        matches!(self, DeviceKind::Discrete | DeviceKind::Integrated | DeviceKind::OtherGpu)
    }
}

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest single buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// How many buffers one kernel binds.
    pub max_bindings: usize,
    /// The most cubes in a launch, along each axis.
    pub max_cubes: (u32, u32, u32),
    /// The most units in a cube.
    pub max_units: u32,
}

/// Which adapter: its back end, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AdapterId {
    pub(crate) backend: Backend,
    pub(crate) number: usize,
}

impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            // There is one.
            Backend::Cpu => f.write_str(self.backend.name()),
            backend => write!(f, "{backend}:{}", self.number),
        }
    }
}

/// What a device is, truthfully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What it is opened by: `cpu`, `vulkan:0`, `vulkan:1`.
    pub id: String,
    /// The adapter's name, as its driver says it.
    pub name: String,
    /// How kernels reach it.
    pub backend: Backend,
    /// What kind of hardware it is.
    pub kind: DeviceKind,
    /// Whether kernels run on a GPU: false for software drivers and the CPU runtime.
    pub gpu: bool,
    /// The driver's name and version, where it says so.
    pub driver: Option<String>,
    /// The memory the adapter reports, in bytes, where it says so.
    pub memory_bytes: Option<u64>,
    /// What it allows.
    pub limits: Limits,
    /// How it computes on each element type. Every type can be stored, copied and read everywhere.
    pub dtypes: Vec<(DType, Support)>,
}

/// An open adapter: shared by every device that is opened on it.
pub(crate) struct Adapter {
    pub(crate) info: DeviceInfo,
    pub(crate) facts: DeviceFacts,
    pub(super) client: Client,
    /// The thread of a device that only this library uses.
    pub(super) thread: Option<Arc<HeldThread>>,
    #[cfg(feature = "graphics")]
    pub(super) staging: Option<Mutex<Staging>>,
    #[cfg(feature = "graphics")]
    pub(super) graphics: Option<super::Graphics>,
}

impl Adapter {
    /// Does something with the engine's client, where that is done.
    pub(super) fn on_thread<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, EngineError> {
        match &self.thread {
            Some(thread) => thread.run(task),
            None => caught(task),
        }
    }

    /// Whether the device behind it is gone: nothing works on it any more.
    fn is_lost(&self) -> bool {
        let asked = self.on_thread(|| guarded(|| block_on(self.client.sync()))).and_then(|answer| answer);
        matches!(asked, Err(EngineError::DeviceLost { .. }))
    }
}

/// The adapters of a back end, by number: what kind each is. None of them is opened, and a back end that is not built in, or
/// finds no driver, has none.
pub(crate) fn kinds(backend: Backend) -> Vec<DeviceKind> {
    let kinds = caught(|| match backend {
        _ if !backend.is_built() => Vec::new(),
        Backend::Cpu => vec![DeviceKind::Cpu],
        #[cfg(feature = "graphics")]
        Backend::Vulkan | Backend::Gl | Backend::Metal => super::graphics::kinds(backend),
        #[cfg(feature = "cuda")]
        Backend::Cuda => native(cubecl::Device::cuda),
        #[cfg(feature = "rocm")]
        Backend::Rocm => native(cubecl::Device::rocm),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        _ => Vec::new(),
    });
    kinds.unwrap_or_default()
}

/// As many as there are: the engine only says whether there is one of a number.
#[cfg(any(feature = "cuda", feature = "rocm"))]
fn native<E>(device: impl Fn(usize) -> Result<cubecl::Device, E>) -> Vec<DeviceKind> {
    const MOST: usize = 64;
    (0..MOST).map_while(|number| device(number).ok()).map(|_| DeviceKind::Discrete).collect()
}

/// An adapter, opened on first use and shared from then on. One that could not be opened is tried again the next time, and so is
/// one whose device was lost.
pub(crate) fn open_adapter(id: AdapterId) -> Result<Arc<Adapter>, String> {
    static OPENED: OnceLock<Mutex<HashMap<AdapterId, Arc<Adapter>>>> = OnceLock::new();
    let backend = id.backend;
    if !backend.is_built() {
        return Err(format!("this build has no {backend} back end: build with the `{backend}` feature"));
    }
    attend_exit();
    silence_caught_panics();
    let mut opened = OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = opened.get(&id);
    if let Some(adapter) = before.filter(|adapter| !adapter.is_lost()) {
        return Ok(adapter.clone());
    }
    let again = before.is_some();
    stay_first();
    let adapter = Arc::new(caught(|| open(id, again)).map_err(|error| error.to_string())??);
    opened.insert(id, adapter.clone());
    Ok(adapter)
}

#[cfg_attr(not(feature = "graphics"), expect(unused_variables, reason = "other adapters are not lost"))]
fn open(id: AdapterId, again: bool) -> Result<Adapter, String> {
    match id.backend {
        #[cfg(feature = "graphics")]
        Backend::Vulkan | Backend::Gl | Backend::Metal => super::graphics::open(id, again),
        #[cfg(feature = "cuda")]
        Backend::Cuda => open_native(id, cubecl::Device::cuda(id.number), DeviceKind::Discrete),
        #[cfg(feature = "rocm")]
        Backend::Rocm => open_native(id, cubecl::Device::rocm(id.number), DeviceKind::Discrete),
        #[cfg(feature = "cpu")]
        Backend::Cpu => open_cpu(id),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        other => Err(format!("this build has no {other} back end")),
    }
}

#[cfg(feature = "cpu")]
fn open_cpu(id: AdapterId) -> Result<Adapter, String> {
    if id.number > 0 {
        return Err("there is one CPU device".to_owned());
    }
    let client = super::cpu::client();
    let thread = HeldThread::take(&client).map_err(|error| error.to_string())?;
    let (mut info, mut facts) = describe(id, DeviceKind::Cpu, None, &client);
    // The engine counts the cores that its own thread may use, and binds that to a few.
    facts.units_per_cube = super::cpu::threads() as u32;
    info.limits.max_units = facts.units_per_cube;
    Ok(Adapter {
        info,
        facts,
        client,
        thread: Some(Arc::new(thread)),
        #[cfg(feature = "graphics")]
        staging: None,
        #[cfg(feature = "graphics")]
        graphics: None,
    })
}

#[cfg(any(feature = "cuda", feature = "rocm"))]
fn open_native(
    id: AdapterId,
    device: Result<cubecl::Device, cubecl::device::DeviceUnavailable>,
    kind: DeviceKind,
) -> Result<Adapter, String> {
    let client = device.map_err(|error| error.to_string())?.client();
    let (info, facts) = describe(id, kind, None, &client);
    Ok(Adapter {
        info,
        facts,
        client,
        thread: None,
        #[cfg(feature = "graphics")]
        staging: None,
        #[cfg(feature = "graphics")]
        graphics: None,
    })
}

pub(super) fn describe(
    id: AdapterId,
    kind: DeviceKind,
    driver: Option<String>,
    client: &Client,
) -> (DeviceInfo, DeviceFacts) {
    let backend = id.backend;
    let properties = client.properties();
    let hardware = &properties.hardware;
    let computes = |elem: ElemType| properties.supports_type(elem);
    let facts = DeviceFacts {
        name: backend.name().to_owned(),
        f64: computes(FloatKind::F64.into()),
        s64: computes(IntKind::I64.into()),
        // Packed words are also the faster way where wgpu has an 8-bit type.
        u8: if backend.is_wgpu() || !computes(UIntKind::U8.into()) { Support::Packed } else { Support::Native },
        f64_functions: !backend.is_wgpu() && computes(FloatKind::F64.into()),
        reorders_floats: backend.is_wgpu(),
        max_bindings: (hardware.max_bindings as usize).min(1024),
        cpu: kind == DeviceKind::Cpu,
        // Phones may allow no more than 128.
        units_per_cube: if kind == DeviceKind::Cpu { u32::MAX } else { 256 }.min(hardware.max_units_per_cube).max(1),
        // Best of 4 to 64 on software drivers; real GPUs were not measured.
        vectors_per_unit: if backend == Backend::Gl { 16 } else { 8 },
    };
    let info = DeviceInfo {
        id: id.to_string(),
        name: properties.identity.name.clone(),
        backend,
        kind,
        gpu: kind.is_gpu(),
        driver,
        memory_bytes: properties.memory.max_memory(),
        limits: Limits {
            max_buffer_bytes: properties.memory.max_page_size,
            max_bindings: facts.max_bindings,
            max_cubes: hardware.max_cube_count,
            max_units: hardware.max_units_per_cube,
        },
        dtypes: DType::ALL.into_iter().map(|dtype| (dtype, facts.support(dtype))).collect(),
    };
    (info, facts)
}
