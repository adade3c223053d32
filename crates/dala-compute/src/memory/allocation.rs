//! Where a device's memory comes from, and how data gets in and out of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dala_spec::Data;

use super::account::{Account, Reservation};
use crate::engine::{Engine, EngineError, Memory, caught};

/// A device's engine with the account of what is used.
pub(crate) struct MemoryPool {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) account: Arc<Account>,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
    reserved: AtomicU64,
}

/// Memory that counts against its device's budget, from the engine as soon as it is first used. Asking the engine may wait
/// for the device, so only the thread that drives it does.
pub(crate) struct Allocation {
    bytes: usize,
    memory: OnceLock<Memory>,
    _reservation: Reservation,
}

const STEP: usize = dala_plan::CAPACITY_STEP;

impl MemoryPool {
    pub(crate) fn new(engine: Arc<dyn Engine>, account: Arc<Account>) -> MemoryPool {
        MemoryPool {
            engine,
            account,
            uploaded: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
        }
    }

    /// The right to so many bytes; nothing waits for the device.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Allocation, EngineError> {
        // Counted before it is asked for, so that two callers cannot both get the last bytes.
        let reservation = self.account.reserve(bytes.max(1).next_multiple_of(STEP) as u64)?;
        Ok(Allocation { bytes, memory: OnceLock::new(), _reservation: reservation })
    }

    /// The memory of an allocation, with undefined contents if this is its first use. If the engine has none left, once more
    /// without what it keeps for other sizes. For the thread that drives the device.
    pub(crate) fn memory<'a>(&self, allocation: &'a Allocation) -> Result<&'a Memory, EngineError> {
        if let Some(memory) = allocation.memory.get() {
            return Ok(memory);
        }
        let allocate = || caught(|| self.engine.allocate(allocation.bytes as u64))?;
        let memory = allocate().or_else(|error| match error {
            EngineError::OutOfMemory { .. } => {
                self.engine.trim()?;
                allocate()
            }
            other => Err(other),
        });
        let memory = memory.map_err(|error| match error {
            EngineError::OutOfMemory { wanted, .. } => {
                EngineError::OutOfMemory { wanted, budget: self.account.budget(), live: self.account.live() }
            }
            other => other,
        })?;
        Ok(allocation.memory.get_or_init(|| memory))
    }

    /// Memory with undefined contents, at once.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Allocation, EngineError> {
        let allocation = self.reserve(bytes)?;
        self.memory(&allocation)?;
        Ok(allocation)
    }

    /// Memory with data that launches only read: the data itself where the device can read it, which then counts as the host's.
    pub(crate) fn constant(&self, data: &Arc<Data>) -> Result<Allocation, EngineError> {
        if let Some(memory) = self.engine.adopt(data) {
            let bytes = memory.capacity as usize;
            return Ok(Allocation { bytes, memory: OnceLock::from(memory), _reservation: self.account.reserve(0)? });
        }
        let bytes = data.as_bytes();
        let memory = self.allocate(bytes.len())?;
        self.upload(&memory, &bytes)?;
        Ok(memory)
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

    pub(crate) fn upload(&self, to: &Allocation, data: &[u8]) -> Result<(), EngineError> {
        self.uploaded.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.engine.upload(self.memory(to)?, data)
    }

    pub(crate) fn download(&self, from: &Allocation, into: &mut [u8]) -> Result<(), EngineError> {
        self.downloaded.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.engine.download(self.memory(from)?, into)
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
