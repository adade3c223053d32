//! Where the smallest element is, over axes: its position among the reduced ones, row by row; the first if there are several.
//! NaN loses to everything.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::expr::CompareOp;
use dala_spec::{Data, Signature, SpecError};

use crate::lower::reduce;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    reduce::locating("argmin", "Where the smallest element is, over axes", lower, reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    reduce::located(call, facts, FoldOp::ArgMin)
}

fn reference(call: &Reference) -> Data {
    reduce::located_reference(call, CompareOp::Lt)
}
