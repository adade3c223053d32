//! Smallest element over axes. NaN counts only where there is nothing else.

use dala_spec::expr::BinaryOp;
use dala_spec::work::FoldOp;
use dala_spec::{Data, DeviceFacts, Expr, Lowering, NUMBERS, OutputDType, Params, Scalar, Signature, SpecError};

use crate::lower::reduce::{Reduction, axes, reduced, reference as fold_lines, register_type, spec};
use crate::lower::shapes::without_full_axes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = spec("reduce_min", "Smallest element over axes", NUMBERS, OutputDType::Inputs, without_full_axes);
    Kernel::lowered(spec, lower)
        .example(&[&[5, 12]], &[5])
        .example_params(|| Params::new().with("axes", 1))
        .reference(reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let reduction = Reduction { how: FoldOp::Min, dtype: register_type(call.output.dtype), finish: Expr::input("r") };
    reduced(call, facts, &axes(call), &reduction)
}

fn reference(call: &Reference) -> Data {
    fold_lines(call, |line| {
        let first = line.first().copied().unwrap_or(Scalar::U8(0));
        line.iter().skip(1).fold(first, |best, value| dala_spec::expr::apply_binary(BinaryOp::Min, best, *value))
    })
}
