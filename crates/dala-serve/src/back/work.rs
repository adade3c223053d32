//! What is run for requests: the seam between the desk and what is served.

use std::sync::Arc;
use std::time::Duration;

use dala_batch::{Ended, Lane};

use crate::{Refusal, Tensor};

/// What a request brings to a run that it shares.
pub(super) struct Share {
    pub(super) inputs: Arc<Vec<Tensor>>,
    /// Places of the outputs that are wanted.
    pub(super) outputs: Vec<usize>,
}

/// What a run gave.
#[derive(Default)]
pub(super) struct Ran {
    /// For each request, the outputs that it wants.
    pub(super) outputs: Vec<Vec<Tensor>>,
    /// Getting inputs to the device, the run, getting outputs back.
    pub(super) times: [Duration; 3],
}

/// Why a run gave nothing.
pub(super) enum Failure {
    /// The device goes on, and this is what is wrong with one of the requests, or with all.
    Refused(Refusal),
    /// The device is gone. It was opened again, or will be.
    Lost,
}

/// Something that runs requests together.
pub(super) trait Work: Send + Sync {
    /// Runs requests together, in a run that is planned for `size` items and as urgent as its lane.
    fn run(&self, size: usize, lane: Lane, shares: &[Share]) -> Result<Ran, Failure>;
}

/// What requests at the desk are for.
pub(super) trait Served: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// How many items these inputs are.
    fn items(&self, inputs: &[Tensor]) -> usize;

    /// Runs requests together, in a run that is planned for `size` items and as urgent as its lane.
    fn run(&self, size: usize, lane: Lane, shares: &[Share]) -> Result<Ran, Failure>;

    /// Counts a request that ended.
    fn note(&self, ended: &Ended);
}
