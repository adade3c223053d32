//! Where every value lies: in a user's buffer, in scratch memory that values share one after the other, or in a constant.

use std::sync::Arc;

use dala_spec::expr::ParamSlot;
use dala_spec::{SpecError, TensorType};

use super::Verdict;
use super::elide::{is_copy, works_in_place};
use super::graph::{Constant, Graph, Node, NodeId, Origin, ValueId};
use crate::work::Map;
use crate::{CAPACITY_STEP, Place, Task};

/// A user's buffer that a plan uses.
#[derive(Clone, Debug)]
pub struct External {
    /// Its type.
    pub ty: TensorType,
    /// What the user calls it.
    pub name: String,
    /// Whether the plan reads what is in it when it starts.
    pub read: bool,
    /// Whether the plan writes it.
    pub written: bool,
}

/// One launch of a plan. Users' buffers are [`Place::Input`], also where they are written.
#[derive(Clone, Debug)]
pub struct BlueprintStep {
    /// What it does.
    pub task: Task,
    /// What it reads.
    pub reads: Vec<Place>,
    /// What it writes.
    pub writes: Vec<Place>,
    /// The run-time values of its programs, each from where it comes.
    pub params: Vec<ParamSlot>,
    /// The user's stages that it does, or does a part of, in order.
    pub stages: Vec<usize>,
    /// How many barriers come before it.
    pub barrier_epoch: usize,
    /// Bytes that it reads and writes.
    pub bytes: usize,
    /// The parts of a composite kernel that it does, in order.
    pub parts: Vec<Arc<str>>,
}

/// A plan, as plain data.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// The launches, in order.
    pub steps: Vec<BlueprintStep>,
    /// The users' buffers.
    pub externals: Vec<External>,
    /// The scratch memory, in bytes for each piece.
    pub scratch: Vec<usize>,
    /// The bytes that values in scratch memory would need, if none shared.
    pub scratch_unshared: usize,
    /// Data that the launches need beside the users' own. Whoever brings it to a device may take it out of here.
    pub constants: Vec<Constant>,
    /// What computes those of them that are made of others, once. Its buffers are the constants that it writes.
    pub preparation: Option<Box<Blueprint>>,
    /// The types of that data, wherever it is.
    pub constant_types: Vec<TensorType>,
    /// What each stage is called.
    pub labels: Vec<String>,
    /// What was fused and what was not, and why.
    pub verdicts: Vec<Verdict>,
}

impl Blueprint {
    /// The bytes of scratch memory that a run needs.
    pub fn peak_bytes(&self) -> usize {
        self.scratch.iter().sum()
    }

    /// The bytes that all launches read and write.
    pub fn bytes_moved(&self) -> usize {
        self.steps.iter().map(|step| step.bytes).sum()
    }

    pub(super) fn lay_out(graph: Graph) -> Result<Blueprint, SpecError> {
        let mut graph = graph;
        graph.drop_unread_constants();
        let graph = graph;
        let mut scratch = Scratch::default();
        let places = scratch.place_all(&graph);
        let bytes = |node: &Node| {
            let mut touched: Vec<ValueId> = node.reads.clone();
            touched.sort_unstable();
            touched.dedup();
            touched.iter().chain(&node.writes).map(|value| graph.values[*value].bytes()).sum()
        };
        let place = |value: &ValueId| {
            places[*value].ok_or_else(|| SpecError::internal(format!("value {value} of a launch has no place")))
        };
        let step = |(_, node): (NodeId, &Node)| {
            // A copy moves words, whatever the element type.
            let task = match is_copy(&graph, node) {
                true => Task::Map(Map::copy(&graph.values[node.reads[0]].ty)),
                false => node.task.clone(),
            };
            Ok(BlueprintStep {
                params: task.kind().programs().iter().flat_map(|program| program.params()).cloned().collect(),
                task,
                reads: node.reads.iter().map(place).collect::<Result<_, _>>()?,
                writes: node.writes.iter().map(place).collect::<Result<_, _>>()?,
                stages: node.stages.clone(),
                barrier_epoch: node.barrier_epoch,
                bytes: bytes(node),
                parts: node.parts.clone(),
            })
        };
        let steps = graph.live().map(step).collect::<Result<Vec<BlueprintStep>, SpecError>>()?;
        let externals = graph
            .externals
            .iter()
            .enumerate()
            .map(|(number, (ty, name))| External {
                ty: ty.clone(),
                name: name.clone(),
                read: graph.initial(number).is_some_and(|value| !graph.values[value].readers.is_empty()),
                written: graph.homes[number].is_some(),
            })
            .collect();
        Ok(Blueprint {
            steps,
            externals,
            scratch: scratch.slots.iter().map(|slot| slot.bytes).collect(),
            scratch_unshared: scratch.unshared,
            constant_types: graph.constants.iter().map(Constant::ty).collect(),
            constants: graph.constants,
            preparation: None,
            labels: graph.labels,
            verdicts: graph.verdicts,
        })
    }
}

