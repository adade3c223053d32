//! Where a device's memory comes from, and how data gets in and out of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::account::{Account, Reservation};
use crate::engine::{Engine, EngineError, Memory, caught};

/// A device's engine with the account of what is used.
pub(crate) struct Pool {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) account: Arc<Account>,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
    reserved: AtomicU64,
}

/// Memory that counts against its device's budget.
pub(crate) struct Allocation {
    pub(crate) memory: Memory,
    _reservation: Reservation,
}

const STEP: usize = dala_kernels::launch::CAPACITY_STEP;

impl Pool {
    pub(crate) fn new(engine: Arc<dyn Engine>, account: Arc<Account>) -> Pool {
        Pool {
            engine,
            account,
            uploaded: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
        }
    }

    /// Memory with undefined contents; if the engine has none left, once more after `trim`, for what is cached for other
    /// sizes may be enough.
    pub(crate) fn allocate<E: From<EngineError>>(
        &self,
        bytes: usize,
        trim: impl FnOnce() -> Result<(), E>,
    ) -> Result<Allocation, E> {
        match self.try_allocate(bytes) {
            // A reservation that was refused has nothing to do with what is cached.
            Err(EngineError::OutOfMemory { .. }) if self.account.has_room(bytes) => {
                trim()?;
                Ok(self.try_allocate(bytes)?)
            }
            other => Ok(other?),
        }
    }

    /// The same, for the thread that drives the device.
    pub(crate) fn allocate_driving(&self, bytes: usize) -> Result<Allocation, EngineError> {
        self.allocate(bytes, || self.engine.trim())
    }

    fn try_allocate(&self, bytes: usize) -> Result<Allocation, EngineError> {
        // Counted before it is asked for, so that two callers cannot both get the last bytes.
        let reservation = self.account.reserve(bytes.max(1).next_multiple_of(STEP) as u64)?;
        let told = |error| match error {
            EngineError::OutOfMemory { wanted, .. } => {
                EngineError::OutOfMemory { wanted, budget: self.account.budget(), live: self.account.live() }
            }
            other => other,
        };
        let memory = caught(|| self.engine.allocate(bytes as u64))?.map_err(told)?;
        Ok(Allocation { memory, _reservation: reservation })
    }

    /// Bytes that the engine holds, used or not. Asked by the thread that drives the device.
    pub(crate) fn measure_reserved(&self) -> Result<u64, EngineError> {
        let bytes = self.engine.reserved_bytes()?;
        self.reserved.store(bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    /// The same, when it was last asked for.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    pub(crate) fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        self.uploaded.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.engine.upload(memory, data)
    }

    pub(crate) fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        self.downloaded.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.engine.download(memory, into)
    }

    /// Bytes copied to the device.
    pub(crate) fn uploaded(&self) -> u64 {
        self.uploaded.load(Ordering::Relaxed)
    }

    /// Bytes copied from the device.
    pub(crate) fn downloaded(&self) -> u64 {
        self.downloaded.load(Ordering::Relaxed)
    }
}
