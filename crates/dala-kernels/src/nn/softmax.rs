//! Softmax along an axis: `exp(x - max) / sum(exp(x - max))`, so that large values do not overflow.

use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{Data, Expr, Signature, SpecError};

use crate::lower::softmax;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    softmax::kernel("softmax", "Softmax along an axis", lower, reference)
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    softmax::lower(call, &(softmax::power() / Expr::input("sum")))
}

fn reference(call: &Reference) -> Data {
    softmax::reference(call, |x, max, sum| (x - max).exp() / sum)
}
