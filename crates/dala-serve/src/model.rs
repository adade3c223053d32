//! What is served: models with their inputs and outputs, and pipelines for pictures.

use std::sync::Arc;

use crate::{Datatype, Tensor};

/// What clients may know of one version of a model, and what their requests are checked against.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// By which it is asked for.
    pub name: Arc<str>,
    /// Of which these are the inputs and outputs.
    pub version: Arc<str>,
    /// All versions of this name that can be asked for, oldest first.
    pub versions: Vec<Arc<str>>,
    /// What kind of file it is from, as `dala_onnx`.
    pub platform: Arc<str>,
    /// What a request must bring, in the order in which the back wants it.
    pub inputs: Vec<Port>,
    /// What an answer may hold.
    pub outputs: Vec<Port>,
    /// If the first axis of every input and output counts items that may share a run with those of others: how many at most.
    pub max_batch: Option<usize>,
}

impl ModelInfo {
    /// How many items these inputs bring: the length of the first axis where that counts items, otherwise one.
    pub fn items(&self, inputs: &[Tensor]) -> usize {
        match (self.max_batch, inputs.first()) {
            (Some(_), Some(first)) => first.shape.first().copied().unwrap_or(1),
            _ => 1,
        }
    }
}

/// An input or an output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// By which requests and answers name it.
    pub name: Arc<str>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its size along each axis, the one that counts items included; `None` where any will do.
    pub shape: Vec<Option<usize>>,
    /// Whether a request may leave it out.
    pub optional: bool,
}

impl Port {
    /// Whether a tensor of this shape fits.
    pub fn accepts(&self, shape: &[usize]) -> bool {
        self.shape.len() == shape.len()
            && self.shape.iter().zip(shape).all(|(wanted, &size)| wanted.is_none_or(|wanted| wanted == size))
    }
}

/// One thing that is served, or that could be.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// By which it is asked for.
    pub name: Arc<str>,
    /// Empty while no version is loaded.
    pub version: Arc<str>,
    /// What it takes.
    pub kind: Kind,
    /// Whether it can be asked.
    pub state: State,
    /// Why it is in this state, or nothing.
    pub reason: String,
}

/// What something that is served takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tensors.
    Model,
    /// A picture, and gives one.
    Pipeline,
}

/// Whether something can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not loaded, or not fit to be.
    Unavailable,
    /// Not yet.
    Loading,
    /// Yes.
    Ready,
    /// Not any more; what was taken in is still answered.
    Unloading,
}

impl State {
    /// As the repository extension spells it.
    pub fn name(self) -> &'static str {
        match self {
            State::Unavailable => "UNAVAILABLE",
            State::Loading => "LOADING",
            State::Ready => "READY",
            State::Unloading => "UNLOADING",
        }
    }
}
