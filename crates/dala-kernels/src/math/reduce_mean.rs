//! Mean over axes, computed in the output's float type. The mean of nothing is NaN.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{DType, Data, Expr, FLOATS, NUMBERS, OutputDType, Scalar, Signature, SpecError, Tolerance};

use crate::lower::reduce::{Reduction, axes, kernel as kernel_of, reduced, reference as fold_lines, spec};
use crate::lower::shapes::without_axes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = spec("reduce_mean", "Mean over axes", NUMBERS, OutputDType::OneOf(FLOATS), without_axes)
        .tolerance(Tolerance::close(64.0, 64.0));
    kernel_of(spec, lower, reference).example_dtype(DType::F32)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype.register();
    let reduction =
        Reduction { how: FoldOp::Sum, dtype, finish: Expr::input("r") / Expr::number(count(call)).cast(dtype) };
    reduced(call, facts, &axes(call)?, &reduction)
}

/// How many elements each mean is of.
fn count(call: &Signature) -> f64 {
    axes(call).unwrap_or_default().iter().map(|axis| call.inputs[0].shape.dims()[*axis] as f64).product()
}

fn reference(call: &Reference) -> Data {
    fold_lines(call, |line| {
        let sum: f64 = line.iter().map(|value| value.as_f64()).sum();
        Scalar::from_f64(call.dtype(), sum / line.len() as f64)
    })
}
