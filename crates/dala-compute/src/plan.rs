//! What a validated call compiles to, and the cache of it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use dala_kernels::launch::Geometry;
use dala_kernels::{Kernel, KernelId, Work};
use dala_plan::work::Map;
use dala_plan::{DeviceFacts, Lowering, Place, Step, Task};
use dala_spec::{Data, ParamKind, ParamValue, Program, Scalar, Signature, SpecError, TensorType};
use lru::LruCache;
use rustc_hash::FxBuildHasher;

use crate::engine::Notes;
use crate::pool::{Allocation, Pool};
use crate::{EngineError, Error};

/// How many plans a device remembers.
const CACHED_PLANS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// One launch, ready.
#[derive(Debug)]
pub(crate) struct PlannedStep {
    pub(crate) task: Arc<Task>,
    pub(crate) reads: Vec<Place>,
    pub(crate) writes: Vec<Place>,
    pub(crate) geometry: Geometry,
    /// What the engine keeps of its launches.
    pub(crate) kept: Arc<Notes>,
}

/// A call, ready to launch with any buffers and params of its types.
pub(crate) struct CallPlan {
    /// What it does, for people.
    name: String,
    pub(crate) steps: Vec<PlannedStep>,
    /// The sizes of its scratch memory, in bytes.
    pub(crate) transients: Vec<usize>,
    /// Data that its launches need beside the call's own.
    constants: Constants,
    /// How long it keeps the device busy, as measured.
    cost: Cost,
    /// The longest that can be, if its size tells.
    ceiling: Duration,
}

/// Tables, on the host until they are first needed on the device. Planning must not wait for a device.
pub(crate) struct Constants {
    on_host: Mutex<Vec<Arc<Data>>>,
    on_device: OnceLock<Vec<Allocation>>,
}

impl Constants {
    pub(crate) fn new(data: Vec<Arc<Data>>) -> Constants {
        Constants { on_host: Mutex::new(data), on_device: OnceLock::new() }
    }

    fn on_host(&self) -> MutexGuard<'_, Vec<Arc<Data>>> {
        // Nothing is left half-done by a panic under this lock.
        self.on_host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the device, brought there if need be. Called by the thread that drives the device.
    pub(crate) fn on_device(&self, pool: &Pool) -> Result<&[Allocation], EngineError> {
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
    pub(crate) fn needs_upload(&self) -> bool {
        self.on_device.get().is_none() && !self.on_host().is_empty()
    }
}

/// What a kind of stage takes, as it was measured.
#[derive(Debug, Default)]
pub(crate) struct Cost(AtomicU64);

impl Cost {
    pub(crate) fn get(&self) -> Option<Duration> {
        let nanoseconds = self.0.load(Ordering::Relaxed);
        (nanoseconds > 0).then_some(Duration::from_nanos(nanoseconds))
    }

