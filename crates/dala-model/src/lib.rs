//! Trained networks as kernels: read from ONNX files, checked, and lowered to calls of kernels.
//!
//! [`LoadModel::load_model`] adds a model to a device; it is then used by name like any other kernel. [`Model::read`] checks a
//! file and lists everything in it that is not supported; [`Model::resolve`] gives, for a batch size, a [`Network`] whose
//! layers can be carried out one after the other. Files are not trusted: whatever is in one, reading it ends with a model or
//! a [`ModelError`], and takes memory in proportion to the file.
//!
//! The main types:
//!
//! - [`Model`]: a file that was read, with open batch size; [`Port`] and [`Dim`] say what goes in and comes out
//! - [`Network`], [`Layer`], [`Value`]: the model for one batch size
//! - [`Op`]: what a layer computes
//! - [`ModelError`], [`LoadError`]: why a file was refused

mod attribute;
mod budget;
mod error;
mod external;
mod functions;
mod graph;
mod host;
mod kernel;
mod labels;
pub mod limits;
mod lower;
mod model;
mod network;
mod op;
mod ops;
mod port;
pub mod proto;
mod read;
mod resolve;
mod scan;
mod session;
mod value;

#[cfg(test)]
extern crate self as dala_model;
#[cfg(test)]
#[path = "../tests/builder/mod.rs"]
mod builder;
#[cfg(test)]
#[path = "../tests/support/cases.rs"]
mod cases;

pub use error::{ModelError, UnsupportedOperator};
pub use kernel::{LoadError, LoadModel};
pub use labels::imagenet_classes;
pub use model::Model;
pub use network::{Layer, Network};
pub use op::Op;
pub use port::{Dim, Port};
pub use session::Session;
pub use value::Value;
