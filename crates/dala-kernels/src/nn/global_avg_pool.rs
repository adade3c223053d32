//! The mean of each channel of pictures: `{batch, height, width, channels}` becomes `{batch, 1, 1, channels}`. The mean of nothing
//! is NaN.

use dala_plan::work::FoldOp;
use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, Scalar, Shape, ShapeCall, ShapeProblem, Signature, SpecError,
    Tolerance,
};

use crate::lower::halves::in_f32;
use crate::lower::reduce::{Reduction, reduced};
use crate::{Kernel, Reference};

/// Rows and columns: neighbours, so that they are folded as one, with all channels side by side.
const AXES: [usize; 2] = [1, 2];

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("global_avg_pool", Class::Reduction)
        .summary("Mean of each channel of a picture")
        .input("x", FLOATS)
        .computed("{batch, 1, 1, channels}", OutputDType::Inputs, shape)
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[2, 3, 4, 5]], &[2, 1, 1, 5]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    match *call.inputs[0].shape.dims() {
        [batch, _, _, channels] => Ok(Shape::from([batch, 1, 1, channels])),
        _ => Err(ShapeProblem::Input(0, "{batch, height, width, channels}".to_owned())),
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype;
    let count: f64 = AXES.iter().map(|axis| call.inputs[0].shape.dims()[*axis] as f64).product();
    let finish = Expr::input("r") / Expr::number(count).cast(dtype);
    reduced(call, facts, &AXES, &Reduction { how: FoldOp::Sum, dtype, finish })
}

fn reference(call: &Reference) -> Data {
    let lines = call.lines(&AXES);
    let mean = |line: &Vec<usize>| line.iter().map(|at| call.float(0, *at)).sum::<f64>() / line.len() as f64;
    Data::collect(call.dtype(), lines.iter().map(|line| Scalar::from_f64(call.dtype(), mean(line))))
}
