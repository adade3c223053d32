//! Compiled stages, ready to run again and again.
//!
//! ```text
//! Blueprint --Compiled--> launches without memory, costs, constants; shared by all that differ in buffers and values alone
//!           --Bound-----> launches over memory, made by a run; kept by a Plan, and used once by a call
//!           --Sequence--> what an engine runs together
//! ```

mod binding;
mod cache;
mod compiled;
mod constants;
mod cost;
mod frame;
pub(crate) mod profile;
mod run;
mod verify;

use std::fmt;
use std::sync::Arc;

use dala_plan::Blueprint;
use dala_schedule::Lane;
use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::command::{Command, Job, SubmitOptions};
use crate::core::Core;
use crate::device::Device;
use crate::error::Error;
use crate::memory::{Allocation, Holder, Slot};

use binding::Binding;
pub(crate) use binding::Bound;
#[cfg(test)]
pub(crate) use cache::over_words;
pub(crate) use cache::{Calls, KernelCall};
pub(crate) use compiled::{Compiled, Values};
pub use profile::LaunchTime;
use run::Kept;
pub(crate) use run::{Keeps, Run};
pub use verify::{Difference, Verification};

/// What a pipeline compiles to: checked, fused, laid out in memory, and ready to run as often as you like. Cheap to clone;
/// clones are of the same plan.
///
/// The contents of its buffers may change between runs. Scratch memory is taken by the first run and kept as long as the plan
/// lives; freeing one of its buffers ends that, and later runs are refused.
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    compiled: Arc<Compiled>,
    /// The run-time values of its launches.
    values: Arc<Values>,
    /// The users' buffers, by their numbers.
    buffers: Vec<Buffer>,
    kept: Kept,
}

type Slots<'a> = SmallVec<[&'a Arc<Slot>; 8]>;

impl Plan {
    pub(crate) fn new(core: &Arc<Core>, compiled: Arc<Compiled>, values: Arc<Values>, buffers: Vec<Buffer>) -> Plan {
        let binding = Arc::<Binding>::default();
        let holder: Arc<dyn Holder> = binding.clone();
        for buffer in &buffers {
            buffer.slot().held_by(Arc::downgrade(&holder));
        }
        let kept = Kept { binding, slots: buffers.iter().map(|buffer| buffer.slot().clone()).collect() };
        Plan(Arc::new(Inner { core: core.clone(), compiled, values, buffers, kept }))
    }

    /// Runs it and waits until everything is written.
    ///
    /// # Errors
    ///
    /// A buffer was freed or is known to be unreadable: nothing was launched then. Or the device failed: then what it should
    /// have written is poisoned until it is written again.
    pub fn run(&self) -> Result<(), Error> {
        self.run_in(Lane::Default)
    }

    /// As [`run`](Plan::run), in a lane.
    ///
    /// # Errors
    ///
    /// As [`run`](Plan::run).
    pub fn run_in(&self, lane: Lane) -> Result<(), Error> {
        self.0.core.run_in(self.job()?, lane)
    }

    /// Queues a run in the default lane and returns at once; see [`Device::submit`].
    ///
    /// # Errors
    ///
    /// As [`run`](Plan::run).
    pub fn submit(&self) -> Result<Command, Error> {
        self.submit_with(SubmitOptions::new())
    }

    /// Queues a run in a lane, or with all the options, and returns at once; see [`Device::submit_with`].
    ///
    /// # Errors
    ///
    /// As [`run`](Plan::run), or the lane is full and the options say so.
    pub fn submit_with(&self, options: impl Into<SubmitOptions>) -> Result<Command, Error> {
        Command::submit(&self.0.core, self.job()?, options.into())
    }

