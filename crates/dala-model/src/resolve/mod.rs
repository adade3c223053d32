//! From a graph to a network: walks the nodes once, with the sizes of the inputs, and knows everything about each value after.

mod control;
mod walk;

use std::sync::Arc;

use dala_spec::{DType, Data, TensorType};

use crate::budget::Budget;
use crate::graph::Graph;
use crate::limits::MAX_ACTIVATIONS;
use crate::{Layer, ModelError, Network, Port, Value};
pub(crate) use walk::Walk;

/// Who knows the elements of a value that layers make: whoever runs them. Shapes may depend on them.
pub(crate) trait Ask {
    /// The elements of a value of the walk, which a node cannot do without; `why` is what to say if nobody knows.
    fn elements(&mut self, walk: &Walk<'_>, number: usize, why: ModelError) -> Result<Arc<Data>, ModelError>;

    /// Whether layers can compute on elements of a type.
    fn computes(&self, _: DType) -> bool {
        true
    }
}

/// Nobody runs the layers yet.
pub(crate) struct Unknown;

impl Ask for Unknown {
    fn elements(&mut self, _: &Walk<'_>, _: usize, why: ModelError) -> Result<Arc<Data>, ModelError> {
        Err(why)
    }
}

/// The network for inputs of these types.
pub(crate) fn resolve(graph: &Graph, ports: &[Port], types: &[TensorType]) -> Result<Network, ModelError> {
    resolve_within(graph, ports, types, &Budget::new(graph.elements))
}

/// The same with what is left of a budget.
pub(crate) fn resolve_within(
    graph: &Graph,
    ports: &[Port],
    types: &[TensorType],
    budget: &Budget,
) -> Result<Network, ModelError> {
    let mut network = walked_within(graph, ports, types, &mut Unknown, budget)?;
    tidy(&mut network);
    check_size(&network)?;
    Ok(network)
}

/// Everything that a walk over all nodes finds, with what nobody needs.
pub(crate) fn walked(
    graph: &Graph,
    ports: &[Port],
    types: &[TensorType],
    ask: &mut dyn Ask,
) -> Result<Network, ModelError> {
    walked_within(graph, ports, types, ask, &Budget::new(graph.elements))
}

fn walked_within(
    graph: &Graph,
    ports: &[Port],
    types: &[TensorType],
    ask: &mut dyn Ask,
    budget: &Budget,
) -> Result<Network, ModelError> {
    let mut walk = Walk::new(budget, ask);
    walk.whole(graph, ports, types)?;
    Ok(Network { values: walk.values, layers: walk.layers, inputs: walk.inputs, outputs: walk.outputs })
}

/// A network of some layers of a walk, with the values that they read and make.
pub(crate) fn part_of(values: &[Value], layers: &[Layer], inputs: &[usize], outputs: &[usize]) -> Network {
    let ends = inputs.iter().chain(outputs);
    let mut used: Vec<usize> =
        layers.iter().flat_map(|layer| layer.inputs.iter().chain(&layer.outputs)).chain(ends).copied().collect();
    used.sort_unstable();
    used.dedup();
    used.retain(|number| *number < values.len());
    let place = |numbers: &[usize]| numbers.iter().filter_map(|number| used.binary_search(number).ok()).collect();
    let mut layers = layers.to_vec();
    for layer in &mut layers {
        (layer.inputs, layer.outputs) = (place(&layer.inputs), place(&layer.outputs));
    }
    let values = used.iter().filter_map(|number| values.get(*number)).cloned().collect();
    let mut network = Network { values, layers, inputs: place(inputs), outputs: place(outputs) };
    tidy(&mut network);
    network
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

pub(crate) fn check_size(network: &Network) -> Result<(), ModelError> {
    let outputs =
        network.layers.iter().flat_map(|layer| &layer.outputs).filter_map(|&output| network.values.get(output));
    let total = outputs.fold(0u64, |sum, value| sum.saturating_add(value.ty.shape.len() as u64));
    if total <= MAX_ACTIVATIONS {
        return Ok(());
    }
    let what = "all layers' outputs together".to_owned();
    Err(ModelError::TooLarge { what, limit: format!("{MAX_ACTIVATIONS} elements") })
}
