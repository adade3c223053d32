//! Product over axes. Values are converted to the output's type first; integers wrap. The product of nothing is 1.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{Data, Signature, SpecError};

use crate::lower::reduce;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    reduce::accumulating("reduce_prod", "Product over axes", lower, reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    reduce::accumulated(call, facts, FoldOp::Product)
}

fn reference(call: &Reference) -> Data {
    reduce::accumulated_reference(call, 1, |a, b| a * b, i64::wrapping_mul)
}
