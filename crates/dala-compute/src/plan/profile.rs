//! How long each launch of a run takes.

use std::sync::Arc;
use std::time::Duration;

use dala_plan::plan::BlueprintStep;

use super::run::Run;
use crate::core::Core;
use crate::error::Error;
use crate::memory::Slot;

/// How long one launch of a plan took.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchTime {
    /// The stages that it does, or does a part of, counted from 0.
    pub stages: Vec<usize>,
    /// What they are called.
    pub name: String,
    /// What the device does, with its sizes.
    pub task: String,
    /// The bytes that it reads and writes.
    pub bytes: usize,
    /// How long the device took.
    pub time: Duration,
}

/// Does a run launch by launch, and says how long the device took for each.
pub(crate) fn profile(
    core: &Core,
    run: &Run,
    reads: &[&Arc<Slot>],
    writes: &[&Arc<Slot>],
) -> Result<Vec<LaunchTime>, Error> {
    let times = core.access(reads, writes, || {
        let bound = run.bound(&core.pool, || ())?;
        bound.launches.iter().map(|launch| core.pool.engine.profile(launch)).collect::<Result<Vec<_>, _>>()
    })?;
    let steps = run.compiled.blueprint.steps.iter();
    let time = |(index, (step, time)): (usize, (&BlueprintStep, Duration))| LaunchTime {
        stages: step.stages.clone(),
        name: run.compiled.label(&(index..index + 1)),
        task: step.task.kind().describe(),
        bytes: step.bytes,
        time,
    };
    Ok(steps.zip(times).enumerate().map(time).collect())
}
