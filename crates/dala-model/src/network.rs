//! What a model is once everything is known: layers over numbered values.

use crate::{Op, Value};

/// A model for one batch size: every shape known, constants computed, layers in an order in which they can run.
#[derive(Clone, Debug)]
pub struct Network {
    /// The values; everything else names them by their number.
    pub values: Vec<Value>,
    /// The layers. Each reads inputs, constants and outputs of layers before it.
    pub layers: Vec<Layer>,
    /// The inputs, as [`Model::inputs`](crate::Model::inputs) lists them, even those that no layer reads.
    pub inputs: Vec<usize>,
    /// The outputs, as [`Model::outputs`](crate::Model::outputs) lists them. One may be an input, a constant, or the
    /// same value as another one.
    pub outputs: Vec<usize>,
}

/// One computation.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The node's name, or one made of its operator and place such as `Conv_12`.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// The numbers of the values it reads.
    pub inputs: Vec<usize>,
    /// The numbers of the values it makes, at least one.
    pub outputs: Vec<usize>,
}
