//! Batch normalisation with known statistics, channel by channel: `(x - mean) / sqrt(variance + epsilon) * scale + bias`. Channels
//! are the last axis.

use dala_spec::expr::UnaryOp;
use dala_spec::{
    Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature, Tolerance, param,
};

use crate::keys::EPSILON;
use crate::lower::position;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("batch_norm")
        .summary("Batch normalisation of the last axis: `(x - mean) / sqrt(variance + epsilon) * scale + bias`")
        .input("x", FLOATS)
        .input("scale", FLOATS)
        .input("bias", FLOATS)
        .input("mean", FLOATS)
        .input("variance", FLOATS)
        .computed("the input's", OutputDType::Inputs, shape)
        .param(param(EPSILON, ParamKind::Float).default(1e-5).range(0.0, 1.0).summary("added to the variance"))
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::pointwise(spec, work).example(&[&[2, 3, 2, 5], &[5], &[5], &[5], &[5]], &[2, 3, 2, 5]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let Some(channels) = call.inputs[0].shape.dims().last() else {
        return Err(ShapeProblem::Input(0, "of at least one dimension".to_owned()));
    };
    match (1..5).find(|index| call.inputs[*index].shape.dims() != [*channels]) {
        Some(index) => Err(ShapeProblem::Input(index, format!("{{{channels}}}"))),
        None => Ok(call.inputs[0].shape.clone()),
    }
}

fn work(call: &Signature) -> Expr {
    let channels = call.inputs[1].shape.len();
    let place = position::coordinates(&[call.output.shape.len() / channels.max(1), channels]);
    let own = |name: &str| Expr::input(name).gather(place[1].clone());
    let deviation = (own("variance") + Expr::param(EPSILON)).unary(UnaryOp::Sqrt);
    (Expr::input("x") - own("mean")) / deviation * own("scale") + own("bias")
}

fn reference(call: &Reference) -> Data {
    let epsilon = call.number(EPSILON);
    call.numbers(|index| {
        let of_channel = |input: usize| call.float(input, index % call.inputs[input].len());
        let normal = (call.float(0, index) - of_channel(3)) / (of_channel(4) + epsilon).sqrt();
        normal * of_channel(1) + of_channel(2)
    })
}
