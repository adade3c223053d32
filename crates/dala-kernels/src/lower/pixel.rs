//! What colour kernels share: the range of values, and alpha that passes through.

use dala_spec::expr::CompareOp;
use dala_spec::{DType, Data, Expr, Signature};

use crate::Reference;

/// The value of full brightness.
pub(crate) fn full(dtype: DType) -> f64 {
    if dtype == DType::U8 { 255.0 } else { 1.0 }
}

/// Whether the output's pixels have an alpha channel.
fn has_alpha(call: &Signature) -> bool {
    call.output.shape.image().is_some_and(|image| image.channels == 4)
}

/// `colour`, but the input `x` itself in the alpha channel.
pub(crate) fn but_alpha(call: &Signature, colour: Expr) -> Expr {
    match has_alpha(call) {
        true => Expr::select(Expr::channel().compare(CompareOp::Eq, 3), Expr::input("x"), colour),
        false => colour,
    }
}

/// `f` of every value but alpha.
pub(crate) fn reference(call: &Reference, f: impl Fn(f64) -> f64) -> Data {
    let alpha = has_alpha(call.signature);
    call.numbers(|index| {
        let value = call.float(0, index);
        if alpha && index % 4 == 3 { value } else { f(value) }
    })
}
