//! From a graph to a network: walks the nodes once, with a batch size, and knows everything about each value after.

use std::collections::HashMap;
use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape, TensorType};

use crate::batch_norm::{self, Known};
use crate::error::shown;
use crate::graph::{Graph, Node, Operator};
use crate::infer::{Call, Input, Outcome, infer};
use crate::limits::{MAX_ACTIVATIONS, MAX_FOLDED, MIN_FOLDED};
use crate::{Dim, Layer, ModelError, Network, Op, Port, Value, fold, infer};

/// How much may still be computed on the host, in elements. In proportion to the file, so that a small one cannot ask
/// for much.
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    fn new(weights: usize) -> Budget {
        Budget { left: weights.saturating_mul(4).clamp(MIN_FOLDED, MAX_FOLDED) }
    }

    /// Takes `elements` if that many are left.
    pub(crate) fn take(&mut self, elements: usize) -> bool {
        let left = self.left.checked_sub(elements);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn need(&mut self, elements: usize, node: &Node) -> Result<(), ModelError> {
        if self.take(elements) {
            return Ok(());
        }
        let what = format!("what node `{}` makes, together with other constants,", shown(&node.name));
        Err(ModelError::TooLarge { what, limit: format!("the {} elements left for constants", self.left) })
    }
}

/// The network, with weights that are `known` used and new ones added to them.
pub(crate) fn resolve(graph: &Graph, inputs: &[Port], batch: usize, known: &mut Known) -> Result<Network, ModelError> {
    let budget = Budget::new(graph.elements);
    let mut walk = Walk { graph, numbers: HashMap::new(), values: Vec::new(), layers: Vec::new(), budget };
    let mut network_inputs = Vec::new();
    for (port, &number) in inputs.iter().zip(&graph.inputs) {
        let dims = port.dims.iter().map(|dim| match dim {
            Dim::Known(size) => *size,
            Dim::Batch => batch,
        });
        let ty = infer::tensor_type(port.dtype, dims.collect(), || format!("input `{}`", shown(&port.name)))?;
        let value = walk.push(Value { name: port.name.clone(), ty, constant: None });
        walk.numbers.insert(number, value);
        network_inputs.push(value);
    }
    for node in &graph.nodes {
        walk.visit(node)?;
    }
    let outputs = graph.outputs.iter().map(|&output| walk.number(output, "the graph's output"));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let mut network = Network { values: walk.values, layers: walk.layers, inputs: network_inputs, outputs };
    batch_norm::fold(&mut network, graph.elements, known);
    tidy(&mut network);
    check_size(&network)?;
    Ok(network)
}

struct Walk<'a> {
    graph: &'a Graph,
    /// Values of the graph to values of the network.
    numbers: HashMap<usize, usize>,
    values: Vec<Value>,
    layers: Vec<Layer>,
    budget: Budget,
}

