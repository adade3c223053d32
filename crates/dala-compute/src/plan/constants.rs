//! Data that plans need beside their buffers.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dala_spec::Data;

use crate::engine::EngineError;
use crate::memory::{Allocation, Pool};

/// Tables and weights, on the host until they are first needed on the device. Planning must not wait for a device.
pub(super) struct Constants {
    on_host: Mutex<Vec<Arc<Data>>>,
    on_device: OnceLock<Vec<Allocation>>,
}

impl Constants {
    pub(super) fn new(data: Vec<Arc<Data>>) -> Constants {
        Constants { on_host: Mutex::new(data), on_device: OnceLock::new() }
    }

    fn on_host(&self) -> MutexGuard<'_, Vec<Arc<Data>>> {
        // Nothing is left half-done by a panic under this lock.
        self.on_host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the device, brought there if need be. Called by the thread that drives the device.
    pub(super) fn on_device(&self, pool: &Pool) -> Result<&[Allocation], EngineError> {
        if let Some(constants) = self.on_device.get() {
            return Ok(constants);
        }
        let mut on_host = self.on_host();
        let upload = |data: &Arc<Data>| {
            let bytes = data.to_bytes();
            let constant = pool.allocate(bytes.len())?;
            pool.upload(&constant, &bytes)?;
            Ok(constant)
        };
        let constants = on_host.iter().map(upload).collect::<Result<_, EngineError>>()?;
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
