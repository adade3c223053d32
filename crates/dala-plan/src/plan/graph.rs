//! Launches over values: what reads what, and what must come before what.

use std::sync::Arc;

use dala_spec::{DType, Data, Program, SpecError, TensorType};

use crate::work::{Map, Task};
use crate::{Lowering, Place};

/// A value, by number.
pub type ValueId = usize;
/// A node, by its place in the order in which nodes run.
pub type NodeId = usize;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A user's buffer, as it is when the plan starts.
    External(usize),
    /// The constant of that number.
    Constant(usize),
    /// Nodes of the graph.
    Written,
}

/// Data that launches need beside the users' own.
#[derive(Clone, Debug)]
pub enum Constant {
    /// It is there, on the host.
    Given(Arc<Data>),
    /// The device computes it once: the preparation writes it to its buffer of that number.
    Prepared {
        /// Which of the preparation's buffers.
        buffer: usize,
        /// Its type.
        ty: TensorType,
    },
}

impl Constant {
    /// Its element type and shape.
    pub fn ty(&self) -> TensorType {
        match self {
            Constant::Given(data) => TensorType::new(data.dtype(), [data.len()]),
            Constant::Prepared { ty, .. } => ty.clone(),
        }
    }
}

/// What a buffer holds between two writes.
#[derive(Clone, Debug)]
pub struct GraphValue {
    /// Its element type and shape.
    pub ty: TensorType,
    /// Where it comes from.
    pub origin: Origin,
    /// The user's buffer in which it must be found at the end.
    pub home: Option<usize>,
    /// The nodes that write it: several, where each writes a part.
    pub writers: Vec<NodeId>,
    /// The nodes that read it, in order, each once.
    pub readers: Vec<NodeId>,
    /// What the user calls the buffer.
    pub name: String,
}

impl GraphValue {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.ty.shape.len().saturating_mul(self.ty.dtype.size())
    }
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub task: Task,
    /// The values that it reads.
    pub reads: Vec<ValueId>,
    /// The values that it writes.
    pub writes: Vec<ValueId>,
    /// The user's stages that it does, or does a part of, in order.
    pub stages: Vec<usize>,
    /// How many barriers come before it.
    pub barrier_epoch: usize,
    /// The parts of a composite kernel that it does, in order.
    pub parts: Vec<Arc<str>>,
}

/// A stage of a pipeline whose types are known, over buffers by number.
#[derive(Clone, Debug)]
pub enum LoweredStage {
    /// Launches, with their run-time values settled.
    Run {
        /// The launches.
        lowering: Lowering,
        /// The buffers of its inputs.
        inputs: Vec<usize>,
        /// The buffers of its outputs.
        outputs: Vec<usize>,
    },
    /// The bytes of a buffer, in another.
    Copy {
        /// From where.
        from: usize,
        /// Where to.
        to: usize,
    },
    /// Outputs without elements.
    Empty {
        /// The buffers of its outputs.
        outputs: Vec<usize>,
    },
    /// No work.
    Nothing,
    /// Nothing is fused across it.
    Barrier,
}

/// A buffer that calls use.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its type.
    pub ty: TensorType,
    /// What the user calls it.
    pub name: String,
    /// Whether it lives only as long as the pipeline runs.
    pub transient: bool,
}

/// Launches over values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The values.
    pub values: Vec<GraphValue>,
    /// The launches, in order; none where one was fused into another.
    pub nodes: Vec<Option<Node>>,
    /// The constants.
    pub constants: Vec<Constant>,
    /// The users' buffers: types and names.
    pub externals: Vec<(TensorType, String)>,
    /// What each stage is called.
    pub labels: Vec<String>,
    /// What was fused and what was not, and why.
    pub verdicts: Vec<super::Verdict>,
    /// For each of the users' buffers, the value that is found there at the end, if the plan writes it.
    pub(super) homes: Vec<Option<ValueId>>,
}

fn missing(what: &str) -> SpecError {
    SpecError::internal(format!("{what} is not there"))
}

