//! Gaussian blur: weights `exp(-d² / (2 sigma²))` for up to `radius` pixels each side, normalised, down and across. A radius of 0
//! changes nothing. Every channel is treated alike, alpha too.

use dala_plan::work::{Border, Filter};
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{
    Class, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::{BORDER, RADIUS, SIGMA};
use crate::lower::filter;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("blur", Class::Stencil)
        .alias("gaussian_blur")
        .summary("Gaussian blur")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, filter::image_of_radius)
        .param(param(RADIUS, ParamKind::Int).default(1).range(0.0, 256.0).summary("pixels on each side"))
        .param(
            param(SIGMA, ParamKind::Float)
                .default(0.0)
                .range(0.0, 256.0)
                .summary("width of the bell, in pixels; 0 for half the radius"),
        )
        .param(filter::border_param())
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn gaussian(call: &Signature) -> Filter {
    let radius = call.params.int(RADIUS);
    let sigma = match call.params.float(SIGMA) {
        0.0 => radius as f64 / 2.0,
        given => given,
    };
    // Divided first: the square of a tiny sigma would be nothing.
    let bell = |at: i64| if at == 0 { 1.0 } else { (-(at as f64 / sigma).powi(2) / 2.0).exp() };
    let weights: Vec<f64> = (-radius..=radius).map(bell).collect();
    let sum: f64 = weights.iter().sum();
    let weights: Vec<f32> = weights.iter().map(|weight| (weight / sum) as f32).collect();
    Filter { down: weights.clone(), across: weights }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let border = Border::from_word(call.params.word(BORDER));
    filter::filtered(call, facts, border, vec![gaussian(call)], &Expr::input("f0"))
}

fn reference(call: &Reference) -> Data {
    filter::reference(call, &[gaussian(call.signature)], |_, blurred| blurred[0])
}