/// A piece of scratch memory.
struct ScratchBlock {
    bytes: usize,
    /// The last node that uses what is in it.
    busy_until: NodeId,
    /// The node that was last to put something in it.
    taken_by: NodeId,
}

#[derive(Default)]
struct Scratch {
    slots: Vec<ScratchBlock>,
    unshared: usize,
}

impl Scratch {
    /// The place of every value that a launch uses.
    fn place_all(&mut self, graph: &Graph) -> Vec<Option<Place>> {
        let fixed = |value: &super::GraphValue| match (value.home, value.origin) {
            (Some(home), _) => Some(Place::Input(home)),
            (None, Origin::External(number)) => Some(Place::Input(number)),
            (None, Origin::Constant(number)) => Some(Place::Constant(number)),
            (None, Origin::Written) => None,
        };
        let mut places: Vec<Option<Place>> = graph.values.iter().map(fixed).collect();
        for (id, node) in graph.live() {
            // Values without a writer have no elements, but a place.
            for value in node.writes.iter().chain(&node.reads) {
                if places[*value].is_none() {
                    places[*value] = Some(Place::Transient(self.place(graph, &places, (id, node), *value)));
                }
            }
        }
        places
    }

    fn place(&mut self, graph: &Graph, places: &[Option<Place>], (id, node): (NodeId, &Node), value: ValueId) -> usize {
        let own = &graph.values[value];
        let bytes = own.bytes().max(1).next_multiple_of(CAPACITY_STEP);
        let until = own.readers.last().copied().unwrap_or(id).max(own.writers.last().copied().unwrap_or(id));
        self.unshared += bytes;
        // In place: where the node finds what it is the last to read.
        let reusable = node.reads.iter().find_map(|read| match places[*read] {
            Some(Place::Transient(slot))
                if self.slots[slot].busy_until == id
                    && self.slots[slot].taken_by != id
                    && graph.values[*read].readers.last() == Some(&id)
                    && own.writers.first() == Some(&id)
                    && works_in_place(graph, node, *read, value) =>
            {
                Some(slot)
            }
            _ => None,
        });
        if let Some(slot) = reusable {
            self.slots[slot].busy_until = until;
            self.slots[slot].taken_by = id;
            return slot;
        }
        // The smallest piece that is free and large enough, or else the largest that is free, made larger.
        let free = self.slots.iter().enumerate().filter(|(_, slot)| slot.busy_until < id);
        let best = free.min_by_key(|(_, slot)| (slot.bytes < bytes, slot.bytes.abs_diff(bytes))).map(|(slot, _)| slot);
        match best {
            Some(slot) => {
                self.slots[slot].bytes = self.slots[slot].bytes.max(bytes);
                self.slots[slot].busy_until = until;
                self.slots[slot].taken_by = id;
                slot
            }
            None => {
                self.slots.push(ScratchBlock { bytes, busy_until: until, taken_by: id });
                self.slots.len() - 1
            }
        }
    }
}
