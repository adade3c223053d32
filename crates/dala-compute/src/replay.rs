//! A compiled pipeline, ready to run again and again.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use dala_kernels::Kernel;
use dala_kernels::launch::Geometry;
use dala_plan::{Blueprint, PipelineSpec, Place};
use smallvec::SmallVec;

use crate::buffer::Slot;
use crate::device::Core;
use crate::engine::{EngineError, Kept, Launch, Memory, Notes, Recording};
use crate::job::{Job, Prepared};
use crate::plan::{Constants, Cost, ceiling};
use crate::pool::{Allocation, Pool};
use crate::{Buffer, Command, Device, Error, SubmitOptions};

/// What a pipeline compiles to: checked, fused, laid out in memory, and ready to run as often as you like. Cheap to clone;
/// clones are of the same plan.
///
/// The contents of its buffers may change between runs. Scratch memory is taken by the first run and kept as long as the plan
/// lives; freeing one of its buffers ends that, and later runs are refused.
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) compiled: Arc<Compiled>,
    /// The users' buffers, by their numbers.
    pub(crate) buffers: Vec<Buffer>,
    binding: Arc<Binding>,
}

/// What does not depend on buffers: shared by plans that differ in them alone.
pub(crate) struct Compiled {
    pub(crate) blueprint: Blueprint,
    pub(crate) spec: PipelineSpec,
    /// The kernel of each stage.
    pub(crate) kernels: Vec<Option<Arc<Kernel>>>,
    steps: Vec<Step>,
    constants: Constants,
    grouping: Mutex<Grouping>,
    runs: AtomicU64,
    /// The device knows what will be launched.
    foreseen: Once,
}

struct Step {
    task: Arc<dala_plan::Task>,
    geometry: Geometry,
    cost: Cost,
    ceiling: Duration,
}

impl Step {
    fn cost(&self) -> Option<Duration> {
        self.cost.get().map(|measured| measured.min(self.ceiling))
    }
}

/// Launches that follow one another and are handed to the device together, so short that other lanes need not wait.
type Segment = Range<usize>;

struct Grouping {
    segments: Arc<[Segment]>,
    /// At how many runs they are looked at again.
    next: u64,
}

/// The longest that a segment takes the device, as far as that is known.
const SEGMENT: Duration = Duration::from_millis(2);

/// Launches over memory, made by the first run. Buffers that are freed let go of it.
#[derive(Default)]
pub(crate) struct Binding(Mutex<Option<Arc<Bound>>>);

impl Binding {
    fn get(&self) -> MutexGuard<'_, Option<Arc<Bound>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the memory; a run that uses it still holds it.
    pub(crate) fn forget(&self) {
        let bound = self.get().take();
        // Not under the lock: giving memory back takes others.
        drop(bound);
    }
}

pub(crate) struct Bound {
    launches: Vec<Launch>,
    cuts: Mutex<Vec<Cut>>,
    _scratch: Vec<Allocation>,
}

/// What is known of a segment.
struct Cut {
    segment: Segment,
    /// The memory that it writes.
    outputs: Arc<[Memory]>,
    recorded: Recorded,
}

enum Recorded {
    /// Launched so often one by one.
    Times(u32),
    Yes(Arc<dyn Recording>),
    /// The device does not record, or could not.
    No,
}

type Slots<'a> = SmallVec<[&'a Arc<Slot>; 8]>;

/// How long one launch of a plan took.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchTime {
    /// The stages that it does, or does a part of, counted from 0.
    pub stages: Vec<usize>,
    /// What they are called.
    pub name: String,
    /// The bytes that it reads and writes.
    pub bytes: usize,
    /// How long the device took.
    pub time: Duration,
}

/// Segments of a plan for one command.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) plan: Arc<Inner>,
    pub(crate) segments: Arc<[Segment]>,
    /// The memory of its buffers, held until the command ended.
    pub(crate) memory: Arc<[Arc<Allocation>]>,
}

