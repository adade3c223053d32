//! The only code that drives the CubeCL engine.
//!
//! Everything above speaks to the [`Engine`] trait: allocate, upload, launch, synchronise, download. The engine trusts
//! its callers' validation of kernels and checks what they cannot know: grids, memory, and what the device reports.
//! No panic leaves this folder, and no failure is lost: a launch has succeeded only when
//! [`synchronise`](Engine::synchronise) on its outputs said so.

mod adapter;
pub mod bare;
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
#[cfg(feature = "graphics")]
mod graphics;
mod heap;
#[cfg_attr(
    not(any(feature = "cpu", feature = "graphics")),
    expect(dead_code, reason = "other devices are not ours alone")
)]
mod held;
#[cfg(feature = "graphics")]
mod interop;
mod panics;
#[cfg(feature = "graphics")]
mod shaders;
#[cfg(feature = "graphics")]
mod staging;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dala_kernels::launch::Geometry;
use dala_plan::{DeviceFacts, Task};
use dala_spec::Scalar;
use smallvec::SmallVec;

use crate::DeviceOptions;

pub(crate) use adapter::{Adapter, AdapterId, kinds, open_adapter};
pub use adapter::{Backend, DeviceInfo, DeviceKind, Limits};
pub use cache::{BuiltKernel, KernelCache};
pub use ending::attend_exit;
pub use error::EngineError;
pub(crate) use error::caught;
use held::HeldThread;
#[cfg(feature = "graphics")]
pub use interop::{Graphics, Place};

/// What drives an adapter for one device.
#[cfg_attr(not(feature = "cpu"), expect(unused_variables, reason = "only the CPU device has threads of ours"))]
pub(crate) fn open_engine(adapter: Arc<Adapter>, options: &DeviceOptions) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(match adapter.info.backend {
        #[cfg(feature = "cpu")]
        Backend::Cpu => Arc::new(cpu::CpuEngine::new(adapter, options.threads)?),
        _ => Arc::new(cube::CubeEngine::new(adapter)),
    })
}

/// A piece of device memory. Dropping the last clone gives it back.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Usable bytes: the size asked for, rounded up.
    pub(crate) capacity: u64,
    /// The engine's own handle.
    pub(crate) inner: Arc<dyn Any + Send + Sync>,
}

impl Memory {
    /// Whether both are the same piece of memory.
    pub(crate) fn is(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// One launch of a task.
pub(crate) struct Launch {
    pub(crate) task: Arc<Task>,
    pub(crate) geometry: Geometry,
    pub(crate) reads: SmallVec<[Memory; 4]>,
    pub(crate) outputs: SmallVec<[Memory; 2]>,
    /// For each output, the read whose memory it shares, if any.
    pub(crate) aliases: SmallVec<[Option<usize>; 2]>,
    pub(crate) params: Vec<Scalar>,
    pub(crate) kept: Kept,
}

/// What an engine keeps, so that the next launch is quicker.
pub(crate) enum Kept {
    /// Of the launches of one step, over any memory.
    OfStep(#[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "only the CPU device keeps them"))] Arc<Notes>),
    /// Of one launch that is repeated as it is.
    OfLaunch(Notes),
}

/// Notes of an engine's, about which others know nothing.
#[derive(Default)]
pub(crate) struct Notes(OnceLock<Box<dyn Any + Send + Sync>>);

impl Notes {
    fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get().and_then(|notes| notes.downcast_ref())
    }

    /// Notes something, if nothing was noted yet.
    fn put<T: Send + Sync + 'static>(&self, note: T) {
        self.0.get_or_init(|| Box::new(note));
    }

    #[cfg(feature = "cpu")]
    fn get_or_put<T: Default + Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get_or_init(|| Box::<T>::default()).downcast_ref()
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "notes" } else { "no notes" })
    }
}

/// What was queued up to a moment.
pub(crate) trait Synchronisation: Send {
    /// Waits until it is done, at most for a time that no healthy device needs, and answers for each of the outputs.
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>>;
}

/// Launches that a device has taken down, to be repeated as they are.
pub(crate) trait Recording: Send + Sync + Any {}

/// Drives one device. Memory may be asked for and given back at any time; everything else is done by one thread at a
/// time.
pub(crate) trait Engine: Send + Sync {
    /// What planning needs to know of the device.
    fn facts(&self) -> &DeviceFacts;
    /// Memory for at least `bytes` bytes, with undefined contents.
    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError>;
    /// Copies `data` to the start of `memory`. When it returns, the data has arrived.
    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError>;
    /// Copies the start of `memory` to `into`.
    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError>;
    /// Queues launches, in order, and says for each whether it was queued. Other failures show when its outputs are
    /// synchronised.
    fn launch(&self, launches: &[Launch]) -> Vec<Result<(), EngineError>>;
    /// Takes launches down that were made before and went well; none if the device does not. Nothing is executed.
    fn record(&self, launches: &[Launch]) -> Result<Option<Arc<dyn Recording>>, EngineError>;
    /// Repeats what was taken down.
    fn replay(&self, recording: &dyn Recording) -> Result<(), EngineError>;
    /// Executes one launch and says how long the device took.
    fn profile(&self, launch: &Launch) -> Result<Duration, EngineError>;
    /// Says what will be launched, one after the other, so that kernels are built side by side. What is wrong with them shows when
    /// they are launched.
    fn foresee(&self, launches: &[Launch]);
    /// Builds the kernels of launches without executing them, and says for each whether that went well.
    fn build(&self, launches: &[Launch]) -> Vec<Result<(), EngineError>>;
    /// Hands everything queued to the device, and says what to wait for until it is done.
    fn synchronise(&self, outputs: Vec<Memory>) -> Box<dyn Synchronisation>;
    /// Whether the device works while the host goes on: then launching returns before the work is done.
    fn overlaps(&self) -> bool;
    /// The graphics device that kernels run on, if it is one.
    #[cfg(feature = "graphics")]
    fn graphics(&self) -> Option<&Graphics> {
        None
    }
    /// Says where memory is on the graphics device. What was launched before is on the queue then.
    #[cfg(feature = "graphics")]
    fn place(&self, _memory: &Memory, _act: &mut dyn FnMut(Place<'_>)) -> Result<(), EngineError> {
        Err(EngineError::internal("no graphics device"))
    }
    /// Bytes that the engine holds on the device, used or not.
    fn reserved_bytes(&self) -> Result<u64, EngineError>;
    /// Gives unused memory back to the system.
    fn trim(&self) -> Result<(), EngineError>;
    /// Kernels built so far.
    fn compilations(&self) -> u64;
    /// Launches queued so far.
    fn launches(&self) -> u64;
    /// Queues a kernel that fails, to see that the failure is not lost.
    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: tests::Fault) -> Result<(), EngineError>;
}
