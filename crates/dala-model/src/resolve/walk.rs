//! The walk over the nodes of a graph.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape, TensorType};

use super::Ask;
use crate::attribute::Attribute;
use crate::budget::Budget;
use crate::error::shown;
use crate::graph::{Graph, Node};
use crate::limits::MAX_LAYERS;
use crate::op::Compute;
use crate::ops::{Given, NodeCall, Operator, Outcome, tensor_type};
use crate::{Layer, ModelError, Op, Port, Value, host};

/// What a value of a graph is in the network: one value, or a list of them.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Tensor(usize),
    List(Arc<Vec<usize>>),
}

/// A graph that is being walked; graphs inside of nodes lie on those around them.
pub(super) struct Frame<'a> {
    pub(super) graph: &'a Graph,
    /// Values of the graph in the network.
    pub(super) held: HashMap<usize, Held>,
    /// The node whose turn it is.
    pub(super) node: usize,
    /// What that node holds beside its inputs.
    pub(super) kept: Vec<usize>,
}

/// Everything that is known so far.
pub(crate) struct Walk<'a> {
    pub(crate) values: Vec<Value>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(super) frames: Vec<Frame<'a>>,
    /// The weights that were read, by their graph and number in it: a body that is repeated reads them again.
    constants: HashMap<(usize, usize), usize>,
    pub(super) budget: &'a Budget,
    /// Taken out while it is asked.
    ask: Option<&'a mut (dyn Ask + 'a)>,
    /// How often it was asked before.
    pub(crate) asked: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(budget: &'a Budget, ask: &'a mut (dyn Ask + 'a)) -> Walk<'a> {
        Walk {
            values: Vec::new(),
            layers: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            frames: Vec::new(),
            constants: HashMap::new(),
            budget,
            ask: Some(ask),
            asked: 0,
        }
    }

    /// Walks the file's own graph.
    pub(super) fn whole(&mut self, graph: &'a Graph, ports: &[Port], types: &[TensorType]) -> Result<(), ModelError> {
        for (port, ty) in ports.iter().zip(types) {
            let what = || format!("input `{}`", shown(&port.name));
            let ty = tensor_type(ty.dtype, ty.shape.dims().to_vec(), what)?;
            let value = self.push(Value { name: port.name.clone(), ty, constant: None });
            self.inputs.push(value);
        }
        let inputs = self.inputs.iter().map(|number| Held::Tensor(*number)).collect();
        for held in self.inline(graph, inputs)? {
            self.outputs.push(match held {
                Held::Tensor(number) => number,
                Held::List(_) => {
                    let what = "an output".to_owned();
                    return Err(ModelError::ElementType { what, found: "that is a list of tensors".to_owned() });
                }
            });
        }
        Ok(())
    }

    /// Walks a graph with these inputs; gives its outputs.
    pub(super) fn inline(&mut self, graph: &'a Graph, inputs: Vec<Held>) -> Result<Vec<Held>, ModelError> {
        let held = graph.inputs.iter().copied().zip(inputs).collect();
        self.frames.push(Frame { graph, held, node: 0, kept: Vec::new() });
        for (place, node) in graph.nodes.iter().enumerate() {
            self.frame().node = place;
            self.visit(node)?;
        }
        self.frame().node = graph.nodes.len();
        let outputs = graph.outputs.iter().map(|output| self.held(*output, "the graph's output"));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        self.frames.pop();
        Ok(outputs)
    }

    pub(super) fn frame(&mut self) -> &mut Frame<'a> {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Values of the network that nodes may still read. Those that are made and not among them never will be.
    pub(crate) fn live(&self) -> Vec<usize> {
        let (mut live, mut lists) = (Vec::new(), HashSet::new());
        for (depth, frame) in self.frames.iter().enumerate() {
            let nodes = frame.graph.nodes.iter().skip(frame.node);
            let read = nodes.flat_map(Node::reads).chain(frame.graph.outputs.iter().copied());
            for value in read {
                match self.known(depth, value) {
                    Some(Held::Tensor(number)) => live.push(*number),
                    // Many values may be one list.
                    Some(Held::List(numbers)) if lists.insert(Arc::as_ptr(numbers)) => live.extend(&**numbers),
                    Some(Held::List(_)) => {}
                    None => {}
                }
            }
            live.extend(&frame.kept);
        }
        live.extend(&self.outputs);
        live.sort_unstable();
        live.dedup();
        live
    }

    /// What a value of the graph at that depth is, if that is settled.
    fn known(&self, depth: usize, value: usize) -> Option<&Held> {
        let frame = self.frames.get(depth)?;
        match (frame.held.get(&value), frame.graph.captures.get(&value)) {
            (Some(held), _) => Some(held),
            (None, Some(outer)) => self.known(depth.checked_sub(1)?, *outer),
            (None, None) => None,
        }
    }

    pub(super) fn push(&mut self, value: Value) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// What a value of the graph is in the network.
    pub(super) fn held(&mut self, value: usize, reader: &str) -> Result<Held, ModelError> {
        if let Some(held) = self.known(self.frames.len() - 1, value) {
            return Ok(held.clone());
        }
        self.weight(self.frames.len() - 1, value, reader).map(Held::Tensor)
    }

    /// The network's number of a weight, which it gets when it is first read.
    fn weight(&mut self, depth: usize, value: usize, reader: &str) -> Result<usize, ModelError> {
        let graph = self.frames[depth].graph;
        if let (Some(outer), true) = (graph.captures.get(&value), depth > 0) {
            return self.weight(depth - 1, *outer, reader);
        }
        if let Some(number) = self.constants.get(&(graph.id, value)) {
            return Ok(*number);
        }
        let name = graph.names.get(value).cloned().unwrap_or_default();
        let Some(tensor) = graph.constants.get(&value) else {
            return Err(ModelError::UndefinedValue { node: shown(reader), value: shown(&name) });
        };
        let number = self.push(Value { name, ty: tensor.ty.clone(), constant: Some(tensor.data.clone()) });
        self.constants.insert((graph.id, value), number);
        Ok(number)
    }

    fn visit(&mut self, node: &'a Node) -> Result<(), ModelError> {
        self.budget.step(node.steps, &node.name)?;
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(match input {
                Some(value) => Some(self.held(*value, &node.name)?),
                None => None,
            });
        }
        if node.outputs.iter().all(Option::is_none) {
            return Ok(());
        }
        let made = match (node.operator.control, &inputs[..]) {
            (Some(control), _) => self.control(control, node, inputs)?,
            // What has the same value is the same list.
            (None, [Some(list @ Held::List(_))]) if node.operator.name == "Identity" => vec![list.clone()],
            (None, _) => {
                let tensor = |held: Option<Held>| match held {
                    None => Ok(None),
                    Some(Held::Tensor(number)) => Ok(Some(number)),
                    Some(Held::List(_)) => Err(ModelError::TypeMismatch {
                        node: shown(&node.name),
                        expected: "tensors".to_owned(),
                        found: "a list of them".to_owned(),
                    }),
                };
                let inputs = inputs.into_iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
                let used = Use::of(node, self.frame().graph);
                let numbers = self.apply(&used, &inputs)?;
                numbers.into_iter().map(Held::Tensor).collect()
            }
        };
        let values = node.outputs.iter().zip(made);
        let values: Vec<(usize, Held)> = values.filter_map(|(value, held)| Some(((*value)?, held))).collect();
        self.frame().held.extend(values);
        Ok(())
    }

    /// The elements of a value, which cannot be done without.
    pub(super) fn elements(&mut self, number: usize, why: ModelError) -> Result<Arc<Data>, ModelError> {
        let value = self.values.get(number);
        if let Some(data) = value.and_then(|value| value.constant.clone()) {
            return Ok(data);
        }
        let Some(ask) = self.ask.take() else { return Err(why) };
        let data = ask.elements(self, number, why);
        self.ask = Some(ask);
        self.asked += 1;
        let data = data?;
        if let Some(value) = self.values.get_mut(number) {
            value.constant = Some(data.clone());
        }
        Ok(data)
    }

    /// One use of an operator on values of the network; gives the numbers of its outputs.
    pub(super) fn apply(&mut self, used: &Use<'_>, inputs: &[Option<usize>]) -> Result<Vec<usize>, ModelError> {
        if self.layers.len() > MAX_LAYERS {
            let what = "the number of layers, with those of loops as often as they run,".to_owned();
            return Err(ModelError::TooLarge { what, limit: MAX_LAYERS.to_string() });
        }
        let outcome = loop {
            let wanted = Cell::new(None);
            let outcome = (used.operator.infer)(&NodeCall {
                node: used.name,
                operator: used.operator.name,
                attributes: used.attributes,
                opset: used.opset,
                inputs,
                outputs: used.outputs.len(),
                values: &self.values,
                budget: self.budget,
                wanted: &wanted,
            });
            match (outcome, wanted.get()) {
                (Err(why @ ModelError::NotConstant { .. }), Some(number)) => self.elements(number, why)?,
                (outcome, _) => break outcome?,
            };
        };
        let name = |place: usize| used.outputs.get(place).cloned().unwrap_or_default();
        match outcome {
            Outcome::Given(given) => {
                let given = given.into_iter().enumerate().map(|(place, given)| (name(place), given));
                self.given(used.name, given.collect())
            }
            Outcome::Layer { compute, inputs, types } => {
                let named = |(what, given)| (format!("{}.{what}", used.name), given);
                let names: Vec<String> = (0..types.len()).map(name).collect();
                let inputs = self.given(used.name, inputs.into_iter().map(named).collect())?;
                self.look_at_numbers(used.name, &inputs)?;
                Ok(self.layer(used, compute, inputs, (names, types)))
            }
        }
    }

    /// Single numbers of a type that layers cannot compute on are looked at: what follows from them alone is then computed now.
    fn look_at_numbers(&mut self, node: &str, inputs: &[usize]) -> Result<(), ModelError> {
        for &number in inputs {
            let single = self.values.get(number).filter(|value| value.ty.shape.len() == 1 && value.constant.is_none());
            let dtype = single.map(|value| value.ty.dtype);
            if dtype.is_some_and(|dtype| self.ask.as_ref().is_some_and(|ask| !ask.computes(dtype))) {
                let why = ModelError::NotConstant { node: shown(node), input: "a single number".to_owned() };
                self.elements(number, why)?;
            }
        }
        Ok(())
    }

    /// The numbers of values that no layer makes.
    fn given(&mut self, node: &str, given: Vec<(String, Given)>) -> Result<Vec<usize>, ModelError> {
        let mut numbers = Vec::with_capacity(given.len());
        for (name, given) in given {
            numbers.push(match given {
                Given::Value(number) => number,
                Given::Shared(ty, data) => self.push(Value { name, ty, constant: Some(data) }),
                Given::Constant(shape, data) => {
                    self.budget.need(data.len(), node)?;
                    self.constant(name, shape, data)
                }
                Given::Filled(shape, scalar) => {
                    self.budget.need(shape.len(), node)?;
                    let data = filled(scalar, shape.len());
                    self.constant(name, shape, data)
                }
            });
        }
        Ok(numbers)
    }

    pub(super) fn constant(&mut self, name: String, shape: Shape, data: Data) -> usize {
        let ty = TensorType { dtype: data.dtype(), shape };
        self.push(Value { name, ty, constant: Some(Arc::new(data)) })
    }

    /// The outputs of a layer, computed now if they can be.
    fn layer(
        &mut self,
        used: &Use<'_>,
        compute: Arc<dyn Compute>,
        inputs: Vec<usize>,
        (names, types): (Vec<String>, Vec<TensorType>),
    ) -> Vec<usize> {
        let read: Vec<&Value> = inputs.iter().filter_map(|&number| self.values.get(number)).collect();
        if let Some(made) = host::evaluate(&*compute, &read, &types, self.budget) {
            let made = names.into_iter().zip(types).zip(made);
            return made.map(|((name, ty), data)| self.constant(name, ty.shape, data)).collect();
        }
        let values = names.into_iter().zip(types).map(|(name, ty)| Value { name, ty, constant: None });
        let outputs: Vec<usize> = values.map(|value| self.push(value)).collect();
        let op = Op::new(used.operator.name, compute);
        self.layers.push(Layer { name: used.name.to_owned(), op, inputs, outputs: outputs.clone() });
        outputs
    }
}

/// One use of an operator: a node without what it reads.
pub(super) struct Use<'n> {
    pub(super) name: &'n str,
    pub(super) operator: &'static Operator,
    pub(super) attributes: &'n [(String, Attribute)],
    pub(super) opset: i64,
    /// What its outputs are called; one that is left out has no name.
    pub(super) outputs: Vec<String>,
}

impl<'n> Use<'n> {
    fn of(node: &'n Node, graph: &Graph) -> Use<'n> {
        let name = |value: &Option<usize>| value.and_then(|value| graph.names.get(value)).cloned().unwrap_or_default();
        Use {
            name: &node.name,
            operator: node.operator,
            attributes: &node.attributes,
            opset: graph.opset,
            outputs: node.outputs.iter().map(name).collect(),
        }
    }
}

fn filled(scalar: Scalar, len: usize) -> Data {
    Data::collect(scalar.dtype(), std::iter::repeat_n(scalar, len))
}
