//! What a model is once everything is known: layers over numbered values.

use std::sync::Arc;

use dala_spec::{Data, TensorType};

use crate::Op;

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

/// A tensor: an input, a constant or the output of a layer.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name in the file, or one made from it. Not unique for values that the file does not have.
    pub name: String,
    /// The element type and shape.
    pub ty: TensorType,
    /// The elements, if they do not depend on the inputs. As many as the shape has.
    pub constant: Option<Arc<Data>>,
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
    /// The number of the value it makes.
    pub output: usize,
}
