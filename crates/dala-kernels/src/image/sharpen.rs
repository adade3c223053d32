//! Unsharp mask: `x + amount * (x - b)`, where `b` is `x` blurred by [1 2 1] / 4 down and across, rounded once at the end. Every
//! channel is treated alike, alpha too. Floats are not clamped.

use dala_plan::work::{Border, Filter};
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::{AMOUNT, BORDER};
use crate::lower::filter;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("sharpen", Class::Stencil)
        .summary("Unsharp mask: `x + amount * (x - blurred)`")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, filter::same_image)
        .param(param(AMOUNT, ParamKind::Float).default(1.0).range(-16.0, 16.0).summary("how much"))
        .param(filter::border_param())
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn binomial() -> Filter {
    Filter { down: vec![0.25, 0.5, 0.25], across: vec![0.25, 0.5, 0.25] }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let x = || Expr::input("x").cast(DType::F32);
    let store = x() + Expr::param(AMOUNT) * (x() - Expr::input("f0"));
    filter::filtered(call, facts, Border::from_word(call.params.word(BORDER)), vec![binomial()], &store)
}

fn reference(call: &Reference) -> Data {
    let amount = call.number(AMOUNT);
    filter::reference(call, &[binomial()], |x, blurred| x + amount * (x - blurred[0]))
}
