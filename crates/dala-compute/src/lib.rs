//! GPU compute on typed buffers with named kernels: Vulkan, OpenGL, Metal, CUDA, ROCm and CPU behind one API.
//!
//! ```
//! use dala_compute::prelude::*;
//!
//! # fn main() -> Result<(), Error> {
//! let device = Device::open("cpu")?;
//! let a = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
//! let b = Buffer::from_slice(&device, &[4.0f32, 5.0, 6.0], [3])?;
//! let sum = Buffer::zeros(&device, DType::F32, [3])?;
//!
//! device.run("elementwise_add", &[&a, &b], &sum, ())?;
//! assert_eq!(sum.read::<f32>()?, [5.0, 7.0, 9.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A kernel of your own is an expression, used by name like any other:
//!
//! ```
//! # use dala_compute::prelude::*;
//! # fn main() -> Result<(), Error> {
//! # let device = Device::open("cpu")?;
//! let gain = param("gain", ParamKind::Float).default(1.0);
//! device.define("brighten", "clamp(x * gain, 0, 1)", Definition::inputs(["x"]).param(gain))?;
//!
//! let x = Buffer::from_slice(&device, &[0.25f32, 0.75], [2])?;
//! device.run("brighten", &[&x], &x, params! { gain: 2.0 })?;
//! assert_eq!(x.read::<f32>()?, [0.5, 1.0]);
//! # Ok(())
//! # }
//! ```
//!
//! What is more than an expression, up to a whole CubeCL function, is made of what is in [`kernel`].
//!
//! Calls are validated in `dala-spec` before anything is launched. A call has succeeded only when a checked
//! synchronisation of its output said so; a call that fails poisons its output, and reading that gives the cause.
//! All types are `Send + Sync`. Work that touches the same buffers is executed in the order in which it was submitted.

mod buffer;
mod command;
mod core;
mod device;
mod engine;
mod error;
#[cfg(test)]
mod faults;
mod front;
#[cfg(feature = "graphics")]
pub mod interop;
pub mod kernel;
mod memory;
mod plan;
pub mod prelude;
pub mod trace;

pub use buffer::Buffer;
// The same version as ours: types of another would not fit.
pub use command::{Command, FramePolicy, Pushed, Stage, Stream, StreamOptions, StreamStats, SubmitOptions, Times};
pub use cubecl;
pub use dala_plan::plan::{Blueprint, BlueprintStep, External, Verdict};
pub use dala_plan::{
    CellSpec, CheckedPipeline, PipelineSpec, PipelineText, StageProblem, StageSpec, Support, TextError,
};
pub use dala_schedule::{
    CommandId, CommandState, Governor, Lane, LaneStats, Power, QueueStats, Thermal, Totals, WhenFull, WhileSuspended,
};
pub use dala_spec::{
    DType, Data, Element, ExprError, ImageShape, KernelSpec, ParamKind, ParamSpec, ParamValue, Params, Scalar, Shape,
    ShapeProblem, SpecError, TensorType, Unsupported, bf16, f16, param, params,
};
pub use device::{Device, DeviceOptions, Stats};
pub use engine::{Backend, BuiltKernel, DeviceInfo, DeviceKind, EngineError, KernelCache, Limits, attend_exit};
pub use error::Error;
pub use front::{Definition, Operand, Outputs, Pipeline, PlanOptions, Transient};
pub use memory::{BufferId, HostData, MemoryStats, Readback};
pub use plan::{Difference, LaunchTime, Plan, Verification};

/// The Rust of the documents is compiled and run. (A test of `dala-cli` finds documents that are missing here.)
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/BUFFERS.md")]
    struct Buffers;
    #[doc = include_str!("../../../docs/GETTING_STARTED_RUST.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/OWN_KERNELS.md")]
    struct OwnKernels;
    #[doc = include_str!("../../../docs/PERFORMANCE.md")]
    struct Performance;
    #[doc = include_str!("../../../docs/PIPELINES.md")]
    struct Pipelines;
    #[doc = include_str!("../../../docs/SCHEDULING.md")]
    struct Scheduling;
}
