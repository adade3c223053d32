//! What an operator is made of, and what becomes of its nodes.

use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape, TensorType};

use super::call::NodeCall;
use super::declared::Declared;
use crate::ModelError;
use crate::op::Compute;

/// An operator of ONNX, whole: what of it is accepted, what it gives, and how that is computed.
///
/// A file is read in three steps, and an operator has a part in each:
///
/// 1. **What the node alone tells.** [`Operator::inputs`], [`Operator::outputs`] and [`Operator::refuses`] say what is not
///    supported before anything else is looked at, so that all such nodes are listed at once. The version of the operator set is
///    part of the question.
/// 2. **What becomes of the node.** `infer` sees attributes, the types of the inputs and the elements of those that are constants,
///    and answers with an [`Outcome`]: values that are there already, constants, or a layer with the type of each of its outputs. It
///    runs for each binding of the sizes that a file leaves open, and so always sees numbers. A branch that a constant decides, or
///    a body that is repeated, is another kind of outcome: a graph in place of the node.
/// 3. **How a layer is computed.** The layer holds what `infer` gave it, a [`Compute`]: it comes down to calls of kernels, one or
///    several for each output. The same calls, through the kernels' references, give the layer's result on the host where all inputs
///    are constants; shapes that follow from other shapes need nothing else.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    /// The row of the documents' table that it belongs to.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes the table"))]
    pub(crate) kind: Kind,
    /// The fewest and the most inputs, over all versions.
    pub(crate) inputs: (usize, usize),
    /// How many of its outputs may be used.
    pub(crate) outputs: usize,
    /// Why a node cannot be read, as far as it alone tells.
    pub(crate) refuses: fn(&Declared<'_>) -> Option<String>,
    /// What becomes of a node.
    pub(crate) infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>,
    /// How it is walked instead, where it is about nodes or lists and computes nothing itself.
    pub(crate) control: Option<Control>,
}

/// Operators that decide which nodes run, hold several tensors as one value, or stand for several others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    If,
    Loop,
    Scan,
    /// A list of its inputs; without any, an empty one.
    List,
    /// A list with one more, at the end or at a place.
    Insert,
    /// A list without one.
    Erase,
    /// One of a list.
    At,
    /// How many a list has.
    Length,
    /// All of a list, joined along an axis.
    Join,
    /// A tensor cut into a list.
    Cut,
    /// A recurrence whose weights are bytes.
    QuantizedLstm,
}

impl Operator {
    /// An operator of one input and one output, with nothing that is refused.
    pub(super) const fn new(
        name: &'static str,
        kind: Kind,
        infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>,
    ) -> Operator {
        Operator { name, kind, inputs: (1, 1), outputs: 1, refuses: |_| None, infer, control: None }
    }

    /// An operator that is walked.
    pub(super) const fn control(name: &'static str, control: Control) -> Operator {
        fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
            Err(call.unsupported("decides which nodes run, which only a walk over them can do"))
        }
        Operator { control: Some(control), ..Operator::new(name, Kind::Others, infer) }
    }

    pub(super) const fn inputs(self, fewest: usize, most: usize) -> Operator {
        Operator { inputs: (fewest, most), ..self }
    }

    pub(super) const fn outputs(self, outputs: usize) -> Operator {
        Operator { outputs, ..self }
    }

    pub(super) const fn refuses(self, refuses: fn(&Declared<'_>) -> Option<String>) -> Operator {
        Operator { refuses, ..self }
    }
}

/// The rows of the documents' table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Windows,
    Matrices,
    Elements,
    Axes,
    Layout,
    Others,
}

/// What becomes of a node.
pub(crate) enum Outcome {
    /// Nothing to compute: what each output is.
    Given(Vec<Given>),
    /// A layer with these inputs, which makes an output of each type. The inputs are called what they are to the operator.
    Layer { compute: Arc<dyn Compute>, inputs: Vec<(&'static str, Given)>, types: Vec<TensorType> },
}

impl Outcome {
    /// The output is a value that is there.
    pub(super) fn same(number: usize) -> Outcome {
        Outcome::Given(vec![Given::Value(number)])
    }

    /// The output is a constant that is made here.
    pub(super) fn constant(shape: Shape, data: Data) -> Outcome {
        Outcome::Given(vec![Given::Constant(shape, data)])
    }

    /// A layer of one output whose inputs are all there.
    pub(super) fn layer(compute: impl Compute, inputs: impl IntoIterator<Item = usize>, ty: TensorType) -> Outcome {
        Outcome::layer_of(compute, inputs.into_iter().map(|number| ("", Given::Value(number))), ty)
    }

    /// A layer of one output.
    pub(super) fn layer_of(
        compute: impl Compute,
        inputs: impl IntoIterator<Item = (&'static str, Given)>,
        ty: TensorType,
    ) -> Outcome {
        Outcome::Layer { compute: Arc::new(compute), inputs: inputs.into_iter().collect(), types: vec![ty] }
    }
}

/// A value that no layer makes.
pub(crate) enum Given {
    /// One that is there.
    Value(usize),
    /// A constant of the file, or part of one.
    Shared(TensorType, Arc<Data>),
    /// A new constant.
    Constant(Shape, Data),
    /// A new constant with all elements alike.
    Filled(Shape, Scalar),
}
