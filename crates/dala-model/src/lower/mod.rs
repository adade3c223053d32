//! From layers to calls of kernels.
//!
//! Files have pictures with their channels first; kernels want them last, as pictures are and as vectors like it. A value is held in
//! either order, or both, and turned only where a layer needs the other one: in most networks once, at the start.

mod layout;
mod lowerer;

use dala_kernels::Composite;
use dala_spec::SpecError;

use crate::Network;
pub(crate) use layout::Order;
pub(crate) use lowerer::{Lowerer, ints};

/// The calls that compute a network's outputs.
pub(crate) fn lower(network: &Network) -> Result<Composite, SpecError> {
    let mut lowerer = Lowerer::new(&network.values, &network.inputs);
    for layer in &network.layers {
        lowerer.at(&layer.name, &layer.inputs, &layer.outputs);
        layer.op.compute().lower(&mut lowerer)?;
    }
    lowerer.results(&network.outputs)
}
