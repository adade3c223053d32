//! Who does the work.

use crate::{CommandId, End, Pass, ResourceId, Schedulable};

/// Does the work.
pub trait Executor: Send + Sync + 'static {
    /// What commands are made of.
    type Job: Schedulable + Send + Sync + 'static;
    /// Why work fails.
    type Error: Clone + Send + Sync + 'static;

    /// What is known of a pass in flight.
    type Launched: Send;

    /// How many passes may be in flight: more than one where launching returns before the work is done.
    fn depth(&self) -> usize;
    /// Launches the stages of a pass in order, after those of the passes before it.
    fn launch(&self, pass: &Pass<Self::Job>) -> Self::Launched;
    /// Waits for the oldest pass in flight, and gives a result for each of its pieces. When it returns, the device is done
    /// with them.
    fn finish(&self, pass: &Pass<Self::Job>, launched: Self::Launched) -> Vec<Result<(), Self::Error>>;
    /// Whether the contents of a resource may be read, as the last command that wrote it left them. Called under the
    /// queue's lock.
    fn readable(&self, work: &Self::Job, resource: ResourceId) -> Result<(), Self::Error>;
    /// A command ended. Called under the queue's lock, once for each, before anyone is told.
    fn ended(&self, command: CommandId, work: &Self::Job, end: &End<Self::Error>);
    /// The error for a panic.
    fn panicked(&self, message: &str) -> Self::Error;
}
