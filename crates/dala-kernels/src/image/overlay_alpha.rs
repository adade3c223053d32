//! A picture with alpha over another one: `over * a + base * (1 - a)` with `a` the overlay's alpha times `opacity`. Over a base that
//! has alpha itself, colours are weighed by both; where nothing is visible the result is 0.

use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    Tolerance, param,
};

use crate::keys::OPACITY;
use crate::lower::{pixel, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("overlay_alpha", Class::Pixel)
        .summary("A picture with alpha over another one")
        .input("base", PIXELS)
        .input("overlay", PIXELS)
        .computed("the base's", OutputDType::Inputs, shape)
        .param(param(OPACITY, ParamKind::Float).default(1.0).range(0.0, 1.0).summary("a factor on the overlay's alpha"))
        .tolerance(Tolerance::close(16.0, 16.0).levels(1));
    Kernel::pointwise(spec, work).example(&[&[5, 7, 4], &[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let base = shapes::picture(call, 0)?;
    if base.channels == 1 {
        return Err(ShapeProblem::Input(0, "{height, width, channels} with 3 or 4 channels".to_owned()));
    }
    let wanted = [base.height, base.width, 4];
    match call.inputs[1].shape.dims() == wanted {
        true => Ok(call.inputs[0].shape.clone()),
        false => Err(ShapeProblem::Input(1, Shape::from(wanted).to_string())),
    }
}

fn work(call: &Signature) -> Expr {
    let full = pixel::full(call.output.dtype);
    let float = |expr: Expr| expr.cast(DType::F32);
    let (base, over) = (|| Expr::input("base"), || Expr::input("overlay"));
    let a = || float(over().channel_of(3)) * (Expr::param(OPACITY) * (1.0 / full));
    let rest = || Expr::from(1.0) - a();
    if call.output.shape.dims()[2] == 3 {
        return float(over()) * a() + float(base()) * rest();
    }
    let base_alpha = || float(base().channel_of(3)) * (1.0 / full);
    let alpha = || a() + base_alpha() * rest();
    let colour = (float(over()) * a() + float(base()) * base_alpha() * rest()) / alpha();
    let colour = Expr::select(alpha().compare(CompareOp::Gt, 0.0), colour, Expr::from(0.0));
    Expr::select(Expr::channel().compare(CompareOp::Eq, 3), alpha() * full, colour)
}

fn reference(call: &Reference) -> Data {
    let (full, channels) = (pixel::full(call.dtype()), call.signature.output.shape.dims()[2]);
    let opacity = call.number(OPACITY);
    call.numbers(|index| {
        let (pixel, channel) = (index / channels, index % channels);
        let a = call.float(1, pixel * 4 + 3) / full * opacity;
        let (over, base) = (call.float(1, pixel * 4 + channel), call.float(0, index));
        if channels == 3 {
            return over * a + base * (1.0 - a);
        }
        let base_alpha = call.float(0, pixel * 4 + 3) / full;
        let alpha = a + base_alpha * (1.0 - a);
        match (channel, alpha) {
            (3, _) => alpha * full,
            (_, alpha) if alpha <= 0.0 => 0.0,
            _ => (over * a + base * base_alpha * (1.0 - a)) / alpha,
        }
    })
}
