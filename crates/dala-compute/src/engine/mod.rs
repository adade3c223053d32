//! The only code that drives the CubeCL engine.
//!
//! Everything above speaks to the [`Engine`] trait: allocate, upload, launch, synchronise, download. The engine trusts
//! its callers' validation of kernels and checks what they cannot know: grids, memory, and what the device reports.
//! No panic leaves this folder, and no failure is lost: a launch has succeeded only when
//! [`synchronise`](Engine::synchronise) on its outputs said so.

mod adapter;
#[cfg(all(unix, target_pointer_width = "32"))]
mod build_id;
#[cfg_attr(
    not(any(feature = "cpu", feature = "graphics")),
    expect(dead_code, reason = "drivers keep the kernels of other devices")
)]
mod cache;
#[cfg(feature = "cpu")]
mod cpu;
mod cube;
mod ending;
mod error;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(feature = "faults")]
mod faulty;
#[cfg(feature = "graphics")]
mod graphics;
mod guard;
mod heap;
#[cfg_attr(
    not(any(feature = "cpu", feature = "graphics")),
    expect(dead_code, reason = "other devices are not ours alone")
)]
mod held;
mod info;
mod interface;
#[cfg(feature = "graphics")]
mod interop;
mod launch;
mod open;
mod panics;
#[cfg(feature = "graphics")]
mod shaders;
#[cfg(feature = "graphics")]
mod staging;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

pub use cache::{BuiltKernel, KernelCache};
pub use ending::attend_exit;
pub use error::EngineError;
pub(crate) use guard::caught;
pub(crate) use info::AdapterId;
pub use info::{Backend, DeviceInfo, DeviceKind, Limits};
pub(crate) use interface::{Engine, Synchronisation};
#[cfg(feature = "graphics")]
pub use interop::{Graphics, Place};
pub(crate) use launch::{Launch, Memory, Sequence, Step};
pub(crate) use open::{kinds, open_adapter, open_engine};
