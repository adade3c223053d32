//! Hyperbolic tangent: `tanh(x)`. NaN propagates.

use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("tanh")
        .summary("Hyperbolic tangent: `tanh(x)`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(16.0, 8.0));
    Kernel::pointwise(spec, |_| Expr::input("x").unary(UnaryOp::Tanh)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => x.tanh()))
}

kernel_cases! {
    middle_and_ends: [F32(vec![0.0, 100.0, -100.0])], Params::new() => F32(vec![0.0, 1.0, -1.0]);
}
