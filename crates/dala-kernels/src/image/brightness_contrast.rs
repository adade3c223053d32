//! Brightness and contrast: `(v - 0.5) * contrast + 0.5 + brightness` on values from 0 to 1, clamped to them. Alpha passes through.

use dala_spec::{Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, Tolerance, param};

use crate::keys::{BRIGHTNESS, CONTRAST};
use crate::lower::{pixel, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("brightness_contrast", Class::Pixel)
        .summary("Brightness and contrast")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, shapes::same_image)
        .param(param(BRIGHTNESS, ParamKind::Float).default(0.0).summary("added, on a scale of 0 to 1"))
        .param(param(CONTRAST, ParamKind::Float).default(1.0).summary("a factor around the middle"))
        .tolerance(Tolerance::close(8.0, 8.0).levels(1));
    Kernel::pointwise(spec, work).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn work(call: &Signature) -> Expr {
    let full = pixel::full(call.inputs[0].dtype);
    let moved = (Expr::input("x").cast(DType::F32) - full / 2.0) * Expr::param(CONTRAST);
    let result = moved + (Expr::param(BRIGHTNESS) * full + full / 2.0);
    pixel::but_alpha(call, result.clamp(0.0, full))
}

fn reference(call: &Reference) -> Data {
    let full = pixel::full(call.signature.inputs[0].dtype);
    let (brightness, contrast) = (call.number(BRIGHTNESS), call.number(CONTRAST));
    pixel::reference(call, |v| ((v - full / 2.0) * contrast + full / 2.0 + brightness * full).clamp(0.0, full))
}