impl Plan {
    pub(crate) fn new(
        core: &Arc<Core>,
        spec: PipelineSpec,
        kernels: Vec<Option<Arc<Kernel>>>,
        mut blueprint: Blueprint,
        buffers: Vec<Buffer>,
    ) -> Plan {
        let step = |step: &dala_plan::plan::BlueprintStep| Step {
            geometry: Geometry::choose(&step.task, core.facts()),
            task: Arc::new(step.task.clone()),
            cost: Cost::default(),
            ceiling: ceiling(&step.task),
        };
        let steps: Vec<Step> = blueprint.steps.iter().map(step).collect();
        let constants = Constants::new(std::mem::take(&mut blueprint.constants));
        let compiled = Compiled {
            grouping: Mutex::new(Grouping { segments: (0..steps.len()).map(|step| step..step + 1).collect(), next: 1 }),
            blueprint,
            spec,
            kernels,
            steps,
            constants,
            runs: AtomicU64::new(0),
            foreseen: Once::new(),
        };
        Plan::bind(core, Arc::new(compiled), buffers)
    }

    fn bind(core: &Arc<Core>, compiled: Arc<Compiled>, buffers: Vec<Buffer>) -> Plan {
        let binding = Arc::<Binding>::default();
        for buffer in &buffers {
            buffer.slot().used_by(Arc::downgrade(&binding));
        }
        Plan(Arc::new(Inner { core: core.clone(), compiled, buffers, binding }))
    }

    /// Runs it and waits until everything is written.
    ///
    /// # Errors
    ///
    /// A buffer was freed or is known to be unreadable: nothing was launched then. Or the device failed: then what it should
    /// have written is poisoned until it is written again.
    pub fn run(&self) -> Result<(), Error> {
        self.0.core.run_job(self.job()?)
    }

    /// Queues a run and returns at once; see [`Device::submit`].
    ///
    /// # Errors
    ///
    /// As [`run`](Plan::run), or the lane is full and the options say so.
    pub fn submit(&self, options: impl Into<SubmitOptions>) -> Result<Command, Error> {
        self.0.core.submit_job(self.job()?, options.into())
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
        Ok(Plan::bind(&self.0.core, self.0.compiled.clone(), buffers))
    }