impl Walk<'_> {
    fn push(&mut self, value: Value) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// The network's number of a value of the graph; weights get one when they are first read.
    fn number(&mut self, value: usize, reader: &str) -> Result<usize, ModelError> {
        if let Some(&number) = self.numbers.get(&value) {
            return Ok(number);
        }
        let name = self.graph.names.get(value).cloned().unwrap_or_default();
        let Some(tensor) = self.graph.constants.get(&value) else {
            return Err(ModelError::UndefinedValue { node: shown(reader), value: shown(&name) });
        };
        let number = self.push(Value { name, ty: tensor.ty.clone(), constant: Some(tensor.data.clone()) });
        self.numbers.insert(value, number);
        Ok(number)
    }

    fn visit(&mut self, node: &Node) -> Result<(), ModelError> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(match input {
                Some(value) => Some(self.number(*value, &node.name)?),
                None => None,
            });
        }
        let Some(output) = node.output else { return Ok(()) };
        // Constant indices are looked at one by one.
        if let (Operator::Gather, Some(Some(indices))) = (node.operator, inputs.get(1))
            && let Some(data) = self.values.get(*indices).and_then(|value| value.constant.as_ref())
        {
            self.budget.need(data.len(), node)?;
        }
        let outcome = infer(&Call { node, opset: self.graph.opset, inputs: &inputs, values: &self.values })?;
        let name = self.graph.names.get(output).cloned().unwrap_or_default();
        let number = match outcome {
            Outcome::Same(number) => number,
            Outcome::Shared(ty, data) => self.push(Value { name, ty, constant: Some(data) }),
            Outcome::Constant(shape, data) => {
                self.budget.need(data.len(), node)?;
                self.constant(name, shape, data)
            }
            Outcome::Filled(shape, scalar) => {
                self.budget.need(shape.len(), node)?;
                let data = filled(scalar, shape.len());
                self.constant(name, shape, data)
            }
            Outcome::Layer { op, inputs, ty } => self.layer(node, name, op, inputs, ty)?,
        };
        self.numbers.insert(output, number);
        Ok(())
    }

    fn constant(&mut self, name: String, shape: Shape, data: Data) -> usize {
        let ty = TensorType { dtype: data.dtype(), shape };
        self.push(Value { name, ty, constant: Some(Arc::new(data)) })
    }

    /// A layer, or its result if that can be computed now.
    fn layer(
        &mut self,
        node: &Node,
        name: String,
        op: Op,
        inputs: Vec<Input>,
        ty: TensorType,
    ) -> Result<usize, ModelError> {
        let mut numbers = Vec::with_capacity(inputs.len());
        for input in inputs {
            numbers.push(match input {
                Input::Value(number) => number,
                Input::Zeros(what, ty) => {
                    self.budget.need(ty.shape.len(), node)?;
                    let data = filled(Scalar::from_i64(ty.dtype, 0), ty.shape.len());
                    self.constant(format!("{}.{what}", node.name), ty.shape, data)
                }
                Input::Made(what, shape, data) => {
                    self.budget.need(data.len(), node)?;
                    self.constant(format!("{}.{what}", node.name), shape, data)
                }
            });
        }
        let read = numbers.iter().filter_map(|&number| self.values.get(number));
        let constants: Option<Vec<(&Shape, &Arc<Data>)>> =
            read.map(|value| Some((&value.ty.shape, value.constant.as_ref()?))).collect();
        if let Some(constants) = constants {
            if let (Op::Reshape, [(_, data)]) = (&op, constants.as_slice()) {
                let data = Arc::clone(data);
                return Ok(self.push(Value { name, ty, constant: Some(data) }));
            }
            if self.budget.take(fold::cost(&op, &constants, &ty))
                && let Some(data) = fold::evaluate(&op, &constants, &ty, node)?
            {
                return Ok(self.constant(name, ty.shape, data));
            }
        }
        let output = self.push(Value { name, ty, constant: None });
        self.layers.push(Layer { name: node.name.clone(), op, inputs: numbers, output });
        Ok(output)
    }
}

fn filled(scalar: Scalar, len: usize) -> Data {
    match scalar {
        Scalar::F32(value) => Data::F32(vec![value; len]),
        Scalar::F64(value) => Data::F64(vec![value; len]),
        Scalar::S32(value) => Data::S32(vec![value; len]),
        Scalar::S64(value) => Data::S64(vec![value; len]),
        Scalar::U32(value) => Data::U32(vec![value; len]),
        Scalar::U8(value) => Data::U8(vec![value; len]),
    }
}

/// Drops layers and constants that no output needs, and numbers the values that are left.
fn tidy(network: &mut Network) {
    let mut used = vec![false; network.values.len()];
    for &number in network.inputs.iter().chain(&network.outputs) {
        used.get_mut(number).into_iter().for_each(|used| *used = true);
    }
    let mut layers: Vec<Layer> = Vec::with_capacity(network.layers.len());
    for layer in std::mem::take(&mut network.layers).into_iter().rev() {
        if used.get(layer.output) == Some(&true) {
            for &input in &layer.inputs {
                used.get_mut(input).into_iter().for_each(|used| *used = true);
            }
            layers.push(layer);
        }
    }
    layers.reverse();

    let mut numbers = Vec::with_capacity(used.len());
    let mut count = 0;
    for &used in &used {
        numbers.push(count);
        count += usize::from(used);
    }
    let renumber = |number: &mut usize| *number = numbers.get(*number).copied().unwrap_or(*number);
    for layer in &mut layers {
        layer.inputs.iter_mut().for_each(renumber);
        renumber(&mut layer.output);
    }
    network.inputs.iter_mut().for_each(renumber);
    network.outputs.iter_mut().for_each(renumber);
    let mut used = used.iter();
    network.values.retain(|_| used.next() == Some(&true));
    network.layers = layers;
}

fn check_size(network: &Network) -> Result<(), ModelError> {
    let outputs = network.layers.iter().filter_map(|layer| network.values.get(layer.output));
    let total = outputs.fold(0usize, |sum, value| sum.saturating_add(value.ty.shape.len()));
    if total <= MAX_ACTIVATIONS {
        return Ok(());
    }
    let what = "all layers' outputs together".to_owned();
    Err(ModelError::TooLarge { what, limit: format!("{MAX_ACTIVATIONS} elements") })
}
