//! Exponential function: `exp(x)`. NaN propagates; large values give infinity.

use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("exp")
        .summary("Exponential function: `exp(x)`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(128.0, 0.0));
    Kernel::pointwise(spec, |_| Expr::input("x").unary(UnaryOp::Exp)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => x.exp()))
}

kernel_cases! {
    known_values: [F32(vec![0.0, f32::NEG_INFINITY, 1000.0])], Params::new() => F32(vec![1.0, 0.0, f32::INFINITY]);
}