    /// The same plan on other buffers: each pair is a buffer of this plan, and the one that takes its place. Nothing is
    /// compiled.
    ///
    /// # Errors
    ///
    /// The plan does not use a buffer, or a new one has another type, is freed, or is on another device.
    pub fn rebind(&self, pairs: &[(&Buffer, &Buffer)]) -> Result<Plan, Error> {
        let mut buffers = self.0.buffers.clone();
        for (old, new) in pairs {
            let place = self.0.buffers.iter().position(|own| own.id() == old.id());
            let place = place.ok_or(Error::NotInPlan { buffer: old.id() })?;
            new.check_device(&self.0.core)?;
            new.memory()?;
            if new.ty() != old.ty() {
                let (expected, actual) = (old.ty().to_string(), new.ty().to_string());
                return Err(Error::PlanMismatch { buffer: new.id(), expected, actual });
            }
            buffers[place] = (*new).clone();
        }
        for (index, buffer) in buffers.iter().enumerate() {
            // What was fused relied on buffers being apart.
            if buffers[..index].iter().any(|other| other.id() == buffer.id()) {
                return Err(Error::NotInPlan { buffer: buffer.id() });
            }
        }
        Ok(Plan::new(&self.0.core, self.0.compiled.clone(), self.0.values.clone(), buffers))
    }

    /// The number of launches that a run makes.
    pub fn launches(&self) -> usize {
        self.0.compiled.blueprint.steps.len()
    }

    /// The number of stages that it was compiled from.
    pub fn stage_count(&self) -> usize {
        self.0.compiled.spec.stages.len()
    }

    /// The bytes of scratch memory that it needs.
    pub fn peak_bytes(&self) -> usize {
        self.0.compiled.blueprint.peak_bytes()
    }

    /// The plan as data.
    pub fn blueprint(&self) -> &Blueprint {
        &self.0.compiled.blueprint
    }

    /// The plan as text: what is launched, what was fused and why, what was not and why, bytes and memory.
    pub fn explain(&self) -> String {
        self.0.compiled.blueprint.explain()
    }

    /// The plan as a picture.
    pub fn to_svg(&self) -> String {
        self.0.compiled.blueprint.to_svg()
    }

    /// The device that it runs on.
    pub fn device(&self) -> Device {
        Device::from_core(self.0.core.clone())
    }

    /// Builds every kernel that it needs, without running anything, and takes its memory: the first run is then as quick as
    /// the next.
    ///
    /// # Errors
    ///
    /// A kernel does not build, there is no memory, or the device is suspended.
    pub fn warm_up(&self) -> Result<(), Error> {
        let inner = &self.0;
        let run = self.next_run()?;
        let results = inner.core.access(&[], &[], || {
            let bound = run.bound(&inner.core.pool, || ())?;
            Ok(inner.core.pool.engine.build(&bound.launches))
        })?;
        for (result, step) in results.into_iter().zip(&inner.compiled.blueprint.steps) {
            let stage = step.stages.first().copied().unwrap_or(0);
            result.map_err(|error| Error::from(error).in_stage(stage, self.stage_count()))?;
        }
        Ok(())
    }

    /// Runs it launch by launch, and says how long the device took for each: device clocks where it has them. A run takes less
    /// than their sum, because launches follow one another without a pause.
    ///
    /// # Errors
    ///
    /// As [`run`](Plan::run).
    pub fn profile(&self) -> Result<Vec<LaunchTime>, Error> {
        let (reads, writes) = self.slots();
        profile::profile(&self.0.core, &self.next_run()?, &reads, &writes)
    }

    fn memory(&self) -> Result<SmallVec<[Arc<Allocation>; 3]>, Error> {
        self.0.buffers.iter().map(Buffer::memory).collect()
    }

    /// One run of it.
    fn next_run(&self) -> Result<Run, Error> {
        let inner = &self.0;
        Ok(Run::new(&inner.compiled, self.memory()?, inner.values.clone(), Keeps::All(inner.kept.clone())))
    }

    /// One run, to be queued.
    fn job(&self) -> Result<Job, Error> {
        let mut job = Job::default();
        let (reads, writes) = self.slots();
        job.push_run(self.next_run()?, &reads, &writes);
        Ok(job)
    }

    /// The buffers that it reads, and those that it writes.
    fn slots(&self) -> (Slots<'_>, Slots<'_>) {
        let inner = &self.0;
        let slots = |wanted: fn(&dala_plan::plan::External) -> bool| -> Slots<'_> {
            let of = inner.buffers.iter().zip(&inner.compiled.blueprint.externals);
            of.filter(|(_, external)| wanted(external)).map(|(buffer, _)| buffer.slot()).collect()
        };
        (slots(|external| external.read), slots(|external| external.written))
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan of {} stages in {} launches", self.stage_count(), self.launches())
    }
}
