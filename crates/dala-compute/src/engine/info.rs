//! What devices are, truthfully.

use std::fmt;

use cubecl::client::Client;
use cubecl::ir::{ElemType, FloatKind, IntKind, UIntKind};
use dala_plan::{DeviceFacts, Support};
use dala_spec::DType;

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

/// What a device is, as its engine says.
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
        // Packed words are also the faster way where wgpu has types of 8 and 16 bits.
        narrow: if backend.is_wgpu() || !computes(UIntKind::U8.into()) { Support::Packed } else { Support::Native },
        converts_f16: computes(FloatKind::F16.into()),
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
