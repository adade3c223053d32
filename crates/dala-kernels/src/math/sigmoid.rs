//! Logistic function: `1 / (1 + exp(-x))`. NaN propagates; far from zero the result is 0 or 1.

use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("sigmoid")
        .summary("Logistic function: `1 / (1 + exp(-x))`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(16.0, 1.0));
    Kernel::pointwise(spec, |_| Expr::input("x").sigmoid()).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => 1.0 / (1.0 + (-x).exp())))
}

kernel_cases! {
    middle_and_ends: [F64(vec![0.0, 800.0, -800.0])], Params::new() => F64(vec![0.5, 1.0, 0.0]);
}
