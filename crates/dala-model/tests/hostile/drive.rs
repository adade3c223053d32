//! A file is driven as far as its users drive it.

use dala_kernels::{Registry, compile};
use dala_model::{Dim, Model, ModelError, Port};
use dala_plan::{CellSpec, DeviceFacts, PipelineSpec, StageSpec};
use dala_spec::{Params, TensorType};

/// How far a file came, and what it came to.
pub(crate) enum Step<'s> {
    /// It came past a stage.
    Past(&'static str),
    /// It was refused: the code and the message.
    Refused(&'s str, String),
    /// A number by which outcomes differ.
    Count(usize),
}

/// Whether messages are short enough for any log.
fn refused(code: &str, message: String, note: &mut dyn FnMut(Step<'_>)) {
    assert!(
        message.len() < 4000,
        "a message of {} bytes: {}",
        message.len(),
        &message.chars().take(200).collect::<String>()
    );
    note(Step::Refused(code, message));
}

/// The types of inputs with sizes for what is open.
pub(crate) fn types(ports: &[Port], batch: usize, open: usize) -> Vec<TensorType> {
    let size = |dim: &Dim| dim.size(batch).unwrap_or(open);
    let ty = |port: &Port| TensorType::new(port.dtype, port.dims.iter().map(size).collect::<Vec<usize>>());
    ports.iter().map(ty).collect()
}

/// Asks what a model is, resolves it for sizes, makes it a kernel and plans that.
pub(crate) fn drive(
    model: Result<Model, ModelError>,
    registry: &Registry,
    devices: &[DeviceFacts],
    note: &mut dyn FnMut(Step<'_>),
) -> Option<Model> {
    let model = match model {
        Ok(model) => model,
        Err(error) => {
            refused(error.code(), error.to_string(), note);
            return None;
        }
    };
    note(Step::Past("read"));
    let smallest = model.smallest_batch();
    for batch in [smallest, smallest.saturating_mul(3), 7] {
        match model.resolve(batch) {
            Ok(network) => {
                note(Step::Past("resolved"));
                note(Step::Count(network.layers.len().min(64)));
                assert!(network.outputs.iter().all(|output| *output < network.values.len()), "an output is missing");
            }
            Err(error) => refused(error.code(), error.to_string(), note),
        }
    }
    let open: Vec<String> = model.open_sizes().into_iter().take(8).map(str::to_owned).collect();
    if !open.is_empty() {
        for size in [8, 0, 1 << 40] {
            let sizes: Vec<(&str, usize)> = open.iter().map(|name| (name.as_str(), size)).collect();
            match model.with_sizes(&sizes) {
                Ok(sized) => note(Step::Count(sized.outputs().len())),
                Err(error) => refused(error.code(), error.to_string(), note),
            }
        }
        if let Err(error) = model.with_sizes(&[("no such size", 3)]) {
            refused(error.code(), error.to_string(), note);
        }
    }
    let kernel = match model.kernel("net") {
        Ok(kernel) => kernel,
        Err(error) => {
            refused(error.code(), error.to_string(), note);
            return Some(model);
        }
    };
    note(Step::Past("made a kernel"));
    let inputs = types(model.inputs(), smallest, 8);
    let outputs = match model.resolve_for(&inputs) {
        Ok(network) => network.outputs.iter().map(|output| network.values[*output].ty.clone()).collect(),
        Err(_) => types(model.outputs(), smallest, 8),
    };
    let cells = inputs.iter().chain(&outputs).enumerate();
    let cells: Vec<CellSpec> = cells.map(|(place, ty)| CellSpec::external(format!("c{place}"), ty.clone())).collect();
    let (inputs, outputs) = ((0..inputs.len()).collect(), (inputs.len()..cells.len()).collect());
    let stage = StageSpec::Run { kernel: "net".to_owned(), inputs, outputs, params: Params::new() };
    let spec = PipelineSpec { cells, stages: vec![stage] };
    let mut registry = registry.clone();
    if let Err(error) = registry.add(kernel) {
        refused(error.code(), error.to_string(), note);
        return Some(model);
    }
    for facts in devices {
        match compile(&spec, &registry, facts, true) {
            Ok(blueprint) => {
                note(Step::Past("planned"));
                note(Step::Count(blueprint.steps.len().min(64)));
                assert!(!blueprint.explain().is_empty(), "no text");
            }
            Err(problems) => problems.iter().for_each(|problem| {
                assert_ne!(problem.error.code(), "internal", "a fault of ours: {}", problem.error);
                note(Step::Refused(problem.error.code(), String::new()));
            }),
        }
    }
    Some(model)
}
