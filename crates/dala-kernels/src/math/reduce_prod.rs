//! Product over axes. Values are converted to the output's type first; integers wrap. The product of nothing is 1.

use dala_spec::work::FoldOp;
use dala_spec::{
    DType, Data, DeviceFacts, Expr, Lowering, NUMBERS, OutputDType, Params, Scalar, Signature, SpecError, Tolerance,
};

use crate::lower::reduce::{Reduction, axes, reduced, reference as fold_lines, spec};
use crate::lower::shapes::without_axes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = spec(
        "reduce_prod",
        "Product over axes",
        NUMBERS,
        OutputDType::OneOf(&[DType::F32, DType::F64, DType::S32, DType::S64, DType::U32]),
        without_axes,
    )
    .tolerance(Tolerance::Close { epsilons: 64.0, absolute_epsilons: 64.0 });
    Kernel::lowered(spec, lower)
        .example(&[&[5, 12]], &[5])
        .example_params(|| Params::new().with("axes", 1))
        .example_dtype(DType::S32)
        .reference(reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let reduction = Reduction { how: FoldOp::Product, dtype: call.output.dtype, finish: Expr::input("r") };
    reduced(call, facts, &axes(call), &reduction)
}

fn reference(call: &Reference) -> Data {
    let dtype = call.dtype();
    fold_lines(call, |line| {
        if dtype.is_float() {
            return Scalar::from_f64(dtype, line.iter().map(|value| value.as_f64()).product());
        }
        let whole = |value: &Scalar| dala_spec::expr::cast(*value, dtype).as_i64();
        Scalar::from_i64(dtype, line.iter().map(whole).fold(1, i64::wrapping_mul))
    })
}
