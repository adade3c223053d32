//! What stages compile to, whatever buffers they run on.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use dala_kernels::Kernel;
use dala_plan::{Blueprint, DeviceFacts, PipelineSpec, StageSpec};
use dala_spec::expr::ParamSource;
use dala_spec::{Scalar, Signature, SpecError};
use smallvec::SmallVec;

use super::constants::Constants;
use super::cost::Cost;
use super::frame::Frames;
use crate::engine;

/// Checked, fused and laid out stages. Plans that differ in their buffers and values alone share it, and so do calls.
pub(crate) struct Compiled {
    pub(crate) blueprint: Blueprint,
    pub(crate) spec: PipelineSpec,
    /// The kernel of each stage.
    pub(crate) kernels: Vec<Option<Arc<Kernel>>>,
    pub(super) steps: Vec<CostedStep>,
    pub(super) constants: Constants,
    /// What computes those that are made of others, until it did.
    pub(super) preparation: Mutex<Option<Box<Compiled>>>,
    grouping: Mutex<Grouping>,
    runs: AtomicU64,
    /// The device knows what will be launched.
    pub(super) foreseen: Once,
    /// What runs leave for others, where they are asked to.
    pub(crate) frames: Arc<Frames>,
}

pub(super) struct CostedStep {
    pub(super) launched: Arc<engine::Step>,
    cost: Cost,
}

/// The run-time values of each launch.
pub(crate) type Values = SmallVec<[SmallVec<[Scalar; 4]>; 1]>;

/// Launches that follow one another and are handed to the device together, so short that other lanes need not wait.
pub(crate) type Segment = Range<usize>;

struct Grouping {
    segments: Arc<[Segment]>,
    /// At how many runs they are looked at again.
    next: u64,
}

/// The longest that a segment takes the device, as far as that is known.
const SEGMENT: Duration = Duration::from_millis(2);

impl Compiled {
    pub(crate) fn new(
        mut blueprint: Blueprint,
        spec: PipelineSpec,
        kernels: Vec<Option<Arc<Kernel>>>,
        facts: &DeviceFacts,
    ) -> Compiled {
        let step = |step: &dala_plan::plan::BlueprintStep| CostedStep {
            cost: Cost::of(&step.task),
            launched: Arc::new(engine::Step::new(step.task.clone(), facts)),
        };
        let steps: Vec<CostedStep> = blueprint.steps.iter().map(step).collect();
        let constants = Constants::new(std::mem::take(&mut blueprint.constants));
        let preparation = blueprint.preparation.as_deref_mut().map(|own| {
            let whole = own.clone();
            // What is left is for people to read.
            own.constants.clear();
            Box::new(Compiled::new(whole, PipelineSpec::default(), Vec::new(), facts))
        });
        // What is one launch stays one.
        let next = if steps.len() > 1 { 1 } else { u64::MAX };
        Compiled {
            grouping: Mutex::new(Grouping { segments: (0..steps.len()).map(|step| step..step + 1).collect(), next }),
            blueprint,
            spec,
            kernels,
            steps,
            constants,
            preparation: Mutex::new(preparation),
            runs: AtomicU64::new(0),
            foreseen: Once::new(),
            frames: Arc::default(),
        }
    }

    /// The run-time values of each launch, from the params of each stage.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with, or a stage has no params.
    pub(crate) fn values<'a>(&self, signature: impl Fn(usize) -> Option<&'a Signature>) -> Result<Values, SpecError> {
        let value = |slot: &dala_spec::expr::ParamSlot| match &slot.source {
            ParamSource::Fixed(value) => Ok(*value),
            ParamSource::Param { stage, .. } => {
                let (Some(signature), Some(StageSpec::Run { kernel, .. })) =
                    (signature(*stage), self.spec.stages.get(*stage))
                else {
                    return Err(SpecError::internal(format!("stage {stage} of a plan has no params")));
                };
                slot.value(kernel, signature)
            }
        };
        self.blueprint.steps.iter().map(|step| step.params.iter().map(value).collect()).collect()
    }

    /// The segments as of now: one launch each until all were measured, then as many launches as are short together.
    pub(crate) fn segments(&self) -> Arc<[Segment]> {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut grouping = self.grouping.lock().unwrap_or_else(PoisonError::into_inner);
        if runs < grouping.next {
            return grouping.segments.clone();
        }
        let costs: Option<Vec<Duration>> = self.steps.iter().map(|step| step.cost.get()).collect();
        if let Some(costs) = costs {
            // First measurements are long ones: they are looked at again, less and less often.
            grouping.next = if runs < 4096 { runs * 4 } else { u64::MAX };
            grouping.segments = group(&costs);
        }
        grouping.segments.clone()
    }

    /// How long a segment keeps the device busy, if that was measured.
    pub(crate) fn cost(&self, segment: &Segment) -> Option<Duration> {
        self.steps[segment.clone()].iter().map(|step| step.cost.get()).sum()
    }

    pub(crate) fn learn(&self, segment: &Segment, expected: Option<Duration>, measured: Duration) {
        for step in &self.steps[segment.clone()] {
            let own = step.cost.get();
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

    /// How its only launch is cut up.
    #[cfg(test)]
    pub(crate) fn geometry(&mut self) -> &mut dala_kernels::launch::Geometry {
        &mut Arc::get_mut(&mut self.steps[0].launched).unwrap().geometry
    }

    /// Whether it takes memory of the device while nothing runs.
    pub(crate) fn holds_memory(&self) -> bool {
        self.constants.hold_memory()
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
