//! Sobel gradient: differences `[-1 0 1]` one way, weighed `[1 2 1]` the other. The magnitude is `sqrt(gx² + gy²)`; `x` grows to the
//! right, `y` downwards. Negative values become 0 in `u8`. Every channel is treated alike, alpha too.

use dala_plan::work::{Border, Filter};
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::expr::UnaryOp;
use dala_spec::{
    Class, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::{BORDER, DIRECTION, SCALE};
use crate::lower::filter;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("sobel", Class::Stencil)
        .summary("Sobel gradient: where brightness changes")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, filter::same_image)
        .param(
            param(DIRECTION, ParamKind::words(&["magnitude", "x", "y"]))
                .default("magnitude")
                .summary("the length of the gradient, or one of its parts"),
        )
        .param(param(SCALE, ParamKind::Float).default(1.0).range(-256.0, 256.0).summary("a factor on the result"))
        .param(filter::border_param())
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

/// The filters of a call: both parts of the gradient, or one.
fn filters(call: &Signature) -> Vec<Filter> {
    let (change, smooth) = (vec![-1.0, 0.0, 1.0], vec![1.0, 2.0, 1.0]);
    let x = Filter { down: smooth.clone(), across: change.clone() };
    let y = Filter { down: change, across: smooth };
    match call.params.word(DIRECTION) {
        "x" => vec![x],
        "y" => vec![y],
        _ => vec![x, y],
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (filters, border) = (filters(call), Border::from_word(call.params.word(BORDER)));
    let part = |name| Expr::input(name);
    let gradient = match filters.len() {
        1 => part("f0"),
        _ => (part("f0") * part("f0") + part("f1") * part("f1")).unary(UnaryOp::Sqrt),
    };
    filter::filtered(call, facts, border, filters, &(gradient * Expr::param(SCALE)))
}

fn reference(call: &Reference) -> Data {
    let scale = call.number(SCALE);
    filter::reference(call, &filters(call.signature), |_, parts| match parts {
        [one] => one * scale,
        parts => parts.iter().map(|part| part * part).sum::<f64>().sqrt() * scale,
    })
}
