//! From stages to a plan: every stage is checked, lowered and planned together with the others.

use std::sync::Arc;

use dala_plan::plan::{Cell, Graph, LoweredStage, plan};
use dala_plan::work::LARGEST_INDEX;
use dala_plan::{Blueprint, CheckedPipeline, DeviceFacts, Lowering, PipelineSpec, Rules, StageProblem, StageSpec};
use dala_spec::{Signature, SpecError, TensorType, Unsupported};

use crate::{Kernel, Registry, Work};

/// Plans a pipeline for a device. Without `fuse`, every stage is launched by itself.
///
/// # Errors
///
/// Everything that is wrong with it, never an empty list.
pub fn compile(
    pipeline: &PipelineSpec,
    registry: &Registry,
    facts: &DeviceFacts,
    fuse: bool,
) -> Result<Blueprint, Vec<StageProblem>> {
    let checked = pipeline.check(|name| registry.get(name).map(|kernel| &kernel.spec))?;
    compile_checked(pipeline, &checked, &kernels_of(pipeline, registry), facts, fuse)
}

/// The kernel of each stage that runs one.
pub fn kernels_of(pipeline: &PipelineSpec, registry: &Registry) -> Vec<Option<Arc<Kernel>>> {
    let kernel = |stage: &StageSpec| match stage {
        StageSpec::Run { kernel, .. } => registry.get(kernel).ok().cloned(),
        _ => None,
    };
    pipeline.stages.iter().map(kernel).collect()
}

