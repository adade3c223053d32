//! Copies that nobody can tell from none.

use dala_spec::{Program, TensorType};

use super::Verdict;
use super::graph::{Graph, Node, NodeId, Origin, ValueId};
use crate::Task;
use crate::work::Map;

impl Graph {
    /// Leaves copies out: of a value that is there as long as its copy is read, and of a value that may as well be made where
    /// its copy belongs.
    pub(super) fn elide_copies(&mut self) {
        for id in 0..self.nodes.len() {
            let Some(node) = &self.nodes[id] else { continue };
            let (true, [from], [to]) = (is_copy(self, node), &node.reads[..], &node.writes[..]) else { continue };
            if self.values[*to].writers != [id] {
                continue;
            }
            let (from, to, stages) = (*from, *to, node.stages.clone());
            let elided = match self.values[to].home {
                // The same bytes as another type.
                _ if self.values[from].ty.dtype != self.values[to].ty.dtype => false,
                None => self.outlives(from, to),
                Some(home) => self.may_be_made_at(from, home),
            };
            if !elided {
                continue;
            }
            self.remove(id);
            self.replace_reads(to, from);
            if let Some(home) = self.values[to].home.take() {
                self.set_home(from, home);
            }
            self.verdicts.extend(stages.into_iter().map(|stage| Verdict::Elided { stage }));
        }
    }

    /// Whether one value is intact as long as another is read.
    fn outlives(&self, value: ValueId, other: ValueId) -> bool {
        let last = self.values[other].readers.last().copied().unwrap_or(0);
        self.gone_from(value).is_none_or(|gone| last < gone)
    }

    /// Whether a value may be made in a user's buffer: it has no home yet, and what was there is not needed from then on.
    fn may_be_made_at(&self, value: ValueId, home: usize) -> bool {
        let own = &self.values[value];
        let Some(first) = own.writers.first() else { return false };
        let free = |initial: ValueId| self.values[initial].readers.last().is_none_or(|last| last < first);
        own.origin == Origin::Written && own.home.is_none() && self.initial(home).is_none_or(free)
    }

    /// The value that a user's buffer holds when the plan starts.
    pub(super) fn initial(&self, external: usize) -> Option<ValueId> {
        // Those are made first, in order.
        (external < self.externals.len()).then_some(external)
    }

    /// Where a node reads what it overwrites, in a way that does not allow it, lets it read a copy.
    pub(super) fn separate_in_place(&mut self) {
        for external in 0..self.externals.len() {
            let (Some(initial), Some(last)) = (self.initial(external), self.homes[external]) else { continue };
            let Some(first) = self.values[last].writers.first().copied() else { continue };
            let conflicts = |id: &NodeId| match &self.nodes[*id] {
                Some(node) if *id == first => {
                    !(self.values[last].writers.len() == 1 && works_in_place(self, node, initial, last))
                }
                _ => *id > first,
            };
            if !self.values[initial].readers.iter().any(conflicts) {
                continue;
            }
            let ty = self.values[initial].ty.clone();
            let stages = self.nodes[first].as_ref().map(|node| node.stages.clone()).unwrap_or_default();
            let barrier_epoch = self.nodes[first].as_ref().map_or(0, |node| node.barrier_epoch);
            let name = format!("{} before", self.values[initial].name);
            let copy = self.add_value(ty.clone(), &name);
            let map = Map { program: Program::identity(ty.dtype), shape: ty.shape.clone(), lens: vec![ty.shape.len()] };
            // Everything from the first writer on moves up by one place.
            self.open_place(first);
            let node = Node {
                task: Task::Map(map),
                reads: Vec::new(),
                writes: vec![copy],
                stages,
                barrier_epoch,
                parts: Vec::new(),
            };
            self.insert(first, node);
            let readers: Vec<NodeId> =
                self.values[initial].readers.iter().copied().filter(|reader| *reader > first).collect();
            for reader in readers {
                if let Some(mut node) = self.remove(reader) {
                    for read in node.reads.iter_mut().filter(|read| **read == initial) {
                        *read = copy;
                    }
                    self.insert(reader, node);
                }
            }
            if let Some(mut node) = self.remove(first) {
                node.reads.push(initial);
                self.insert(first, node);
            }
        }
    }

    fn add_value(&mut self, ty: TensorType, name: &str) -> ValueId {
        self.values.push(super::GraphValue {
            ty,
            origin: Origin::Written,
            home: None,
            writers: Vec::new(),
            readers: Vec::new(),
            name: name.to_owned(),
        });
        self.values.len() - 1
    }

    /// Makes an empty place before a node: the node, and all after it, move.
    fn open_place(&mut self, at: NodeId) {
        self.nodes.insert(at, None);
        for value in &mut self.values {
            for id in value.readers.iter_mut().chain(&mut value.writers).filter(|id| **id >= at) {
                *id += 1;
            }
        }
    }
}

/// Whether a node hands elements on, all of them, unchanged.
pub(super) fn is_copy(graph: &Graph, node: &Node) -> bool {
    let (Task::Map(map), [from], [to]) = (&node.task, &node.reads[..], &node.writes[..]) else { return false };
    map.program.is_copy() && map.program.pixel().is_none() && graph.values[*from].bytes() == graph.values[*to].bytes()
}

/// Whether a node may write a value where it finds another: each element is read before it is written, and by nobody else.
pub(super) fn works_in_place(graph: &Graph, node: &Node, from: ValueId, to: ValueId) -> bool {
    let Task::Map(map) = &node.task else { return false };
    let program = &map.program;
    let (source, target) = (&graph.values[from].ty, &graph.values[to].ty);
    let output = node.writes.iter().position(|write| *write == to);
    source.shape.len() == target.shape.len()
        // One binding for both, so one type.
        && source.dtype == target.dtype
        && output.is_some_and(|slot| program.outputs()[slot] == target.dtype)
        && node.reads.iter().enumerate().filter(|(_, read)| **read == from).all(|(slot, _)| {
            let input = program.inputs()[slot];
            !input.broadcast
                && input.dtype == source.dtype
                && map.lens[slot] == source.shape.len()
                && input.channels == program.pixel().unwrap_or(1)
        })
        // Pixels are read and written as a whole, but channels may be looked at after some were written.
        && !program.reads_neighbours()
}
