//! Logarithm of the softmax along an axis: `x - max - log(sum(exp(x - max)))`.

use dala_plan::{DeviceFacts, Lowering};
use dala_spec::expr::UnaryOp;
use dala_spec::{Data, Expr, Signature, SpecError};

use crate::lower::softmax;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    softmax::kernel("log_softmax", "Logarithm of the softmax along an axis", lower, reference)
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    softmax::lower(call, &(Expr::input("x") - Expr::input("max") - Expr::input("sum").unary(UnaryOp::Log)))
}

fn reference(call: &Reference) -> Data {
    softmax::reference(call, |x, max, sum| x - max - sum.ln())
}
