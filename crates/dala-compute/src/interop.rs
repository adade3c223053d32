//! Buffers for graphics code: what a program needs that draws with wgpu what kernels have computed.
//!
//! Kernels on Vulkan, OpenGL and Metal run on a wgpu device. [`Device::graphics`] hands it out, and
//! [`Buffer::use_in_graphics`] says where a buffer is on it, so that a picture is drawn without ever leaving the device.
//! The crate `dala-surface` does that for windows and pictures.

// The same version as the engine's: types of another would not fit.
pub use cubecl::wgpu::wgpu;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::engine::EngineError;
pub use crate::engine::{Graphics, Place};
use crate::error::Error;

/// What graphics code does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Writes all of it.
    Write,
}

impl Device {
    /// The graphics device that kernels run on: none for CPU, CUDA and ROCm.
    pub fn graphics(&self) -> Option<Graphics> {
        self.core().pool.engine.graphics().cloned()
    }
}

impl Buffer {
    /// Calls `act` with the buffer's place on the graphics device, after every command before it that uses the buffer and
    /// while nothing else runs. What `act` submits to the queue comes before all later work; it must not use the place
    /// after it returned, and must not wait for this device.
    ///
    /// # Errors
    ///
    /// The buffer was freed, was never written although it is to be read, or is not on a graphics device; or the device
    /// fails.
    pub fn use_in_graphics<T>(&self, access: Access, act: impl FnOnce(Place<'_>) -> T) -> Result<T, Error> {
        let memory = self.memory()?;
        let device = self.device();
        let core = device.core();
        let (mut act, mut result) = (Some(act), None);
        let mut once = |place: Place<'_>| result = act.take().map(|act| act(place));
        let run = || {
            let memory = core.pool.memory(&memory)?;
            core.pool.engine.place(memory, &mut once)
        };
        match access {
            Access::Read => core.access(&[self.slot()], &[], run).map_err(|error| self.to_reader(error))?,
            Access::Write => core.access(&[], &[self.slot()], run)?,
        }
        result.ok_or_else(|| EngineError::internal("the place of a buffer was not asked for").into())
    }
}
