//! Absolute value: `abs(x)`. The smallest signed integer stays as it is.

use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, KernelSpec, NUMBERS, Scalar};

use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("abs").summary("Absolute value: `abs(x)`").input("x", NUMBERS);
    Kernel::pointwise(spec, |_| Expr::input("x").unary(UnaryOp::Abs)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(|value| match value {
        Scalar::F32(x) => Scalar::F32(x.abs()),
        Scalar::F64(x) => Scalar::F64(x.abs()),
        Scalar::S32(x) => Scalar::S32(x.wrapping_abs()),
        Scalar::S64(x) => Scalar::S64(x.wrapping_abs()),
        unsigned => unsigned,
    })
}

kernel_cases! {
    floats: [F32(vec![-1.5, 2.0])], Params::new() => F32(vec![1.5, 2.0]);
    smallest_integer: [S32(vec![-3, i32::MIN])], Params::new() => S32(vec![3, i32::MIN]);
    pixels: [U8(vec![0, 255])], Params::new() => U8(vec![0, 255]);
}
