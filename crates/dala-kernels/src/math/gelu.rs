//! Gaussian error linear unit: `x / 2 * (1 + erf(x / sqrt(2)))`. The exact form with the error function. NaN propagates.

use dala_spec::{Data, Expr, FLOATS, KernelSpec, Tolerance};

use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("gelu")
        .summary("Gaussian error linear unit: `x / 2 * (1 + erf(x / sqrt(2)))`")
        .input("x", FLOATS)
        .tolerance(Tolerance::close(16.0, 16.0));
    Kernel::pointwise(spec, |_| Expr::input("x").gelu()).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(on_floats!(x => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))))
}

kernel_cases! {
    far_from_zero: [F32(vec![0.0, 20.0, -20.0])], Params::new() => F32(vec![0.0, 20.0, -0.0]);
}