    /// The number of launches that a run makes.
    pub fn launches(&self) -> usize {
        self.0.compiled.steps.len()
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
        let memory = self.memory()?;
        let results = inner.core.access(&[], &[], || {
            let bound = inner.bound(&inner.core.pool, &memory, || ())?;
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
        let inner = &self.0;
        let memory = self.memory()?;
        let (reads, writes) = inner.slots();
        let times = inner.core.access(&reads, &writes, || {
            let bound = inner.bound(&inner.core.pool, &memory, || ())?;
            bound.launches.iter().map(|launch| inner.core.pool.engine.profile(launch)).collect::<Result<Vec<_>, _>>()
        })?;
        let steps = inner.compiled.blueprint.steps.iter();
        let time = |(index, (step, time)): (usize, (&dala_plan::plan::BlueprintStep, Duration))| LaunchTime {
            stages: step.stages.clone(),
            name: inner.compiled.label(&(index..index + 1)),
            bytes: step.bytes,
            time,
        };
        Ok(steps.zip(times).enumerate().map(time).collect())
    }

    fn memory(&self) -> Result<Vec<Arc<Allocation>>, Error> {
        self.0.buffers.iter().map(Buffer::memory).collect()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// One run, to be queued.
    fn job(&self) -> Result<Job, Error> {
        let inner = &self.0;
        let memory = self.memory()?;
        let segments = inner.compiled.segments();
        let run = Run { plan: inner.clone(), segments: segments.clone(), memory: memory.into() };
        let mut job = Job::default();
        let (reads, writes) = inner.slots();
        job.touch(&reads, &writes);
        for index in 0..segments.len() {
            job.stages.push(Prepared::Segment(run.clone(), index));
        }
        if segments.is_empty() {
            job.stages.push(Prepared::Nothing);
        }
        Ok(job)
    }
}

impl Compiled {
    /// The segments as of now: one launch each until all were measured, then as many launches as are short together.
    fn segments(&self) -> Arc<[Segment]> {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut grouping = self.grouping.lock().unwrap_or_else(PoisonError::into_inner);
        if runs < grouping.next {
            return grouping.segments.clone();
        }
        let costs: Option<Vec<Duration>> = self.steps.iter().map(Step::cost).collect();
        if let Some(costs) = costs {
            // First measurements are long ones: they are looked at again, less and less often.
            grouping.next = if runs < 4096 { runs * 4 } else { u64::MAX };
            grouping.segments = group(&costs);
        }
        grouping.segments.clone()
    }

    pub(crate) fn cost(&self, segment: &Segment) -> Option<Duration> {
        self.steps[segment.clone()].iter().map(Step::cost).sum()
    }

    pub(crate) fn learn(&self, segment: &Segment, expected: Option<Duration>, measured: Duration) {
        for step in &self.steps[segment.clone()] {
            let own = step.cost();
            let share = match (own, expected) {
                (Some(own), Some(expected)) if !expected.is_zero() => {
                    measured.mul_f64(own.as_secs_f64() / expected.as_secs_f64())
                }
                _ => measured / segment.len().max(1) as u32,
            };
            step.cost.learn(own, share);
        }
    }

    /// What a segment does, for people.
    pub(crate) fn label(&self, segment: &Segment) -> String {
        let mut names: Vec<String> =
            self.blueprint.steps[segment.clone()].iter().flat_map(|step| self.blueprint.stage_labels(step)).collect();
        names.dedup();
        match names.len() {
            0..=8 => names.join(" + "),
            more => format!("{} + {} more", names[..7].join(" + "), more - 7),
        }
    }

    /// The stage that a segment's failure is reported for.
    pub(crate) fn stage_of(&self, segment: &Segment) -> usize {
        self.blueprint.steps.get(segment.start).and_then(|step| step.stages.first().copied()).unwrap_or(0)
    }
}

/// Cuts launches into segments that take no longer than they may.
fn group(costs: &[Duration]) -> Arc<[Segment]> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut sum = Duration::ZERO;
    for (index, cost) in costs.iter().enumerate() {
        sum += *cost;
        match segments.last_mut() {
            Some(last) if sum <= SEGMENT => last.end = index + 1,
            _ => {
                segments.push(index..index + 1);
                sum = *cost;
            }
        }
    }
    segments.into()
}

impl Inner {
    /// The buffers that it reads, and those that it writes.
    fn slots(&self) -> (Slots<'_>, Slots<'_>) {
        let slots = |wanted: fn(&dala_plan::plan::External) -> bool| -> Slots<'_> {
            let of = self.buffers.iter().zip(&self.compiled.blueprint.externals);
            of.filter(|(_, external)| wanted(external)).map(|(buffer, _)| buffer.slot()).collect()
        };
        (slots(|external| external.read), slots(|external| external.written))
    }

    /// Its launches, bound to memory. For the thread that drives the device; `settle` waits for what was launched, where data
    /// must be copied first.
    pub(crate) fn bound(
        &self,
        pool: &Pool,
        memory: &[Arc<Allocation>],
        settle: impl FnOnce(),
    ) -> Result<Arc<Bound>, EngineError> {
        if let Some(bound) = &*self.binding.get() {
            return Ok(bound.clone());
        }
        if self.compiled.constants.needs_upload() {
            settle();
        }
        let constants = self.compiled.constants.on_device(pool)?;
        let blueprint = &self.compiled.blueprint;
        let scratch = blueprint.scratch.iter().map(|bytes| pool.allocate(*bytes)).collect::<Result<Vec<_>, _>>()?;
        let of = |place: &Place| match *place {
            Place::Input(number) => pool.memory(&memory[number]).cloned(),
            Place::Transient(number) => pool.memory(&scratch[number]).cloned(),
            Place::Constant(number) => pool.memory(&constants[number]).cloned(),
            Place::Output => Err(EngineError::internal("a plan has no single output")),
        };
        let launch = |(step, planned): (&Step, &dala_plan::plan::BlueprintStep)| {
            let reads = planned.reads.iter().map(of).collect::<Result<SmallVec<[Memory; 4]>, EngineError>>()?;
            let outputs = planned.writes.iter().map(of).collect::<Result<SmallVec<[Memory; 2]>, EngineError>>()?;
            let aliases = outputs.iter().map(|output| reads.iter().position(|read| read.is(output))).collect();
            let (task, geometry, params) = (step.task.clone(), step.geometry, planned.params.clone());
            let kept = Kept::OfLaunch(Notes::default());
            Ok(Launch { task, geometry, reads, outputs, aliases, params, kept })
        };
        let launches =
            self.compiled.steps.iter().zip(&blueprint.steps).map(launch).collect::<Result<Vec<_>, EngineError>>()?;
        self.compiled.foreseen.call_once(|| pool.engine.foresee(&launches));
        let bound = Arc::new(Bound { launches, cuts: Mutex::default(), _scratch: scratch });
        *self.binding.get() = Some(bound.clone());
        // A buffer that was freed meanwhile found nothing to let go of.
        if self.buffers.iter().any(|buffer| buffer.memory().is_err()) {
            self.binding.forget();
        }
        Ok(bound)
    }
}

/// How often a segment is launched one by one before it is recorded: recording costs as much as several launches.
const BEFORE_RECORDING: u32 = 2;

impl Bound {
    /// The launches of a segment.
    pub(crate) fn launches(&self, segment: &Segment) -> &[Launch] {
        &self.launches[segment.clone()]
    }

