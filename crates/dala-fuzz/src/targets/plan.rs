//! What is done with every pipeline that was read: checked, planned for devices that nobody has, and looked at.

use std::sync::Arc;

use dala_kernels::{Kernel, Registry, compile};
use dala_plan::{DeviceFacts, PipelineSpec, PipelineText};
use dala_spec::{SpecError, TensorType};

use super::facts;
use crate::Progress;

/// What planning needs besides a pipeline.
pub(super) struct Planner {
    pub(super) registry: Registry,
    pub(super) kernels: Vec<Arc<Kernel>>,
    devices: [DeviceFacts; 3],
}

impl Default for Planner {
    fn default() -> Planner {
        let registry = Registry::built_in();
        Planner { kernels: registry.kernels(), registry, devices: facts::devices() }
    }
}

/// The most bytes of a buffer that somebody may have.
const LARGEST_BUFFER: usize = 1 << 40;

/// Whether somebody may have a buffer of that type.
fn is_possible(ty: &TensorType) -> bool {
    let bytes = ty.shape.checked_len().and_then(|len| len.checked_mul(ty.dtype.size()));
    bytes.is_some_and(|bytes| bytes <= LARGEST_BUFFER)
}

impl Planner {
    /// A written pipeline on buffers as it declares them. What it reads and does not declare is of type `default`; what it
    /// leaves in the end and does not declare is of the type that follows, so that nothing is planned for nobody.
    pub(super) fn bound(&self, text: &PipelineText, default: &TensorType) -> PipelineSpec {
        let declared = text.spec(&[]).cells;
        let (inputs, outputs) = (text.inputs(), text.outputs());
        let mut given: Vec<(&str, TensorType)> = Vec::new();
        for name in inputs.iter().chain(&outputs) {
            let Some(cell) = declared.iter().find(|cell| cell.name == *name) else { continue };
            let ty = match (cell.dtype, &cell.shape) {
                (Some(dtype), Some(shape)) => TensorType::new(dtype, shape.clone()),
                (None, None) if inputs.contains(name) => default.clone(),
                _ => continue,
            };
            if is_possible(&ty) {
                given.push((name, ty));
            }
        }
        let spec = text.spec(&given);
        let Ok(checked) = spec.check(|name| self.registry.get(name).map(|kernel| &kernel.spec)) else { return spec };
        for (cell, ty) in spec.cells.iter().zip(checked.types) {
            let left = outputs.iter().find(|name| cell.transient && **name == cell.name);
            if let (Some(name), Some(ty)) = (left, ty.filter(is_possible)) {
                given.push((name, ty));
            }
        }
        text.spec(&given)
    }

    /// Checks a pipeline, and plans it for each device. Passes `checked` and `planned`.
    pub(super) fn plan(&self, spec: &PipelineSpec, progress: &mut Progress) {
        let find = |name: &str| self.registry.get(name).map(|kernel| &kernel.spec);
        if let Err(problems) = spec.check(find) {
            assert!(!problems.is_empty(), "refused without a reason");
            problems.iter().for_each(|problem| note(&problem.error, progress));
            // What does not check is not planned either.
            assert!(compile(spec, &self.registry, &self.devices[0], true).is_err(), "planned unchecked");
            return;
        }
        progress.past("checked");
        let mut planned = 0;
        for facts in &self.devices {
            let results = [true, false].map(|fuse| compile(spec, &self.registry, facts, fuse));
            let [fused, unfused] = &results;
            assert_eq!(fused.is_ok(), unfused.is_ok(), "only one of fused and unfused is planned");
            for result in &results {
                match result {
                    Ok(blueprint) => {
                        planned += 1;
                        let text = blueprint.explain();
                        text.lines().for_each(|line| progress.note_message(line));
                        assert!(blueprint.to_svg().starts_with("<svg"), "no picture");
                        let _ = (blueprint.peak_bytes(), blueprint.bytes_moved());
                    }
                    Err(problems) => problems.iter().for_each(|problem| note(&problem.error, progress)),
                }
            }
        }
        if planned > 0 {
            progress.past("planned");
        }
    }
}

fn note(error: &SpecError, progress: &mut Progress) {
    progress.note(error.code());
    assert_ne!(error.code(), "internal", "a fault of ours: {error}");
    assert!(!error.to_string().is_empty(), "no message");
}
