//! Where the smallest element is, over axes: its position among the reduced ones, row by row; the first if there are several.
//! NaN loses to everything.

use dala_spec::expr::CompareOp;
use dala_spec::work::FoldOp;
use dala_spec::{DType, Data, DeviceFacts, Expr, Lowering, NUMBERS, OutputDType, Params, Scalar, Signature, SpecError};

use crate::lower::reduce::{Reduction, axes, reduced, reference as fold_lines, register_type, spec};
use crate::lower::shapes::without_full_axes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = spec(
        "argmin",
        "Where the smallest element is, over axes",
        NUMBERS,
        OutputDType::OneOf(&[DType::S32, DType::U32, DType::S64]),
        without_full_axes,
    );
    Kernel::lowered(spec, lower)
        .example(&[&[5, 12]], &[5])
        .example_params(|| Params::new().with("axes", 1))
        .example_dtype(DType::S32)
        .reference(reference)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let reduction = Reduction {
        how: FoldOp::ArgMin,
        dtype: register_type(call.inputs[0].dtype),
        finish: Expr::input("r").cast(call.output.dtype),
    };
    reduced(call, facts, &axes(call), &reduction)
}

fn reference(call: &Reference) -> Data {
    fold_lines(call, |line| {
        let mut best = 0;
        for (at, value) in line.iter().enumerate() {
            let better = dala_spec::expr::compare(CompareOp::Lt, *value, line[best]);
            if better || line[best].as_f64().is_nan() && !value.as_f64().is_nan() {
                best = at;
            }
        }
        Scalar::from_i64(call.dtype(), best as i64)
    })
}
