//! The cases of operators that `scripts/operator-cases` writes.

use dala_model::proto::{ModelProto, TensorProto};
use prost::Message;

/// What the file holds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Cases {
    #[prost(message, repeated, tag = "1")]
    pub(crate) cases: Vec<Case>,
}

/// A model of one operator, or of one and what it needs around it, with what must come out for what goes in.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Case {
    /// The operator, with its domain if it has one, and after a `/` what sets the case apart.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) model: Option<ModelProto>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) inputs: Vec<TensorProto>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) outputs: Vec<TensorProto>,
    /// For each output, how far away each of its elements may be.
    #[prost(double, repeated, tag = "5")]
    pub(crate) tolerance: Vec<f64>,
}

impl Cases {
    /// Those of the tests' data, or of the file that `DALA_OPERATOR_FILE` names.
    pub(crate) fn open() -> Cases {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/operators.cases");
        let path = std::env::var("DALA_OPERATOR_FILE").unwrap_or_else(|_| own.to_owned());
        Cases::decode(std::fs::read(path).unwrap().as_slice()).unwrap()
    }
}

impl Case {
    /// The operator that it is about.
    pub(crate) fn operator(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}
