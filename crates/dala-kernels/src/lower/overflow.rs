//! What becomes of integers that do not fit, where the caller has a say.

use dala_spec::expr::Overflow;
use dala_spec::{Expr, KernelSpec, ParamKind, ResolvedParams, Scalar, Signature, param};

use crate::Reference;
use crate::keys::OVERFLOW;

/// The param of a kernel whose results may not fit: integers of 8 and 16 bits saturate unless it says otherwise.
pub(crate) fn with_param(spec: KernelSpec) -> KernelSpec {
    let words = ParamKind::words(&["usual", "wrap"]);
    let summary = "whether integers of 8 and 16 bits wrap, as larger ones do, instead of saturating";
    spec.param(param(OVERFLOW, words).default("usual").summary(summary))
}

/// What the word says.
pub(crate) fn chosen(params: &ResolvedParams) -> Overflow {
    match params.word(OVERFLOW) {
        "wrap" => Overflow::Wrap,
        "saturate" => Overflow::Saturate,
        _ => Overflow::Usual,
    }
}

/// A result as the param says.
pub(crate) fn kept(call: &Signature, result: Expr) -> Expr {
    match chosen(&call.params) {
        Overflow::Wrap if call.output.dtype.narrow_range().is_some() => {
            result.cast_with(Overflow::Wrap, call.output.dtype)
        }
        _ => result,
    }
}

/// The same in plain Rust.
pub(crate) fn kept_value(call: &Reference, result: Scalar) -> Scalar {
    match (chosen(call.params()), result.as_integer()) {
        (Overflow::Wrap, Some(integer)) => Scalar::wrapping(call.dtype(), integer),
        _ => result,
    }
}
