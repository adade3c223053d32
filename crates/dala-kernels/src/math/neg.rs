//! Negation: `-x`. Integers wrap; pixels saturate, so that every pixel becomes 0.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS};

use crate::reference::{kernel_cases, on_numbers};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("neg").summary("Negation: `-x`").input("x", NUMBERS);
    Kernel::pointwise(spec, |_| -Expr::input("x")).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_numbers!(x; float -x; int x.wrapping_neg()))
}

kernel_cases! {
    floats: [F64(vec![-1.5, 2.0])], Params::new() => F64(vec![1.5, -2.0]);
    integers_wrap: [S64(vec![3, i64::MIN])], Params::new() => S64(vec![-3, i64::MIN]);
    unsigned_wrap: [U32(vec![0, 1])], Params::new() => U32(vec![0, u32::MAX]);
    pixels_saturate: [U8(vec![0, 7])], Params::new() => U8(vec![0, 0]);
}