impl Graph {
    /// The graph of calls over buffers. `labels` says what each call is called.
    ///
    /// # Errors
    ///
    /// A launch uses what is not there.
    pub fn build(cells: &[Cell], calls: Vec<LoweredStage>, labels: Vec<String>) -> Result<Graph, SpecError> {
        let mut graph = Graph { labels, ..Graph::default() };
        // The value that each buffer holds at this point.
        let mut current: Vec<Option<ValueId>> = Vec::with_capacity(cells.len());
        let mut external = vec![None; cells.len()];
        for (index, cell) in cells.iter().enumerate() {
            current.push((!cell.transient).then(|| {
                let number = graph.externals.len();
                external[index] = Some(number);
                graph.externals.push((cell.ty.clone(), cell.name.clone()));
                graph.value(cell.ty.clone(), Origin::External(number), &cell.name)
            }));
        }
        let mut barrier_epoch = 0;
        for (stage, call) in calls.into_iter().enumerate() {
            match call {
                LoweredStage::Nothing => {}
                LoweredStage::Empty { outputs } => {
                    for output in outputs {
                        let Cell { ty, name, .. } = &cells[output];
                        current[output] = Some(graph.value(ty.clone(), Origin::Written, name));
                    }
                }
                LoweredStage::Barrier => barrier_epoch += 1,
                LoweredStage::Copy { from, to } => {
                    let source = current[from].ok_or_else(|| missing("the source of a copy"))?;
                    let (task, ty) = (copy_task(&cells[from].ty, &cells[to].ty), cells[to].ty.clone());
                    let target = graph.value(ty, Origin::Written, &cells[to].name);
                    graph.push(Node {
                        task,
                        reads: vec![source],
                        writes: vec![target],
                        stages: vec![stage],
                        barrier_epoch,
                        parts: Vec::new(),
                    });
                    current[to] = Some(target);
                }
                LoweredStage::Run { lowering, inputs, outputs } => {
                    let target =
                        |output: &usize| graph.value(cells[*output].ty.clone(), Origin::Written, &cells[*output].name);
                    let targets: Vec<ValueId> = outputs.iter().map(target).collect();
                    let sources: Vec<Option<ValueId>> = inputs.iter().map(|input| current[*input]).collect();
                    graph.inline(lowering, &sources, &targets, stage, barrier_epoch)?;
                    for (output, target) in outputs.into_iter().zip(targets) {
                        current[output] = Some(target);
                    }
                }
            }
        }
        graph.homes = vec![None; graph.externals.len()];
        for (value, number) in current.into_iter().zip(external) {
            if let (Some(value), Some(number)) = (value, number)
                && graph.values[value].origin == Origin::Written
            {
                graph.set_home(value, number);
            }
        }
        Ok(graph)
    }

    /// Says that a value must be found in a user's buffer at the end.
    pub(super) fn set_home(&mut self, value: ValueId, home: usize) {
        self.values[value].home = Some(home);
        self.homes[home] = Some(value);
    }

    fn inline(
        &mut self,
        lowering: Lowering,
        inputs: &[Option<ValueId>],
        outputs: &[ValueId],
        stage: usize,
        barrier_epoch: usize,
    ) -> Result<(), SpecError> {
        let name = self.labels.get(stage).cloned().unwrap_or_default();
        let transients: Vec<ValueId> =
            lowering.transients.into_iter().map(|ty| self.value(ty, Origin::Written, &format!("{name}'s"))).collect();
        let constants: Vec<ValueId> = lowering
            .constants
            .into_iter()
            .map(|data| {
                let ty = TensorType::new(data.dtype(), [data.len()]);
                self.constants.push(Constant::Given(data));
                self.value(ty, Origin::Constant(self.constants.len() - 1), &format!("{name}'s"))
            })
            .collect();
        let value = |place: &Place| {
            let found = match *place {
                Place::Input(index) => inputs.get(index).copied().flatten(),
                Place::Output => outputs.first().copied(),
                Place::Further(index) => outputs.get(index + 1).copied(),
                Place::Transient(index) => transients.get(index).copied(),
                Place::Constant(index) => constants.get(index).copied(),
            };
            found.ok_or_else(|| missing(&format!("{place:?} of `{name}`")))
        };
        for step in lowering.steps {
            let reads = step.reads.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let writes = step.writes.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let task = self.plain(step.task, &reads, &writes);
            self.push(Node { task, reads, writes, stages: vec![stage], barrier_epoch, parts: step.parts });
        }
        Ok(())
    }