    /// The memory that a segment writes, each once; and its recording, if the device records and it was launched often
    /// enough: made now if it is time.
    pub(crate) fn cut(&self, pool: &Pool, segment: &Segment) -> (Arc<[Memory]>, Option<Arc<dyn Recording>>) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let place = cuts.iter().position(|cut| cut.segment == *segment).unwrap_or_else(|| {
            // Other cuts are of the past.
            cuts.retain(|cut| cut.segment.end <= segment.start || segment.end <= cut.segment.start);
            let outputs = self.outputs(segment).into();
            cuts.push(Cut { segment: segment.clone(), outputs, recorded: Recorded::Times(0) });
            cuts.len() - 1
        });
        let Cut { outputs, recorded, .. } = &mut cuts[place];
        let recording = match recorded {
            Recorded::Yes(recording) => Some(recording.clone()),
            Recorded::No => None,
            Recorded::Times(times) if *times < BEFORE_RECORDING => {
                *times += 1;
                None
            }
            Recorded::Times(_) => {
                // What cannot be recorded is launched as before.
                match pool.engine.record(&self.launches[segment.clone()]) {
                    Ok(Some(recording)) => {
                        *recorded = Recorded::Yes(recording.clone());
                        Some(recording)
                    }
                    _ => {
                        *recorded = Recorded::No;
                        None
                    }
                }
            }
        };
        (outputs.clone(), recording)
    }

    fn outputs(&self, segment: &Segment) -> Vec<Memory> {
        let mut outputs: Vec<Memory> = Vec::new();
        for launch in &self.launches[segment.clone()] {
            for output in &launch.outputs {
                if !outputs.iter().any(|own| own.is(output)) {
                    outputs.push(output.clone());
                }
            }
        }
        outputs
    }
}

/// Those who are told when a buffer is freed.
pub(crate) type Users = SmallVec<[Weak<Binding>; 1]>;

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan of {} stages in {} launches", self.stage_count(), self.launches())
    }
}
