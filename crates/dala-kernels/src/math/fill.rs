//! One value everywhere. A fraction in integers is rounded half to even; pixels saturate.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, OutputDType, OutputShape, ParamKind, Scalar, param};

use crate::keys::VALUE;
use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("fill")
        .summary("One value everywhere")
        .output(OutputShape::Any, OutputDType::OneOf(NUMBERS))
        .param(param(VALUE, ParamKind::Number).default(0).summary("the value"));
    Kernel::pointwise(spec, |_| Expr::param(VALUE)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let value = call.number(VALUE);
    let value = match call.dtype().is_float() || value.fract() == 0.0 {
        true => value,
        false => f64::from((value as f32).round_ties_even()),
    };
    Data::collect(call.dtype(), (0..call.len()).map(|_| Scalar::from_f64(call.dtype(), value)))
}

kernel_cases! {
    floats: [], Params::new().with("value", 1.5) => F32(vec![1.5, 1.5]);
    integers_round: [], Params::new().with("value", 2.5) => S32(vec![2, 2]);
    pixels_saturate: [], Params::new().with("value", 300) => U8(vec![255]);
    nothing_given_is_zero: [], Params::new() => U32(vec![0, 0, 0]);
}
