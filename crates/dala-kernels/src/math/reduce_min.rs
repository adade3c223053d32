//! Smallest element over axes. NaN counts only where there is nothing else.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::expr::BinaryOp;
use dala_spec::{Data, NUMBERS, OutputDType, Signature, SpecError};

use crate::lower::reduce;
use crate::lower::shapes::without_full_axes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let summary = "Smallest element over axes";
    let spec = reduce::spec("reduce_min", summary, NUMBERS, OutputDType::Inputs, without_full_axes);
    reduce::kernel(spec, lower, reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    reduce::picked(call, facts, FoldOp::Min)
}

fn reference(call: &Reference) -> Data {
    reduce::picked_reference(call, BinaryOp::Min)
}
