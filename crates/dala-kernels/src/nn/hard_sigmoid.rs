//! Hard sigmoid: `clamp(alpha * x + beta, 0, 1)`. NaN becomes 0.

use dala_spec::{Data, Expr, FLOATS, KernelSpec, ParamKind, Tolerance, param};

use crate::keys::{ALPHA, BETA};
use crate::reference::{kernel_cases, on_floats};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("hard_sigmoid")
        .summary("Hard sigmoid: `clamp(alpha * x + beta, 0, 1)`")
        .input("x", FLOATS)
        .param(param(ALPHA, ParamKind::Float).default(1.0 / 6.0).summary("the slope"))
        .param(param(BETA, ParamKind::Float).default(0.5).summary("the value at zero"))
        .tolerance(Tolerance::close(8.0, 8.0));
    let work = |_: &_| (Expr::input("x") * Expr::param(ALPHA) + Expr::param(BETA)).clamp(0.0, 1.0);
    Kernel::pointwise(spec, work).reference(reference)
}

#[expect(clippy::manual_clamp, reason = "what is not a number becomes zero")]
fn reference(call: &Reference) -> Data {
    let (alpha, beta) = (call.number(ALPHA), call.number(BETA));
    // `max` and `min`, unlike `clamp`, make a number of NaN.
    call.map(on_floats!(x => (alpha * x + beta).max(0.0).min(1.0)))
}

kernel_cases! {
    ends_and_middle: [F32(vec![-9.0, 0.0, 9.0, f32::NAN])], Params::new() => F32(vec![0.0, 0.5, 1.0, 0.0]);
    other_line: [F64(vec![-1.0, 1.0])], Params::new().with("alpha", 0.25).with("beta", 0.5) => F64(vec![0.25, 0.75]);
}
