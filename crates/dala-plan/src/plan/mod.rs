//! What a pipeline compiles to, as plain data: a graph of launches over values, fused, and laid out in memory.
//!
//! ```text
//! Calls --Graph::build--> Graph --elide, prepare, fuse--> Graph --Blueprint::lay_out--> Blueprint
//!          one node per      values read and          memory: every value has a place
//!          step of a call    written, never twice
//! ```
//!
//! A value is what a buffer holds between two writes, so a node reads and writes values, never buffers: nothing is in the
//! way of fusing two nodes but what they compute. Only where a value must end up in a user's buffer, or comes from one,
//! does memory matter before the layout.

mod elide;
pub(crate) mod explain;
mod fuse;
mod graph;
mod layout;
mod prepare;
#[cfg(test)]
mod tests;
mod verdict;

pub use graph::{Cell, Constant, Graph, GraphValue, LoweredStage, Node, NodeId, Origin, ValueId};
pub use layout::{Blueprint, BlueprintStep, External};
pub use verdict::Verdict;

use dala_spec::SpecError;

use crate::DeviceFacts;

/// What planning is to keep to.
pub struct Rules<'a> {
    /// What the device is like.
    pub facts: &'a DeviceFacts,
    /// Whether stages are fused and copies left out; otherwise every stage is launched by itself.
    pub fuse: bool,
}

/// Plans calls over these buffers: see the [module](self).
///
/// # Errors
///
/// A launch uses what is not there.
pub fn plan(graph: Graph, rules: &Rules) -> Result<Blueprint, SpecError> {
    let mut graph = graph;
    graph.drop_dead();
    if rules.fuse {
        graph.elide_copies();
    }
    let preparation = graph.split_preparation();
    let mut blueprint = lay_out(graph, rules)?;
    if let Some(preparation) = preparation {
        blueprint.preparation = Some(Box::new(lay_out(preparation, rules)?));
    }
    Ok(blueprint)
}

fn lay_out(mut graph: Graph, rules: &Rules) -> Result<Blueprint, SpecError> {
    if rules.fuse {
        graph.fuse(rules);
        graph.drop_dead();
    }
    graph.separate_in_place();
    Blueprint::lay_out(graph)
}
