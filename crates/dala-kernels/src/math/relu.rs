//! Rectified linear unit: `max(x, 0)`, or with a slope `x * slope` below zero. NaN propagates.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, ParamKind, Scalar, param};

use crate::keys::SLOPE;
use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("relu")
        .summary("Rectified linear unit: `max(x, 0)`, or `x * slope` below zero")
        .input("x", NUMBERS)
        .param(param(SLOPE, ParamKind::Number).default(0).summary("slope below zero"));
    Kernel::pointwise(spec, |_| Expr::input("x").relu(Some(Expr::param(SLOPE)))).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let slope = call.number(SLOPE);
    let whole = slope.fract() == 0.0;
    call.map(|value| match value {
        Scalar::F64(x) if x < 0.0 => Scalar::F64(if slope == 0.0 { 0.0 } else { x * slope }),
        Scalar::S32(x) if x < 0 && whole => Scalar::S32(x.wrapping_mul(slope as i32)),
        Scalar::S64(x) if x < 0 && whole => Scalar::S64(x.wrapping_mul(slope as i64)),
        Scalar::F64(_) => value,
        integer if whole && !integer.dtype().is_float() => integer,
        // A fraction makes the whole call compute in f32, which large integers do not survive unchanged.
        other => Scalar::F32(match other.as_f64() as f32 {
            x if x < 0.0 && slope == 0.0 => 0.0,
            x if x < 0.0 => x * slope as f32,
            x => x,
        }),
    })
}

kernel_cases! {
    plain: [F32(vec![-1.0, 2.0, f32::NEG_INFINITY])], Params::new() => F32(vec![0.0, 2.0, 0.0]);
    leaky: [F32(vec![-1.0, 2.0])], Params::new().with("slope", 0.5) => F32(vec![-0.5, 2.0]);
    integers: [S32(vec![-7, 7, i32::MAX])], Params::new() => S32(vec![0, 7, i32::MAX]);
    leaky_integers_round: [S64(vec![-5, -4, 3])], Params::new().with("slope", 0.5) => S64(vec![-2, -2, 3]);
    pixels: [U8(vec![0, 200])], Params::new() => U8(vec![0, 200]);
}
