//! What an engine does.

use std::sync::Arc;
use std::time::Duration;

use dala_plan::DeviceFacts;
use dala_spec::Data;

use super::error::EngineError;
#[cfg(feature = "graphics")]
use super::interop::{Graphics, Place};
use super::launch::{Launch, Memory, Sequence};
#[cfg(test)]
use super::tests;

/// What was queued up to a moment.
pub(crate) trait Synchronisation: Send {
    /// Waits until it is done, at most for a time that no healthy device needs, and answers for each of the outputs.
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>>;
}

/// Drives one device. Memory may be asked for and given back at any time; everything else is done by one thread at a
/// time.
pub(crate) trait Engine: Send + Sync {
    /// What planning needs to know of the device.
    fn facts(&self) -> &DeviceFacts;
    /// Memory for at least `bytes` bytes, with undefined contents.
    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError>;
    /// Memory over data of the host's, which launches only read; none if the device has to have a copy.
    fn adopt(&self, _data: &Arc<Data>) -> Option<Memory> {
        None
    }
    /// Copies `data` to the start of `memory`. When it returns, the data has arrived.
    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError>;
    /// Copies the start of `memory` to `into`.
    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError>;
    /// Queues what sequences launch, in order, and says for each sequence whether all of it was queued. Other failures show when
    /// its outputs are synchronised.
    fn run(&self, sequences: &[Arc<Sequence>]) -> Vec<Result<(), EngineError>>;
    /// Executes one launch and says how long the device took.
    fn profile(&self, launch: &Arc<Launch>) -> Result<Duration, EngineError>;
    /// Says what will be launched, one after the other, so that kernels are built side by side. What is wrong with them shows when
    /// they are launched.
    fn foresee(&self, launches: &[Arc<Launch>]);
    /// Builds the kernels of launches without executing them, and says for each whether that went well.
    fn build(&self, launches: &[Arc<Launch>]) -> Vec<Result<(), EngineError>>;
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
    /// Kernels found so far where earlier processes kept them.
    fn found(&self) -> u64;
    /// Launches queued so far.
    fn launches(&self) -> u64;
    /// Queues a kernel that fails, to see that the failure is not lost.
    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: tests::Fault) -> Result<(), EngineError>;
}
