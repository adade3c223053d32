//! Model files: where they are, what is wrong with them, and their plans.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use dala_compute::{Buffer, Device, Pipeline, Plan, Stage};
use dala_model::{LoadError, LoadModel, Model, ModelError, Port, UnsupportedOperator};
use dala_recipes::RecipeError;

/// What a model is called on a device.
pub(crate) const KERNEL: &str = "model";

/// A file that `scripts/get-models` made, in the folder where it puts them.
pub(crate) fn installed(name: &str) -> Result<PathBuf> {
    let folder = match env::var_os("DALA_MODELS").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir().context("there is no home folder")?.join(".cache/dala-compute/models"),
    };
    let file = folder.join(name);
    if !file.is_file() {
        bail!("{} is missing: run scripts/get-models", file.display());
    }
    Ok(file)
}

/// Reads a model; whatever is wrong is said with the name of the file.
pub(crate) fn open(file: &Path) -> Result<Model> {
    Model::open(file).map_err(|error| explained(file, error))
}

/// Why a recipe could not be opened, with the name of its model's file.
pub(crate) fn not_opened(file: &Path, error: RecipeError) -> Error {
    match error {
        RecipeError::Model(LoadError::Model(error)) => explained(file, error),
        other => other.into(),
    }
}

fn explained(file: &Path, error: ModelError) -> Error {
    let name = file.display();
    match error {
        ModelError::Io { source, .. } => Error::new(source).context(format!("cannot read {name}")),
        ModelError::Unsupported { operators } => anyhow!("{name}: {}", unsupported(&operators)),
        other => Error::new(other).context(name.to_string()),
    }
}

/// The same model with sizes given as `name=number`.
pub(crate) fn sized(model: Model, sizes: &[(String, usize)]) -> Result<Model, ModelError> {
    match sizes.is_empty() {
        true => Ok(model),
        false => model.with_sizes(&sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect::<Vec<_>>()),
    }
}

/// All that is not supported: a line for each operator and reason, with its nodes.
fn unsupported(operators: &[UnsupportedOperator]) -> String {
    let mut kinds: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for UnsupportedOperator { node, operator, why } in operators {
        let node = format!("`{node}`");
        match kinds.iter_mut().find(|kind| kind.0 == operator && kind.1 == why) {
            Some(kind) => kind.2.push(node),
            None => kinds.push((operator, why, vec![node])),
        }
    }
    let line =
        |(operator, why, nodes): &(&str, &str, Vec<String>)| format!("\n  {operator} ({why}): {}", nodes.join(", "));
    let lines: String = kinds.iter().map(line).collect();
    format!("the model has operators that are not supported:{lines}")
}

/// A plan of nothing but a model, and its buffers. Nothing was written to them.
pub(crate) struct Alone {
    pub(crate) plan: Plan,
    pub(crate) inputs: Vec<Buffer>,
}

impl Alone {
    /// Adds the model to the device and compiles it for a batch.
    pub(crate) fn new(device: &Device, kernel: &str, model: &Model, batch: usize) -> Result<Alone> {
        device.add_model(kernel, model)?;
        Alone::of_kernel(device, kernel, model, batch)
    }

    /// The same for a model that the device has.
    pub(crate) fn of_kernel(device: &Device, kernel: &str, model: &Model, batch: usize) -> Result<Alone> {
        let buffer = |port: &Port| {
            let open = || anyhow!("{} has open sizes {}: give them by --size", port.name, port.shape_in_words());
            Ok(Buffer::reserve(device, port.dtype, port.shape(batch).ok_or_else(open)?)?)
        };
        let inputs: Vec<Buffer> = model.inputs().iter().map(buffer).collect::<Result<_>>()?;
        let outputs: Vec<Buffer> = model.outputs().iter().map(buffer).collect::<Result<_>>()?;
        let stage = Stage::run_kernel(kernel, &inputs, outputs.iter().collect::<Vec<_>>(), ());
        let mut pipeline = Pipeline::new().stage(stage);
        let ports = model.inputs().iter().zip(&inputs).chain(model.outputs().iter().zip(&outputs));
        for (port, buffer) in ports {
            pipeline = pipeline.named(buffer, &port.name);
        }
        Ok(Alone { plan: device.compile(&pipeline)?, inputs })
    }
}

/// An input or output in words: `f32 {batch, 3, 224, 224}`.
pub(crate) fn described(port: &Port) -> String {
    format!("{} {}", port.dtype, port.shape_in_words())
}

#[cfg(test)]
mod tests {
    use dala_compute::{DType, Shape};
    use dala_model::Dim;

    use super::*;

    #[test]
    fn every_node_that_is_not_supported_is_named() {
        let node = |node: &str, operator: &str, why: &str| UnsupportedOperator {
            node: node.to_owned(),
            operator: operator.to_owned(),
            why: why.to_owned(),
        };
        let nodes = [node("a", "Loop", "unknown"), node("b", "If", "unknown"), node("c", "Loop", "unknown")];
        assert_eq!(
            unsupported(&nodes),
            "the model has operators that are not supported:\n  Loop (unknown): `a`, `c`\n  If (unknown): `b`"
        );
    }

    #[test]
    fn ports_have_the_batch_in_words_and_in_shapes() {
        let port =
            Port { name: "x".to_owned(), dtype: DType::F32, is_bool: false, dims: vec![Dim::Batch, Dim::Known(3)] };
        assert_eq!(described(&port), "f32 {batch, 3}");
        assert_eq!(port.shape(8), Some(Shape::from([8, 3])));
    }
}
