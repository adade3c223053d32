//! Hard swish: `x * clamp(x / 6 + 1/2, 0, 1)`. NaN propagates, and minus infinity becomes NaN.

use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("hard_swish")
        .summary("Hard swish: `x * clamp(x / 6 + 1/2, 0, 1)`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(8.0, 8.0));
    Kernel::pointwise(spec, |_| Expr::input("x") * (Expr::input("x") * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0))
        .reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => x * (x / 6.0 + 0.5).clamp(0.0, 1.0)))
}

kernel_cases! {
    flat_then_straight: [F32(vec![-4.0, -3.0, 0.0, 3.0, 7.0])], Params::new() => F32(vec![-0.0, -0.0, 0.0, 3.0, 7.0]);
    infinity: [F64(vec![f64::INFINITY])], Params::new() => F64(vec![f64::INFINITY]);
}
