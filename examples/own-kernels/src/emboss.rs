//! A stencil: `x + strength * (f0 + f1)`, where `f0` and `f1` are how fast `x` changes downwards and to the right. Light comes
//! from the upper left. Every channel is treated alike.
//!
//! Two separable filters make one pass over the picture, and what comes before and after is fused into that pass.

use dala_compute::kernel::{
    Border, Class, DeviceFacts, Expr, Filter, Kernel, Lowering, OutputDType, PIXELS, ParamKey, Reference, Signature,
    Tolerance, border_param, filtered, filtered_reference, same_image,
};
use dala_compute::{Data, KernelSpec, ParamKind, SpecError, param};

const STRENGTH: ParamKey = ParamKey::new("strength");
const BORDER: ParamKey = ParamKey::new("border");

/// The kernel.
pub(crate) fn kernel() -> Kernel {
    let strength = param(STRENGTH, ParamKind::Float).default(1.0).range(-8.0, 8.0).summary("how deep the relief is");
    let spec = KernelSpec::new("emboss", Class::Stencil)
        .summary("A relief: where brightness changes from the upper left to the lower right")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, same_image)
        .param(strength)
        .param(border_param())
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn filters() -> Vec<Filter> {
    let (change, same) = (vec![-1.0, 0.0, 1.0], vec![1.0; 3]);
    vec![Filter { down: change.clone(), across: same.clone() }, Filter { down: same, across: change }]
}

/// What a device does.
fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let store = Expr::input("x") + (Expr::input("f0") + Expr::input("f1")) * Expr::param(STRENGTH);
    filtered(call, facts, Border::from_word(call.params.word(BORDER)), filters(), &store)
}

/// The same in plain Rust.
fn reference(call: &Reference) -> Data {
    let strength = call.number(STRENGTH);
    filtered_reference(call, &filters(), |x, changes| x + strength * (changes[0] + changes[1]))
}
