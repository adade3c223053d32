//! Full where a value is above the threshold, 0 elsewhere. Alpha passes through.

use dala_spec::expr::CompareOp;
use dala_spec::{Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, param};

use crate::keys::THRESHOLD;
use crate::lower::{pixel, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("threshold", Class::Pixel)
        .summary("Full above the threshold, 0 elsewhere")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, shapes::same_image)
        .param(param(THRESHOLD, ParamKind::Float).default(0.5).summary("on a scale of 0 to 1"));
    Kernel::pointwise(spec, work).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn work(call: &Signature) -> Expr {
    let full = pixel::full(call.inputs[0].dtype);
    let above = Expr::input("x").cast(DType::F32).compare(CompareOp::Gt, Expr::param(THRESHOLD) * full);
    pixel::but_alpha(call, Expr::select(above, Expr::from(full), Expr::from(0.0)))
}

fn reference(call: &Reference) -> Data {
    let full = pixel::full(call.signature.inputs[0].dtype);
    let threshold = call.number(THRESHOLD) as f32 * full as f32;
    pixel::reference(call, |v| if v as f32 > threshold { full } else { 0.0 })
}
