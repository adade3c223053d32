//! Natural logarithm: `log(x)`. Zero gives minus infinity, negative values NaN.

use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("log")
        .summary("Natural logarithm: `log(x)`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(16.0, 4.0));
    Kernel::pointwise(spec, |_| Expr::input("x").unary(UnaryOp::Log)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => x.ln()))
}

kernel_cases! {
    known_values: [F32(vec![1.0, 0.0, f32::INFINITY])], Params::new() => F32(vec![0.0, f32::NEG_INFINITY, f32::INFINITY]);
}
