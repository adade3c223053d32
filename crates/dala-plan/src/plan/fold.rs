//! What is known before anything runs: launches over constants alone are done on the host, once.

use std::sync::Arc;

use dala_spec::Data;
use dala_spec::expr::interpret;

use super::graph::{Graph, NodeId, Origin};
use crate::Task;

/// The most elements of a program that is interpreted: the device is quicker with more.
const MAX_INTERPRETED: usize = 1 << 20;

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
        let data = match &node.task {
            Task::Pack(pack) => pack.on_host(constants[0])?,
            Task::Map(map) => {
                let inputs: Vec<Data> = constants.iter().map(|data| (*data).clone()).collect();
                let plain = map.program.params().is_empty() && map.program.outputs().len() == 1;
                let known = inputs.iter().zip(map.program.inputs()).all(|(data, slot)| data.dtype() == slot.dtype);
                if !plain || !known || map.shape.len() > MAX_INTERPRETED {
                    return None;
                }
                interpret(&map.program, &inputs, &[], &map.shape).pop()?
            }
            _ => return None,
        };
        (data.dtype() == value.ty.dtype && data.len() == value.ty.shape.len()).then_some(data)
    }
}
