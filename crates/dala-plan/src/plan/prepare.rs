//! What follows from constants alone is computed once, by the device, before a plan first runs.

use dala_spec::TensorType;
use dala_spec::expr::ParamSource;

use super::graph::{Constant, Graph, Node, NodeId, Origin, ValueId};
use crate::Task;

impl Graph {
    /// Takes out the launches that read nothing but constants, as a graph of its own, which writes what is still read here to
    /// buffers. Here those results are constants.
    pub(super) fn split_preparation(&mut self) -> Option<Graph> {
        self.pack_once();
        let known = self.known_nodes();
        let kept = |value: &ValueId| self.values[*value].readers.iter().any(|reader| !known[*reader]);
        let mut preparation = Graph { labels: self.labels.clone(), ..Graph::default() };
        // What each value is called there. Those of buffers come first, in order.
        let mut moved: Vec<Option<ValueId>> = vec![None; self.values.len()];
        let nodes: Vec<NodeId> = (0..self.nodes.len()).filter(|id| known[*id]).collect();
        let written = nodes.iter().filter_map(|id| self.nodes[*id].as_ref()).flat_map(|node| node.writes.clone());
        let mut results: Vec<ValueId> = written.filter(kept).collect();
        results.sort_unstable();
        results.dedup();
        for (buffer, result) in results.iter().enumerate() {
            let (ty, name) = (self.values[*result].ty.clone(), self.values[*result].name.clone());
            preparation.value(ty.clone(), Origin::External(buffer), &name);
            preparation.externals.push((ty, name));
        }
        preparation.homes = vec![None; results.len()];
        for id in &nodes {
            let Some(node) = self.remove(*id) else { continue };
            let mut there = |value: ValueId| *moved[value].get_or_insert_with(|| self.copy_to(&mut preparation, value));
            let reads = node.reads.iter().map(|read| there(*read)).collect();
            let writes = node.writes.iter().map(|write| there(*write)).collect();
            // Everything there is known, whatever was between.
            preparation.push(Node { reads, writes, barrier_epoch: 0, ..node });
        }
        for (buffer, result) in results.into_iter().enumerate() {
            let value = &mut self.values[result];
            value.origin = Origin::Constant(self.constants.len());
            self.constants.push(Constant::Prepared { buffer, ty: value.ty.clone() });
            if let Some(there) = moved[result] {
                preparation.set_home(there, buffer);
            }
        }
        (!nodes.is_empty()).then_some(preparation)
    }

    /// Products by constants have their panels packed for good, where units would pack them at every run.
    fn pack_once(&mut self) {
        let known = self.known_nodes();
        for id in 0..self.nodes.len() {
            let Some(Node { task: Task::Matmul(matmul), reads, stages, barrier_epoch, parts, .. }) = &self.nodes[id]
            else {
                continue;
            };
            let (true, Some(second)) = (matmul.packs, reads.get(1).copied()) else { continue };
            if !self.is_known(second, &known) {
                continue;
            }
            let pack = matmul.pack();
            let panels = TensorType::new(pack.dtype, [pack.elements()]);
            let node = Node {
                task: Task::Pack(pack),
                reads: vec![second],
                writes: vec![self.values.len()],
                stages: stages.clone(),
                barrier_epoch: *barrier_epoch,
                parts: parts.clone(),
            };
            let packed = self.value(panels, Origin::Written, "panels");
            let Some(mut product) = self.remove(id) else { continue };
            if let Task::Matmul(matmul) = &mut product.task {
                matmul.packs = false;
            }
            product.reads[1] = packed;
            // Without the units' own panels.
            product.writes.truncate(1);
            self.insert(id, product);
            self.push(node);
        }
    }

    /// Whether a value follows from constants alone, if these nodes do.
    fn is_known(&self, value: ValueId, known: &[bool]) -> bool {
        match self.values[value].origin {
            Origin::Constant(_) => true,
            Origin::External(_) => false,
            Origin::Written => {
                let writers = &self.values[value].writers;
                !writers.is_empty() && writers.iter().all(|writer| known[*writer])
            }
        }
    }

    /// The value in another graph.
    fn copy_to(&self, other: &mut Graph, value: ValueId) -> ValueId {
        let value = &self.values[value];
        let origin = match value.origin {
            Origin::Constant(number) => {
                other.constants.push(self.constants[number].clone());
                Origin::Constant(other.constants.len() - 1)
            }
            origin => origin,
        };
        other.value(value.ty.clone(), origin, &value.name)
    }

    /// For each node, whether its results follow from constants alone.
    fn known_nodes(&self) -> Vec<bool> {
        let mut known: Vec<bool> =
            self.nodes.iter().map(|node| node.as_ref().is_some_and(|node| self.may_be_known(node))).collect();
        // Several nodes may write one value, and some nodes are known only if their readers are: what one is told changes others.
        loop {
            let mut settled = true;
            for id in 0..self.nodes.len() {
                let Some(node) = self.nodes[id].as_ref().filter(|_| known[id]) else { continue };
                let value = |value: &ValueId| self.is_known(*value, &known);
                // What reads nothing is best made where it is used, unless that is done once.
                let wanted = |write: &ValueId| self.values[*write].readers.iter().all(|reader| known[*reader]);
                let made_once = !node.reads.is_empty() || node.writes.iter().all(wanted);
                if !(made_once && node.reads.iter().chain(&node.writes).all(value)) {
                    known[id] = false;
                    settled = false;
                }
            }
            if settled {
                return known;
            }
        }
    }

    /// Whether a node's results follow from constants alone if what it reads does.
    fn may_be_known(&self, node: &Node) -> bool {
        let fixed = |programs: Vec<&dala_spec::Program>| {
            let mut params = programs.into_iter().flat_map(|program| program.params());
            params.all(|param| matches!(param.source, ParamSource::Fixed(_)))
        };
        let count = |values: &[ValueId]| values.iter().map(|value| self.values[*value].ty.shape.len()).sum::<usize>();
        // What only spreads a few numbers out is better read as they are.
        let spreads = matches!(node.task, Task::Map(_)) && count(&node.writes) > count(&node.reads).saturating_mul(2);
        !spreads
            && fixed(node.task.kind().programs())
            && node.writes.iter().all(|write| self.values[*write].home.is_none())
    }
}
