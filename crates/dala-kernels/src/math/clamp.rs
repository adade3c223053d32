//! Keeps values in a range: `min(max(x, min), max)`. NaN becomes `min`. Where `min` is above `max`, the result is `max`.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, ParamKind, Scalar, param};

use crate::keys::{MAX, MIN};
use crate::reference::kernel_cases;
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
    let float = |x: f32| f64::from(x.max(min as f32).min(max as f32).round_ties_even());
    call.map(|value| match value {
        Scalar::F32(x) => Scalar::F32(x.max(min as f32).min(max as f32)),
        Scalar::F64(x) => Scalar::F64(x.max(min).min(max)),
        Scalar::S32(x) if whole => Scalar::S32(x.max(min as i32).min(max as i32)),
        Scalar::S64(x) if whole => Scalar::S64(x.max(min as i64).min(max as i64)),
        Scalar::U32(x) if whole => Scalar::U32(x.max(min as u32).min(max as u32)),
        Scalar::U8(x) if whole => Scalar::U8(i64::from(x).max(min as i64).min(max as i64).clamp(0, 255) as u8),
        Scalar::S32(x) => Scalar::S32(float(x as f32) as i32),
        Scalar::S64(x) => Scalar::S64(float(x as f32) as i64),
        Scalar::U32(x) => Scalar::U32(float(x as f32) as u32),
        Scalar::U8(x) => Scalar::U8(float(f32::from(x)) as u8),
    })
}

kernel_cases! {
    default_range: [F32(vec![-1.0, 0.5, 2.0, f32::NAN])], Params::new() => F32(vec![0.0, 0.5, 1.0, 0.0]);
    integers: [S32(vec![-100, 3, 100])], Params::new().with("min", -10).with("max", 10) => S32(vec![-10, 3, 10]);
    a_fraction_on_pixels_rounds: [U8(vec![0, 9])], Params::new().with("min", 1.5).with("max", 7) => U8(vec![2, 7]);
}
