//! From a graph to a network: walks the nodes once, with a batch size, and knows everything about each value after.

use std::collections::HashMap;
use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape, TensorType};

use crate::budget::Budget;
use crate::error::shown;
use crate::graph::{Graph, Node};
use crate::limits::MAX_ACTIVATIONS;
use crate::op::Compute;
use crate::ops::{Given, NodeCall, Outcome, tensor_type};
use crate::{Dim, Layer, ModelError, Network, Op, Port, Value, host};

/// The network for a batch size.
pub(crate) fn resolve(graph: &Graph, inputs: &[Port], batch: usize) -> Result<Network, ModelError> {
    let budget = Budget::new(graph.elements);
    let mut walk = Walk { graph, numbers: HashMap::new(), values: Vec::new(), layers: Vec::new(), budget };
    let mut network_inputs = Vec::new();
    for (port, &number) in inputs.iter().zip(&graph.inputs) {
        let dims = port.dims.iter().map(|dim| match dim {
            Dim::Known(size) => *size,
            Dim::Batch => batch,
        });
        let ty = tensor_type(port.dtype, dims.collect(), || format!("input `{}`", shown(&port.name)))?;
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
        if node.outputs.iter().all(Option::is_none) {
            return Ok(());
        }
        let outcome = (node.operator.infer)(&NodeCall {
            node: &node.name,
            operator: node.operator.name,
            attributes: &node.attributes,
            opset: self.graph.opset,
            inputs: &inputs,
            outputs: node.outputs.len(),
            values: &self.values,
            budget: &self.budget,
        })?;
        let names = &self.graph.names;
        let name = |place: usize| {
            let value = node.outputs.get(place).copied().flatten();
            value.and_then(|value| names.get(value)).cloned().unwrap_or_default()
        };
        let outputs = match outcome {
            Outcome::Given(given) => {
                let given = given.into_iter().enumerate().map(|(place, given)| (name(place), given));
                self.given(node, given.collect())?
            }
            Outcome::Layer { compute, inputs, types } => {
                let named = |(what, given)| (format!("{}.{what}", node.name), given);
                let names: Vec<String> = (0..types.len()).map(name).collect();
                let inputs = self.given(node, inputs.into_iter().map(named).collect())?;
                self.layer(node, compute, inputs, (names, types))
            }
        };
        let values = node.outputs.iter().zip(outputs);
        self.numbers.extend(values.filter_map(|(value, number)| Some(((*value)?, number))));
        Ok(())
    }

    /// The numbers of values that no layer makes.
    fn given(&mut self, node: &Node, given: Vec<(String, Given)>) -> Result<Vec<usize>, ModelError> {
        let mut numbers = Vec::with_capacity(given.len());
        for (name, given) in given {
            numbers.push(match given {
                Given::Value(number) => number,
                Given::Shared(ty, data) => self.push(Value { name, ty, constant: Some(data) }),
                Given::Constant(shape, data) => {
                    self.budget.need(data.len(), &node.name)?;
                    self.constant(name, shape, data)
                }
                Given::Filled(shape, scalar) => {
                    self.budget.need(shape.len(), &node.name)?;
                    let data = filled(scalar, shape.len());
                    self.constant(name, shape, data)
                }
            });
        }
        Ok(numbers)
    }

    fn constant(&mut self, name: String, shape: Shape, data: Data) -> usize {
        let ty = TensorType { dtype: data.dtype(), shape };
        self.push(Value { name, ty, constant: Some(Arc::new(data)) })
    }

    /// The outputs of a layer, computed now if they can be.
    fn layer(
        &mut self,
        node: &Node,
        compute: Arc<dyn Compute>,
        inputs: Vec<usize>,
        (names, types): (Vec<String>, Vec<TensorType>),
    ) -> Vec<usize> {
        let read: Vec<&Value> = inputs.iter().filter_map(|&number| self.values.get(number)).collect();
        if let Some(made) = host::evaluate(&*compute, &read, &types, &self.budget) {
            let made = names.into_iter().zip(types).zip(made);
            return made.map(|((name, ty), data)| self.constant(name, ty.shape, data)).collect();
        }
        let values = names.into_iter().zip(types).map(|(name, ty)| Value { name, ty, constant: None });
        let outputs: Vec<usize> = values.map(|value| self.push(value)).collect();
        let op = Op::new(node.operator.name, compute);
        self.layers.push(Layer { name: node.name.clone(), op, inputs, outputs: outputs.clone() });
        outputs
    }
}

fn filled(scalar: Scalar, len: usize) -> Data {
    Data::collect(scalar.dtype(), std::iter::repeat_n(scalar, len))
}

/// Drops layers and constants that no output needs, and numbers the values that are left.
fn tidy(network: &mut Network) {
    let mut used = vec![false; network.values.len()];
    for &number in network.inputs.iter().chain(&network.outputs) {
        used.get_mut(number).into_iter().for_each(|used| *used = true);
    }
    let mut layers: Vec<Layer> = Vec::with_capacity(network.layers.len());
    for layer in std::mem::take(&mut network.layers).into_iter().rev() {
        if layer.outputs.iter().any(|&output| used.get(output) == Some(&true)) {
            // What it makes for nobody is still made.
            for &value in layer.inputs.iter().chain(&layer.outputs) {
                used.get_mut(value).into_iter().for_each(|used| *used = true);
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
        layer.outputs.iter_mut().for_each(renumber);
    }
    network.inputs.iter_mut().for_each(renumber);
    network.outputs.iter_mut().for_each(renumber);
    let mut used = used.iter();
    network.values.retain(|_| used.next() == Some(&true));
    network.layers = layers;
}

fn check_size(network: &Network) -> Result<(), ModelError> {
    let outputs =
        network.layers.iter().flat_map(|layer| &layer.outputs).filter_map(|&output| network.values.get(output));
    let total = outputs.fold(0usize, |sum, value| sum.saturating_add(value.ty.shape.len()));
    if total <= MAX_ACTIVATIONS {
        return Ok(());
    }
    let what = "all layers' outputs together".to_owned();
    Err(ModelError::TooLarge { what, limit: format!("{MAX_ACTIVATIONS} elements") })
}
