//! Data that plans need beside their buffers.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dala_plan::plan::Constant;

use crate::engine::EngineError;
use crate::memory::Allocation;

/// Tables and weights, on the host until they are first needed on the device. Planning must not wait for a device.
pub(super) struct Constants {
    on_host: Mutex<Vec<Constant>>,
    on_device: OnceLock<Vec<Arc<Allocation>>>,
}

impl Constants {
    pub(super) fn new(constants: Vec<Constant>) -> Constants {
        Constants { on_host: Mutex::new(constants), on_device: OnceLock::new() }
    }

    fn on_host(&self) -> MutexGuard<'_, Vec<Constant>> {
        // Nothing is left half-done by a panic under this lock.
        self.on_host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the device, brought there by `bring` if need be. Called by the thread that drives the device.
    pub(super) fn on_device(
        &self,
        bring: impl FnOnce(&[Constant]) -> Result<Vec<Arc<Allocation>>, EngineError>,
    ) -> Result<&[Arc<Allocation>], EngineError> {
        if let Some(constants) = self.on_device.get() {
            return Ok(constants);
        }
        let mut on_host = self.on_host();
        let constants = bring(&on_host)?;
        on_host.clear();
        Ok(self.on_device.get_or_init(|| constants))
    }

    /// Whether they are still to be brought to the device.
    pub(super) fn needs_upload(&self) -> bool {
        self.on_device.get().is_none() && !self.on_host().is_empty()
    }

    /// Whether they take memory of the device.
    pub(super) fn hold_memory(&self) -> bool {
        self.on_device.get().is_some_and(|constants| !constants.is_empty())
    }
}
