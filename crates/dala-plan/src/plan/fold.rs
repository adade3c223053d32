//! What is known before anything runs: launches over constants alone are done on the host, once.

use std::sync::Arc;

use dala_spec::Data;

use super::graph::{Graph, NodeId, Origin};

impl Graph {
    /// Replaces nodes that read constants alone by what they give.
    pub(super) fn fold_constants(&mut self) {
        for id in 0..self.nodes.len() {
            let Some(data) = self.known(id) else { continue };
            let Some(node) = self.remove(id) else { continue };
            let value = &mut self.values[node.writes[0]];
            value.origin = Origin::Constant(self.constants.len());
            self.constants.push(Arc::new(data));
        }
    }

    /// What a node gives, if that can be said now.
    fn known(&self, id: NodeId) -> Option<Data> {
        let node = self.nodes[id].as_ref()?;
        let &[write] = &node.writes[..] else { return None };
        let value = &self.values[write];
        if value.home.is_some() || value.writers.len() != 1 || node.reads.is_empty() {
            return None;
        }
        let constants = node.reads.iter().map(|read| match self.values[*read].origin {
            Origin::Constant(number) => Some(&*self.constants[number]),
            _ => None,
        });
        let constants: Vec<&Data> = constants.collect::<Option<_>>()?;
        let data = node.task.kind().on_host(&constants)?;
        (data.dtype() == value.ty.dtype && data.len() == value.ty.shape.len()).then_some(data)
    }
}
