//! BT.601 luma: `0.299 r + 0.587 g + 0.114 b`. The output has one channel, or the input's channels with equal values; alpha
//! passes through.

use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, Data, Expr, KernelSpec, OutputDType, PIXELS, Shape, ShapeCall, ShapeProblem, Signature, Tolerance,
};

use crate::lower::shapes;
use crate::{Kernel, Reference};

const WEIGHTS: [f64; 3] = [0.299, 0.587, 0.114];

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("grayscale", Class::Pixel)
        .summary("BT.601 luma, in one channel or in all")
        .input("x", PIXELS)
        .computed("the input's, or one channel", OutputDType::Inputs, shape)
        .tolerance(Tolerance::close(8.0, 8.0).levels(1));
    Kernel::pointwise(spec, work).example(&[&[5, 7, 4]], &[5, 7]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let image = shapes::picture(call, 0)?;
    let (height, width) = (image.height, image.width);
    let Some(chosen) = call.output else { return Ok(Shape::from([height, width])) };
    let fits =
        chosen.dims() == [height, width] || chosen.dims() == [height, width, 1] || *chosen == call.inputs[0].shape;
    let wanted = || format!("{{{height}, {width}}}, {{{height}, {width}, 1}} or {}", call.inputs[0].shape);
    if fits { Ok(chosen.clone()) } else { Err(ShapeProblem::Output(wanted())) }
}

/// Channels of input and output.
fn channels(call: &Signature) -> (usize, usize) {
    let of = |shape: &Shape| shape.image().map_or(1, |image| image.channels);
    (of(&call.inputs[0].shape), of(&call.output.shape))
}

fn work(call: &Signature) -> Expr {
    let x = || Expr::input("x");
    let (from, to) = channels(call);
    if from == 1 {
        return x();
    }
    let [r, g, b] = WEIGHTS;
    let luma = x().channel_of(0) * r + x().channel_of(1) * g + x().channel_of(2) * b;
    match to {
        4 => Expr::select(Expr::channel().compare(CompareOp::Eq, 3), x(), luma),
        _ => luma,
    }
}

fn reference(call: &Reference) -> Data {
    let (from, to) = channels(call.signature);
    call.numbers(|index| {
        let first = index / to * from;
        match index % to {
            3 => call.float(0, first + 3),
            _ if from == 1 => call.float(0, first),
            _ => WEIGHTS.iter().enumerate().map(|(channel, weight)| weight * call.float(0, first + channel)).sum(),
        }
    })
}
