//! What all handles of one device share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use dala_kernels::Registry;
use dala_plan::DeviceFacts;
use dala_schedule::{Lane, Queue, Submission, Ticket};

use crate::command::{Job, Prepared, Runner};
use crate::engine::{DeviceInfo, EngineError};
use crate::error::Error;
use crate::memory::{Allocation, Directory, MemoryPool, Slot};
use crate::plan::Calls;
use crate::trace::Recorder;

/// One device, as its handles, buffers, commands and plans share it.
pub(crate) struct Core {
    /// The only way to work on the device. The first field, so that it is dropped first: that waits for what is in flight.
    pub(crate) queue: Queue<Runner>,
    pub(crate) id: u64,
    pub(crate) info: DeviceInfo,
    pub(crate) pool: Arc<MemoryPool>,
    /// Calls that were compiled before.
    pub(crate) calls: Calls,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) registry: RwLock<Registry>,
    /// Buffers that somebody holds, so that they can be found by id.
    pub(crate) buffers: Arc<Directory>,
    pub(crate) memory_pressures: AtomicU64,
}

impl Core {
    pub(crate) fn facts(&self) -> &DeviceFacts {
        self.pool.engine.facts()
    }

    pub(crate) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        // Nothing is left half-done by a panic under this lock.
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a buffer; nothing waits for the device.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        let (bytes, max) = (bytes as u64, self.info.limits.max_buffer_bytes);
        if bytes > max {
            return Err(EngineError::BufferTooLarge { bytes, max }.into());
        }
        Ok(self.pool.reserve(bytes as usize)?)
    }

    /// Queues work.
    pub(crate) fn submit(&self, mut job: Job, how: Submission) -> Result<Ticket<Arc<Error>>, Error> {
        self.stamp(&mut job);
        Ok(self.queue.submit(job, how)?)
    }

    /// Notes when work was submitted, if somebody wants to know.
    fn stamp(&self, job: &mut Job) {
        if self.recorder.is_on() {
            job.submitted = Some(std::time::Instant::now());
        }
    }

    /// Queues work and waits for it.
    pub(crate) fn run(&self, job: Job) -> Result<(), Error> {
        self.run_in(job, Lane::Default)
    }

    /// Queues work in a lane and waits for it.
    pub(crate) fn run_in(&self, mut job: Job, lane: Lane) -> Result<(), Error> {
        self.stamp(&mut job);
        Ok(self.queue.run(job, Submission { lane, ..Submission::default() })?)
    }

    /// Does something with the device itself, when it is the turn of this thread: after the commands before it that use
    /// these buffers, and while nothing else runs.
    pub(crate) fn access<T>(
        &self,
        reads: &[&Arc<Slot>],
        writes: &[&Arc<Slot>],
        act: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        self.act(reads, writes, false, act)
    }

    /// Does something about the device itself, while nothing else runs; refused while it is suspended.
    pub(crate) fn tend<T>(&self, act: impl FnOnce() -> Result<T, EngineError>) -> Result<T, Error> {
        self.act(&[], &[], true, act)
    }

    fn act<T>(
        &self,
        reads: &[&Arc<Slot>],
        writes: &[&Arc<Slot>],
        refuse_if_suspended: bool,
        act: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        let mut job = Job::default();
        job.push(Prepared::ByCaller, reads, writes);
        let how = Submission { lane: Lane::Interactive, refuse_if_suspended, ..Submission::default() };
        Ok(self.queue.act(job, how, || act().map_err(|error| Arc::new(error.into())))?)
    }
}