/// As [`compile`], of a pipeline that was checked, with the kernel of each stage.
///
/// # Errors
///
/// What the device cannot do, never an empty list.
pub fn compile_checked(
    pipeline: &PipelineSpec,
    checked: &CheckedPipeline,
    kernels: &[Option<Arc<Kernel>>],
    facts: &DeviceFacts,
    fuse: bool,
) -> Result<Blueprint, Vec<StageProblem>> {
    let mut problems = too_large(pipeline, &checked.types);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut calls = Vec::with_capacity(pipeline.stages.len());
    let mut labels = Vec::with_capacity(pipeline.stages.len());
    let stages = pipeline.stages.iter().zip(&checked.signatures).zip(kernels);
    for (stage, ((what, signature), kernel)) in stages.enumerate() {
        labels.push(what.label().to_owned());
        calls.push(match (what, signature, kernel) {
            (StageSpec::Run { inputs, outputs, .. }, Some(signature), Some(kernel)) => {
                let further = outputs.iter().skip(1).filter_map(|output| checked.types.get(*output)?.clone());
                let further: Vec<TensorType> = further.collect();
                match lower(kernel, signature, &further, facts) {
                    Ok(Some(lowering)) => LoweredStage::Run {
                        lowering: lowering.of_stage(stage),
                        inputs: inputs.clone(),
                        outputs: outputs.clone(),
                    },
                    Ok(None) => LoweredStage::Empty { outputs: outputs.clone() },
                    Err(error) => {
                        problems.push(StageProblem { stage, error });
                        LoweredStage::Nothing
                    }
                }
            }
            // What is copied to itself is there.
            (StageSpec::Copy { from, to }, ..) if from == to => LoweredStage::Nothing,
            (StageSpec::Copy { from, to }, ..) => {
                match checked.types[*from].as_ref().is_none_or(|ty| ty.shape.is_empty()) {
                    true => LoweredStage::Empty { outputs: vec![*to] },
                    false => LoweredStage::Copy { from: *from, to: *to },
                }
            }
            _ => LoweredStage::Barrier,
        });
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let cell = |(cell, ty): (&dala_plan::CellSpec, &Option<TensorType>)| Cell {
        // No stage uses a buffer whose type nobody knows.
        ty: ty.clone().unwrap_or_else(|| dala_spec::TensorType::new(dala_spec::DType::U8, [0])),
        name: cell.name.clone(),
        transient: cell.transient,
    };
    let cells: Vec<Cell> = pipeline.cells.iter().zip(&checked.types).map(cell).collect();
    plan_calls(&cells, calls, labels, facts, fuse).map_err(|error| vec![StageProblem { stage: 0, error }])
}

/// Plans calls over buffers for a device. `labels` says what each call is called.
///
/// # Errors
///
/// A launch uses what is not there.
pub fn plan_calls(
    cells: &[Cell],
    calls: Vec<LoweredStage>,
    labels: Vec<String>,
    facts: &DeviceFacts,
    fuse: bool,
) -> Result<Blueprint, SpecError> {
    plan(Graph::build(cells, calls, labels)?, &Rules { facts, fuse })
}

/// The most bytes of a transient: what is larger fits no memory, and sizes of it no number.
const LARGEST_TRANSIENT: u64 = 1 << 40;

/// Transients that fit no memory, each with the first stage that uses it. Buffers have memory already.
fn too_large(pipeline: &PipelineSpec, types: &[Option<TensorType>]) -> Vec<StageProblem> {
    let huge = |ty: &TensorType| {
        let bytes = ty.shape.checked_len().and_then(|len| len.checked_mul(ty.dtype.size()));
        bytes.is_none_or(|bytes| bytes as u64 > LARGEST_TRANSIENT)
    };
    let uses = |stage: &StageSpec, cell: usize| match stage {
        StageSpec::Run { inputs, outputs, .. } => outputs.contains(&cell) || inputs.contains(&cell),
        StageSpec::Copy { from, to } => *from == cell || *to == cell,
        StageSpec::Barrier => false,
    };
    let cells = pipeline.cells.iter().zip(types).enumerate();
    let found = cells.filter_map(|(cell, (spec, ty))| {
        let ty = ty.as_ref().filter(|ty| spec.transient && huge(ty))?;
        let stage = pipeline.stages.iter().position(|stage| uses(stage, cell))?;
        let error = SpecError::TooLarge { name: spec.name.clone(), shape: ty.shape.to_string() };
        Some(StageProblem { stage, error })
    });
    found.collect()
}

/// The launches of a call on a device; none where there is nothing to do.
fn lower(
    kernel: &Kernel,
    signature: &Signature,
    further: &[TensorType],
    facts: &DeviceFacts,
) -> Result<Option<Lowering>, SpecError> {
    if signature.output.shape.is_empty() && further.iter().all(|ty| ty.shape.is_empty()) {
        if let Work::Pointwise(_) = kernel.work {
            // What it cannot compute is an error whatever the size.
            supported(kernel, signature, facts)?;
        }
        return Ok(None);
    }
    let lowering = supported(kernel, signature, facts)?;
    for step in &lowering.steps {
        // Values that do not fit are an error of the call, not of a run.
        step.task.param_values(&kernel.spec.name, signature)?;
    }
    Ok(Some(lowering))
}

/// The launches that a call comes down to, if the device can run them.
///
/// # Errors
///
/// The expression does not fit the call's types, or the device lacks something.
pub fn supported(kernel: &Kernel, signature: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let lowering = kernel.lower(signature, facts)?;
    let refuse = |reason| SpecError::Unsupported {
        kernel: kernel.spec.name.clone(),
        device: format!("the {} device", facts.name),
        reason,
    };
    lowering.support(facts).map_err(refuse)?;
    let types = signature.inputs.iter().chain([&signature.output]).chain(&lowering.transients);
    let lens = types.map(|ty| ty.shape.len()).chain(lowering.constants.iter().map(|data| data.len()));
    let longest = lens.max().unwrap_or(0);
    let elements = lowering.steps.iter().map(|step| step.task.kind().indexed(longest)).max().unwrap_or(0);
    match elements > LARGEST_INDEX {
        true => Err(refuse(Unsupported::Length { elements, max: LARGEST_INDEX })),
        false => Ok(lowering),
    }
}
