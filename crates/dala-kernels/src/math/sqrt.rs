//! Square root: `sqrt(x)`. Negative values give NaN.

use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("sqrt")
        .summary("Square root: `sqrt(x)`")
        .input("x", FLOATS)
        .tolerance(Tolerance::ulps(3));
    Kernel::pointwise(spec, |_| Expr::input("x").unary(UnaryOp::Sqrt)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => x.sqrt()))
}

kernel_cases! {
    squares: [F32(vec![0.0, 4.0, 6.25])], Params::new() => F32(vec![0.0, 2.0, 2.5]);
}