    /// Learns from a measurement. `expected` is what was known when the work was chosen: stages of one kind that run
    /// together are measured once.
    pub(crate) fn learn(&self, expected: Option<Duration>, measured: Duration) {
        let known = expected.map_or(measured, |expected| {
            // Waits make measurements too long, never too short.
            let (old, new) = if measured < expected { (1, 3) } else { (3, 1) };
            (expected * old + measured * new) / 4
        });
        self.0.store(known.as_nanos().clamp(1, u64::MAX.into()) as u64, Ordering::Relaxed);
    }
}

/// What a task takes at most, generously, on a slow device: known where each element is computed by itself.
pub(crate) fn ceiling(task: &Task) -> Duration {
    const LAUNCH: Duration = Duration::from_micros(30);
    const OPERATION_NANOSECONDS: u64 = 4;
    let Task::Map(map) = task else { return Duration::MAX };
    let operations = map.program.weight() + map.program.ops().len() as u64;
    let elements = map.shape.len() as u64;
    LAUNCH + Duration::from_nanos(elements.saturating_mul(operations).saturating_mul(OPERATION_NANOSECONDS))
}

impl CallPlan {
    fn new(name: &str, lowering: Lowering, facts: &DeviceFacts) -> CallPlan {
        let prepare = |step: Step| PlannedStep {
            geometry: Geometry::choose(&step.task, facts),
            task: Arc::new(step.task),
            reads: step.reads,
            writes: step.writes,
            kept: Arc::default(),
        };
        let bytes = |ty: &TensorType| ty.shape.len().saturating_mul(ty.dtype.size());
        let ceiling =
            lowering.steps.iter().map(|step| ceiling(&step.task)).fold(Duration::ZERO, Duration::saturating_add);
        CallPlan {
            name: name.to_owned(),
            transients: lowering.transients.iter().map(bytes).collect(),
            steps: lowering.steps.into_iter().map(prepare).collect(),
            constants: Constants::new(lowering.constants),
            cost: Cost::default(),
            ceiling,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How long it keeps the device busy, if that was measured. On a machine that does other things too, a measurement is
    /// mostly waiting: then small work would never share a pass.
    pub(crate) fn cost(&self) -> Option<Duration> {
        self.cost.get().map(|measured| measured.min(self.ceiling))
    }

    pub(crate) fn learn(&self, expected: Option<Duration>, measured: Duration) {
        self.cost.learn(expected, measured);
    }

    /// A plan of one program over `words` 32-bit words, from its inputs to its output.
    pub(crate) fn over_words(name: &str, program: Program, words: usize, facts: &DeviceFacts) -> CallPlan {
        let reads: Vec<Place> = (0..program.inputs().len()).map(Place::Input).collect();
        let mut lowering = Lowering::new();
        lowering.step(Task::Map(Map::over_words(program, words)), reads, Place::Output);
        CallPlan::new(name, lowering, facts)
    }

    /// Its constants on the device. Called by the thread that drives the device.
    pub(crate) fn constants(&self, pool: &Pool) -> Result<&[Allocation], EngineError> {
        self.constants.on_device(pool)
    }

    /// Whether its constants are still to be brought to the device.
    pub(crate) fn needs_upload(&self) -> bool {
        self.constants.needs_upload()
    }

    fn holds_memory(&self) -> bool {
        self.constants.on_device.get().is_some_and(|constants: &Vec<Allocation>| !constants.is_empty())
    }

    fn for_call(facts: &DeviceFacts, kernel: &Kernel, signature: &Signature) -> Result<CallPlan, Error> {
        let mut lowering = dala_kernels::supported(kernel, signature, facts)?;
        if let Work::Composite(_) = kernel.work {
            lowering = dala_kernels::fused(lowering, signature, facts)?;
        }
        Ok(CallPlan::new(&kernel.spec.name, lowering, facts))
    }

    /// Whether its output may be one of its inputs: each element is read before it is written, and never again.
    pub(crate) fn works_in_place(&self) -> bool {
        match &self.steps[..] {
            [PlannedStep { task, .. }] => matches!(&**task, Task::Map(map) if !map.program.reads_neighbours()),
            _ => false,
        }
    }

    /// The run-time values of each launch of a call.
    pub(crate) fn param_values(&self, kernel: &str, signature: &Signature) -> Result<Vec<Vec<Scalar>>, SpecError> {
        self.steps.iter().map(|planned| planned.task.param_values(kernel, signature)).collect()
    }
}

/// What makes two calls use one plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PlanKey {
    Call {
        kernel: KernelId,
        inputs: Vec<TensorType>,
        output: TensorType,
        params: Vec<ParamForm>,
    },
    /// Copies so many 32-bit words.
    Copy {
        words: usize,
    },
    /// Fills so many 32-bit words with zeros.
    Zeros {
        words: usize,
    },
}

/// What a param's value changes about the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ParamForm {
    /// Nothing: it is a run-time value.
    Value,
    /// A number that is whole computes in integers on integers.
    Number { whole: bool },
    /// Everything: it is built into the code.
    Fixed(String),
}

impl ParamForm {
    fn of(work: &Work, kind: &ParamKind, value: &ParamValue) -> ParamForm {
        match (kind, value) {
            // Weights, tables and the like are made of them: another value is another plan, though not other code.
            _ if matches!(work, Work::Lowered(_)) => ParamForm::Fixed(value.to_string()),
            (ParamKind::Number, value) => ParamForm::Number { whole: value.is_whole() },
            (ParamKind::Int | ParamKind::Float | ParamKind::Bool, _) => ParamForm::Value,
            (_, value) => ParamForm::Fixed(value.to_string()),
        }
    }
}

/// The plans a device made last.
pub(crate) struct Plans(Mutex<LruCache<PlanKey, Arc<CallPlan>, FxBuildHasher>>);

impl Plans {
    pub(crate) fn new() -> Plans {
        Plans(Mutex::new(LruCache::with_hasher(CACHED_PLANS, FxBuildHasher)))
    }

    /// The plan for a call: remembered, or made now unless that is not wanted.
    pub(crate) fn call(
        &self,
        facts: &DeviceFacts,
        kernel: &Kernel,
        signature: &Signature,
        only_planned: bool,
    ) -> Result<Arc<CallPlan>, Error> {
        let key = PlanKey::Call {
            kernel: kernel.id,
            inputs: signature.inputs.clone(),
            output: signature.output.clone(),
            params: signature.params.iter().map(|(_, kind, value)| ParamForm::of(&kernel.work, kind, value)).collect(),
        };
        self.get(key, || match only_planned {
            true => Err(Error::Unplanned { kernel: kernel.spec.name.clone() }),
            false => CallPlan::for_call(facts, kernel, signature),
        })
    }

    /// The plan that copies 32-bit words from its only input.
    pub(crate) fn copy(&self, facts: &DeviceFacts, words: usize) -> Result<Arc<CallPlan>, Error> {
        self.get(PlanKey::Copy { words }, || Ok(CallPlan::over_words("copy", Program::move_words(), words, facts)))
    }

    /// The plan that writes 32-bit zeros.
    pub(crate) fn zeros(&self, facts: &DeviceFacts, words: usize) -> Result<Arc<CallPlan>, Error> {
        self.get(PlanKey::Zeros { words }, || Ok(CallPlan::over_words("zeros", Program::zero_words(), words, facts)))
    }

    fn get(&self, key: PlanKey, make: impl FnOnce() -> Result<CallPlan, Error>) -> Result<Arc<CallPlan>, Error> {
        // Nothing is left half-done by a panic under this lock.
        if let Some(plan) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(make()?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, plan.clone());
        Ok(plan)
    }

    /// Forgets the plans that hold device memory.
    pub(crate) fn trim(&self) {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holding = plans.iter().filter(|(_, plan)| plan.holds_memory());
        let holding: Vec<PlanKey> = holding.map(|(key, _)| key.clone()).collect();
        for key in holding {
            plans.pop(&key);
        }
    }
}
