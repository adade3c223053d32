//! Box blur: the mean of the pixels up to `radius` away, down and across. Every channel is treated alike, alpha too.

use dala_plan::work::{Border, Filter};
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{
    Class, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::{BORDER, RADIUS};
use crate::lower::filter;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("box_blur", Class::Stencil)
        .summary("Mean of the pixels around")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, filter::image_of_radius)
        .param(param(RADIUS, ParamKind::Int).default(1).range(0.0, 256.0).summary("pixels on each side"))
        .param(filter::border_param())
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn even(call: &Signature) -> Filter {
    let taps = 2 * call.params.int(RADIUS) as usize + 1;
    let weights = vec![1.0 / taps as f32; taps];
    Filter { down: weights.clone(), across: weights }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let border = Border::from_word(call.params.word(BORDER));
    filter::filtered(call, facts, border, vec![even(call)], &Expr::input("f0"))
}

fn reference(call: &Reference) -> Data {
    filter::reference(call, &[even(call.signature)], |_, blurred| blurred[0])
}
