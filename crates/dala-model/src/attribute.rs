//! What the attributes of nodes hold.

use std::sync::Arc;

use dala_spec::{Data, TensorType};

/// Elements and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) ty: TensorType,
    pub(crate) data: Arc<Data>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Int(i64),
    Float(f32),
    Text(String),
    Tensor(Tensor),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    /// Something else, and what it is.
    Other(&'static str),
}

impl Attribute {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Attribute::Int(_) => "an integer",
            Attribute::Float(_) => "a float",
            Attribute::Text(_) => "a text",
            Attribute::Tensor(_) => "a tensor",
            Attribute::Ints(_) => "a list of integers",
            Attribute::Floats(_) => "a list of floats",
            Attribute::Texts(_) => "a list of texts",
            Attribute::Other(what) => what,
        }
    }
}
