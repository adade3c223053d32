//! A file that was read.

use std::path::Path;

use bytes::Bytes;
use dala_spec::DType;

use crate::graph::Graph;
use crate::limits::MAX_FILE_BYTES;
use crate::{ModelError, Network, read, resolve};

/// A model from a file: checked, and with its batch size open if the file leaves it open.
#[derive(Clone, Debug)]
pub struct Model {
    graph: Graph,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    operators: Vec<(String, usize)>,
    parameters: usize,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name in the file.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub dims: Vec<Dim>,
}

/// A dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always this many.
    Known(usize),
    /// As many as the batch that the model is resolved for.
    Batch,
}

impl Model {
    /// Reads a model from the bytes of an ONNX file and checks all of it, once, with a batch of one.
    ///
    /// # Errors
    /// A [`ModelError`] for anything that is not a supported model; nodes that are not supported are listed all at once.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Model, ModelError> {
        let read::File { graph, inputs, outputs, operators, parameters } = read::read(bytes.into())?;
        let mut model = Model { graph, inputs, outputs: Vec::new(), operators, parameters };
        let network = model.resolve(model.fixed_batch().unwrap_or(1))?;
        let open = model.fixed_batch().is_none();
        model.outputs = outputs
            .into_iter()
            .zip(network.outputs.iter().filter_map(|&number| network.values.get(number)))
            .map(|((name, fixed), value)| {
                let mut dims: Vec<Dim> = value.ty.shape.dims().iter().map(|&dim| Dim::Known(dim)).collect();
                // The network has a batch of one. What the file says about outputs is a remark, so it decides only this.
                if let Some(first) = dims.first_mut().filter(|first| open && !fixed && **first == Dim::Known(1)) {
                    *first = Dim::Batch;
                }
                Port { name, dtype: value.ty.dtype, dims }
            })
            .collect();
        Ok(model)
    }

    /// Reads the ONNX file at `path`.
    ///
    /// # Errors
    /// [`ModelError::Io`] if the file cannot be read, and everything that [`Model::read`] gives.
    pub fn open(path: &Path) -> Result<Model, ModelError> {
        let failed = |source| ModelError::Io { path: path.display().to_string(), source };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > MAX_FILE_BYTES {
            return Err(ModelError::TooLarge { what: "the file".to_owned(), limit: format!("{MAX_FILE_BYTES} bytes") });
        }
        Model::read(std::fs::read(path).map_err(failed)?)
    }

    /// The inputs, in the order of the file; weights are not among them.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The operators of the file's nodes and how often each is used, the most frequent first.
    pub fn operators(&self) -> Vec<(String, usize)> {
        self.operators.clone()
    }

    /// The number of weights: the elements of all tensors of floats in the file.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The only batch size that the model takes, or `None` if it takes any.
    pub fn fixed_batch(&self) -> Option<usize> {
        if self.inputs.iter().any(|input| input.dims.first() == Some(&Dim::Batch)) {
            return None;
        }
        let first = self.inputs.iter().find_map(|input| input.dims.first());
        Some(match first {
            Some(Dim::Known(size)) => *size,
            _ => 1,
        })
    }

    /// The model for this batch size, with every shape known and every constant computed.
    ///
    /// # Errors
    /// [`ModelError::Batch`] for a size that the model does not take, and whatever is wrong with the shapes.
    pub fn resolve(&self, batch: usize) -> Result<Network, ModelError> {
        let allowed = match self.fixed_batch() {
            Some(fixed) if fixed != batch => fixed.to_string(),
            _ if batch == 0 => "at least 1".to_owned(),
            _ => return resolve::resolve(&self.graph, &self.inputs, batch),
        };
        Err(ModelError::Batch { asked: batch, allowed })
    }
}
