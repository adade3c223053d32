//! Finds and opens adapters, and tells the truth about them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use cubecl::client::Client;
use cubecl::ir::{ElemType, FloatKind, IntKind, UIntKind};
use dala_spec::{DType, DeviceFacts, Support};

use super::ending::{attend_exit, stay_first};
use super::error::caught;
use super::panics::silence_device_threads;
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

/// What a device is, truthfully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
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
}

/// The adapter of a back end, opened on first use and kept for the life of the process.
pub(crate) fn open_adapter(backend: Backend) -> Result<Arc<Adapter>, String> {
    type Opened = HashMap<Backend, Result<Arc<Adapter>, String>>;
    static OPENED: OnceLock<Mutex<Opened>> = OnceLock::new();
    if !backend.is_built() {
        return Err(format!("this build has no {backend} back end: build with the `{backend}` feature"));
    }
    attend_exit();
    silence_device_threads();
    let mut opened = OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    opened
        .entry(backend)
        .or_insert_with(|| {
            stay_first();
            match caught(|| open(backend)) {
                Ok(adapter) => adapter.map(Arc::new),
                Err(error) => Err(error.to_string()),
            }
        })
        .clone()
}

fn open(backend: Backend) -> Result<Adapter, String> {
    match backend {
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => open_wgpu(backend, cubecl::device::WgpuBackend::Vulkan),
        #[cfg(feature = "gl")]
        Backend::Gl => open_wgpu(backend, cubecl::device::WgpuBackend::Gl),
        #[cfg(feature = "metal")]
        Backend::Metal => open_wgpu(backend, cubecl::device::WgpuBackend::Metal),
        #[cfg(feature = "cuda")]
        Backend::Cuda => open_native(backend, cubecl::Device::cuda(0), DeviceKind::Discrete),
        #[cfg(feature = "rocm")]
        Backend::Rocm => open_native(backend, cubecl::Device::rocm(0), DeviceKind::Discrete),
        #[cfg(feature = "cpu")]
        Backend::Cpu => open_cpu(),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        other => Err(format!("this build has no {other} back end")),
    }
}

#[cfg(feature = "cpu")]
fn open_cpu() -> Result<Adapter, String> {
    let client = super::cpu::client();
    let thread = HeldThread::take(&client).map_err(|error| error.to_string())?;
    let (mut info, mut facts) = describe(Backend::Cpu, DeviceKind::Cpu, None, &client);
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
    backend: Backend,
    device: Result<cubecl::Device, cubecl::device::DeviceUnavailable>,
    kind: DeviceKind,
) -> Result<Adapter, String> {
    let client = device.map_err(|error| error.to_string())?.client();
    let (info, facts) = describe(backend, kind, None, &client);
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

#[cfg(feature = "graphics")]
fn open_wgpu(backend: Backend, api: cubecl::device::WgpuBackend) -> Result<Adapter, String> {
    use cubecl::device::{WgpuDevice, WgpuDeviceKind};
    use cubecl::wgpu::{AutoCompiler, RuntimeOptions, WgpuServer, WgpuSetup, try_init_device, wgpu};
    use cubecl_common::device::Device as _;

    let device = WgpuDevice::new(WgpuDeviceKind::DefaultDevice).on(api);
    let setup = set_up(&device)?;
    // That made it the device that everybody shares who uses the engine. It becomes one of our own, whose thread is ours.
    cubecl_common::device_handle::DeviceHandle::<WgpuServer<AutoCompiler>>::shutdown(device.to_id());
    let options = RuntimeOptions::try_default().map_err(|error| error.to_string())?;
    let device = try_init_device(setup.clone(), options).map_err(|error| error.to_string())?;
    let adapter = setup.adapter.get_info();
    let kind = match adapter.device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        // OpenGL does not say; Mesa's software drivers are known by name.
        _ if ["llvmpipe", "softpipe", "swrast", "SwiftShader"].iter().any(|name| adapter.name.contains(name)) => {
            DeviceKind::Software
        }
        _ => DeviceKind::OtherGpu,
    };
    let driver = format!("{} {}", adapter.driver, adapter.driver_info).trim().to_owned();
    let client = cubecl::Device::Wgpu(device).client();
    let thread = HeldThread::take(&client).map_err(|error| error.to_string())?;
    let (mut info, facts) = describe(backend, kind, Some(driver).filter(|driver| !driver.is_empty()), &client);
    info.name = adapter.name;
    let staging = Some(Mutex::new(Staging::new(setup.device.clone(), setup.queue.clone())));
    let WgpuSetup { instance, adapter, device, queue, .. } = setup;
    let graphics = Some(super::Graphics { instance, adapter, device, queue });
    Ok(Adapter { info, facts, client, thread: Some(Arc::new(thread)), staging, graphics })
}

#[cfg(all(feature = "graphics", not(target_family = "wasm")))]
fn set_up(device: &cubecl::device::WgpuDevice) -> Result<cubecl::wgpu::WgpuSetup, String> {
    use cubecl::wgpu::{AutoGraphicsApi, RuntimeOptions, try_init_setup};

    let options = RuntimeOptions::try_default().map_err(|error| error.to_string())?;
    try_init_setup::<AutoGraphicsApi>(device, options).map_err(|error| error.to_string())
}

#[cfg(all(feature = "graphics", target_family = "wasm"))]
fn set_up(_device: &cubecl::device::WgpuDevice) -> Result<cubecl::wgpu::WgpuSetup, String> {
    Err("browsers let nobody wait for a device, and everything here does".to_owned())
}

fn describe(backend: Backend, kind: DeviceKind, driver: Option<String>, client: &Client) -> (DeviceInfo, DeviceFacts) {
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
        // Best of 4 to 64 on software drivers, and of 64 to 32,768 on the CPU runtime; real GPUs were not measured.
        vectors_per_unit: match backend {
            Backend::Cpu => 512,
            Backend::Gl => 16,
            _ => 8,
        },
    };
    let info = DeviceInfo {
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