    /// A copy of words as what it is: elements handed on. Types that differ stay words.
    fn plain(&self, task: Task, reads: &[ValueId], writes: &[ValueId]) -> Task {
        let words = |value: ValueId| self.values[value].bytes().div_ceil(4);
        match (&task, reads, writes) {
            (Task::Map(map), [from], [to])
                if map.program.same_code(&Program::move_words())
                    && [words(*from), words(*to)] == [map.shape.len(); 2]
                    && map.lens == [map.shape.len()] =>
            {
                copy_task(&self.values[*from].ty, &self.values[*to].ty)
            }
            _ => task,
        }
    }

    pub(super) fn value(&mut self, ty: TensorType, origin: Origin, name: &str) -> ValueId {
        let name = name.to_owned();
        self.values.push(GraphValue { ty, origin, home: None, writers: Vec::new(), readers: Vec::new(), name });
        self.values.len() - 1
    }

    pub(super) fn push(&mut self, node: Node) {
        let id = self.nodes.len();
        for read in &node.reads {
            let readers = &mut self.values[*read].readers;
            if readers.last() != Some(&id) {
                readers.push(id);
            }
        }
        for write in &node.writes {
            self.values[*write].writers.push(id);
        }
        self.nodes.push(Some(node));
    }

    /// The nodes that are left, in order.
    pub fn live(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| node.as_ref().map(|node| (id, node)))
    }

    /// Takes a node out, and out of the lists of its values.
    pub(super) fn remove(&mut self, id: NodeId) -> Option<Node> {
        let node = self.nodes[id].take()?;
        for read in &node.reads {
            self.values[*read].readers.retain(|reader| *reader != id);
        }
        for write in &node.writes {
            self.values[*write].writers.retain(|writer| *writer != id);
        }
        Some(node)
    }

    /// Puts a node in a place that is empty.
    pub(super) fn insert(&mut self, id: NodeId, node: Node) {
        for read in &node.reads {
            let readers = &mut self.values[*read].readers;
            if let Err(at) = readers.binary_search(&id) {
                readers.insert(at, id);
            }
        }
        for write in &node.writes {
            let writers = &mut self.values[*write].writers;
            if let Err(at) = writers.binary_search(&id) {
                writers.insert(at, id);
            }
        }
        self.nodes[id] = Some(node);
    }

    /// Reads `new` wherever `old` was read.
    pub(super) fn replace_reads(&mut self, old: ValueId, new: ValueId) {
        for id in std::mem::take(&mut self.values[old].readers) {
            let Some(node) = &mut self.nodes[id] else { continue };
            for read in node.reads.iter_mut().filter(|read| **read == old) {
                *read = new;
            }
            let readers = &mut self.values[new].readers;
            if let Err(at) = readers.binary_search(&id) {
                readers.insert(at, id);
            }
        }
    }

    /// The first node that writes the memory in which a value is found: from there on, the value is gone. Values that have
    /// no memory of the user's are never gone.
    pub(super) fn gone_from(&self, value: ValueId) -> Option<NodeId> {
        let Origin::External(number) = self.values[value].origin else { return None };
        self.homes[number].and_then(|last| self.values[last].writers.first().copied())
    }

    /// Forgets constants that nobody reads any more.
    pub(super) fn drop_unread_constants(&mut self) {
        let mut kept = Vec::new();
        for value in &mut self.values {
            if let (Origin::Constant(number), false) = (value.origin, value.readers.is_empty()) {
                let data = self.constants[number].clone();
                kept.push(data);
                value.origin = Origin::Constant(kept.len() - 1);
            }
        }
        self.constants = kept;
    }

    /// Drops nodes whose results nobody reads and no user's buffer holds.
    pub(super) fn drop_dead(&mut self) {
        for id in (0..self.nodes.len()).rev() {
            let Some(node) = &self.nodes[id] else { continue };
            let needed =
                |value: &ValueId| self.values[*value].home.is_some() || !self.values[*value].readers.is_empty();
            if !node.writes.iter().any(needed)
                && let Some(node) = self.remove(id)
            {
                self.verdicts.extend(node.stages.iter().map(|stage| super::Verdict::Dropped { stage: *stage }));
            }
        }
    }
}

/// A copy of all elements.
fn copy_task(from: &TensorType, to: &TensorType) -> Task {
    match from.dtype == to.dtype {
        true => Task::Map(identity(from.dtype, from)),
        false => Task::Map(Map::copy(from)),
    }
}

/// Elements handed on.
fn identity(dtype: DType, ty: &TensorType) -> Map {
    Map { program: Program::identity(dtype), shape: ty.shape.clone(), lens: vec![ty.shape.len()] }
}
