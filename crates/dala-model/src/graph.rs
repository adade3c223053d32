//! The graph of a file with its names resolved: nodes over numbered values, before shapes are known.

use std::collections::HashMap;
use std::sync::Arc;

use dala_spec::TensorType;

use crate::ModelError;
use crate::attribute::{Attribute, Tensor};
use crate::error::shown;
use crate::limits::MAX_RANK;
use crate::ops::Operator;

/// One use of an operator; inputs and outputs that are left out are `None`.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// How many steps of a walk it counts as: more if it has long lists.
    pub(crate) steps: usize,
    pub(crate) operator: &'static Operator,
    pub(crate) inputs: Vec<Option<usize>>,
    /// What the graphs inside it read from around them.
    pub(crate) captured: Vec<usize>,
    pub(crate) outputs: Vec<Option<usize>>,
    pub(crate) attributes: Vec<(String, Attribute)>,
    /// The graphs inside it, by the attributes' names.
    pub(crate) graphs: Vec<(String, Arc<Graph>)>,
}

/// The values and nodes of a file. Only nodes that an output needs are left, each after those it reads from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Which of the file's graphs: those inside of nodes have others.
    pub(crate) id: usize,
    pub(crate) opset: i64,
    /// The names of the values.
    pub(crate) names: Vec<String>,
    /// The values that are weights.
    pub(crate) constants: HashMap<usize, Tensor>,
    /// The elements of all tensors in the file, those in attributes as well.
    pub(crate) elements: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// Values of the graph around this one, and their numbers there.
    pub(crate) captures: HashMap<usize, usize>,
    /// What the file says about outputs, where it says all of it.
    pub(crate) declared: HashMap<usize, TensorType>,
}

impl Node {
    /// The values that it reads, or that graphs inside it do.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().flatten().chain(&self.captured).copied()
    }
}

impl Graph {
    /// Batch sizes above one that a file may need: small ones, for what takes the second of a batch and the like, and what divides
    /// a shape that is written down, in order.
    pub(crate) fn batches(&self) -> Vec<usize> {
        /// Each is tried, and a file may be hostile.
        const MOST: usize = 64;
        const SMALL: usize = 8;
        const LARGEST: usize = 4096;
        let shapes = self.nodes.iter().filter(|node| node.operator.name == "Reshape");
        let shapes = shapes.filter_map(|node| self.constants.get(&(*node.inputs.get(1)?)?));
        let size = |shape: &Tensor| {
            let sizes = shape.data.iter().map(|size| size.as_i64()).filter(|size| *size > 0);
            sizes.take(MAX_RANK).fold(1usize, |all, size| all.saturating_mul(size as usize))
        };
        let mut sizes: Vec<usize> = shapes.map(size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.truncate(MOST);
        let fits = |batch: &usize| *batch <= SMALL || sizes.iter().any(|size| size.is_multiple_of(*batch));
        (2..=LARGEST).filter(fits).take(MOST).collect()
    }

    /// Puts the nodes in an order in which they can run, and drops those that no output needs.
    pub(crate) fn sort(&mut self) -> Result<(), ModelError> {
        let mut makers: Vec<Option<usize>> = vec![None; self.names.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for &output in node.outputs.iter().flatten() {
                makers.get_mut(output).into_iter().for_each(|maker| *maker = Some(number));
            }
        }
        let maker = |value: usize| makers.get(value).copied().flatten();
        // Depth first from the outputs, with a stack of its own: a chain may be as long as the file allows. Then from
        // every other node, only to find circles.
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let reads: Vec<Vec<usize>> = self.nodes.iter().map(|node| node.reads().collect()).collect();
        let mut states = vec![State::New; self.nodes.len()];
        let mut order = Vec::new();
        let mut live = 0;
        let from_outputs = self.outputs.iter().filter_map(|&output| maker(output)).map(|node| (node, true));
        for (start, needed) in from_outputs.chain((0..self.nodes.len()).map(|node| (node, false))) {
            let mut stack = vec![(start, 0)];
            while let Some((number, next)) = stack.pop() {
                let (Some(state), Some(reads)) = (states.get_mut(number), reads.get(number)) else { continue };
                if *state == State::Done {
                    continue;
                }
                *state = State::Open;
                let rest = reads.get(next..).unwrap_or_default();
                let waiting = rest.iter().enumerate().find_map(|(step, value)| {
                    let before = maker(*value)?;
                    (states.get(before) != Some(&State::Done)).then_some((next + step + 1, before))
                });
                match waiting {
                    None => {
                        if let Some(state) = states.get_mut(number) {
                            *state = State::Done;
                        }
                        order.push(number);
                    }
                    Some((_, before)) if states.get(before) == Some(&State::Open) => {
                        let name = self.nodes.get(before).map(|node| shown(&node.name)).unwrap_or_default();
                        return Err(ModelError::Cyclic { node: name });
                    }
                    Some((next, before)) => {
                        stack.push((number, next));
                        stack.push((before, 0));
                    }
                }
            }
            if needed {
                live = order.len();
            }
        }
        order.truncate(live);
        // Any order that can run will do, and the file's own is the one its author knows.
        let read_by = |node: usize| self.nodes.get(node).into_iter().flat_map(Node::reads);
        let in_file_order = |nodes: &[usize]| {
            nodes.iter().all(|&node| read_by(node).all(|value| maker(value).is_none_or(|before| before < node)))
        };
        let mut in_order = order.clone();
        in_order.sort_unstable();
        if in_file_order(&in_order) {
            order = in_order;
        }
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = order.iter().filter_map(|&number| nodes.get_mut(number)?.take()).collect();
        Ok(())
    }
}
