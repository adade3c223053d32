//! What a layer computes.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use dala_spec::{Shape, SpecError, TensorType};

use crate::lower::Lowerer;

/// What a layer computes: a node's operator with everything known that its attributes say.
#[derive(Clone, Debug)]
pub struct Op {
    name: &'static str,
    compute: Arc<dyn Compute>,
}

impl Op {
    pub(crate) fn new(name: &'static str, compute: Arc<dyn Compute>) -> Op {
        Op { name, compute }
    }

    /// The name of the operator in ONNX.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn compute(&self) -> &dyn Compute {
        &*self.compute
    }

    /// What it computes, if that is a `T`.
    #[cfg(test)]
    pub(crate) fn downcast<T: Compute>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.compute;
        any.downcast_ref()
    }
}

/// How a layer is computed.
pub(crate) trait Compute: Any + Debug + Send + Sync {
    /// How much work it is on the host, in elements; `None` for what is always left to the device. What is done on the host is
    /// done by the kernels' references, which see whole inputs.
    fn cost(&self, reads: &[&Shape], makes: &[TensorType]) -> Option<usize> {
        let read = reads.iter().fold(0usize, |sum, shape| sum.saturating_add(shape.len()));
        let made = makes.iter().fold(0usize, |sum, ty| sum.saturating_add(ty.shape.len()));
        Some(made.max(read))
    }

    /// Adds the calls of kernels that make its outputs.
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError>;
}
