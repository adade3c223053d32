//! Sum over axes. Values are converted to the output's type first, so that bytes can be summed in `u32`; integers wrap. Nothing
//! sums to 0.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{Data, Signature, SpecError};

use crate::lower::reduce;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    reduce::accumulating("reduce_sum", "Sum over axes", lower, reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    reduce::accumulated(call, facts, FoldOp::Sum)
}

fn reference(call: &Reference) -> Data {
    reduce::accumulated_reference(call, 0, |a, b| a + b, i64::wrapping_add)
}
