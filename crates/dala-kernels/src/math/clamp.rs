//! Keeps values in a range: `min(max(x, min), max)`. NaN becomes `min`. Where `min` is above `max`, the result is `max`.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, ParamKind, Scalar, param};

use crate::keys::{MAX, MIN};
use crate::reference::{kernel_cases, on_numbers};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("clamp")
        .summary("Keeps values in a range: `clamp(x, min, max)`")
        .input("x", NUMBERS)
        .param(param(MIN, ParamKind::Number).default(0).summary("smallest value"))
        .param(param(MAX, ParamKind::Number).default(1).summary("largest value"));
    Kernel::pointwise(spec, |_| Expr::input("x").clamp(Expr::param(MIN), Expr::param(MAX))).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let (min, max) = (call.number(MIN), call.number(MAX));
    let whole = min.fract() == 0.0 && max.fract() == 0.0;
    call.map(|value| match value {
        Scalar::F64(x) => Scalar::F64(x.max(min).min(max)),
        integer if whole && !integer.dtype().is_float() => {
            on_numbers!(x; float x; int x.max(min as _).min(max as _))(integer)
        }
        other => Scalar::F32((other.as_f64() as f32).max(min as f32).min(max as f32)),
    })
}

kernel_cases! {
    default_range: [F32(vec![-1.0, 0.5, 2.0, f32::NAN])], Params::new() => F32(vec![0.0, 0.5, 1.0, 0.0]);
    integers: [S32(vec![-100, 3, 100])], Params::new().with("min", -10).with("max", 10) => S32(vec![-10, 3, 10]);
    a_fraction_on_pixels_rounds: [U8(vec![0, 9])], Params::new().with("min", 1.5).with("max", 7) => U8(vec![2, 7]);
}
