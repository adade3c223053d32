//! A reduction: the root of the mean of the squares along the last axis, `sqrt(sum(x * x) / length)`.
//!
//! One phase folds each line, and a last expression makes one element of the sum.

use dala_compute::kernel::expr::UnaryOp;
use dala_compute::kernel::{
    Argument, Class, DeviceFacts, Expr, FLOATS, Finish, FoldOp, Fragment, Kernel, Line, Lowering, OutputDType, Phase,
    Place, Reference, ShapeCall, Signature, Task, Tolerance,
};
use dala_compute::{Data, KernelSpec, Scalar, Shape, ShapeProblem, SpecError};

/// The kernel.
pub(crate) fn kernel() -> Kernel {
    let spec = KernelSpec::new("rms", Class::Reduction)
        .summary("The root of the mean of the squares along the last axis")
        .input("x", FLOATS)
        .computed("the input's without the last axis", OutputDType::Inputs, shape)
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::lowered(spec, lower).example(&[&[5, 12]], &[5]).reference(reference)
}

/// The only output shape that fits a call. It is checked before anything is launched: the rest may rely on it.
fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    match call.inputs[0].shape.dims().split_last() {
        Some((1.., rest)) => Ok(Shape::new(rest)),
        _ => Err(ShapeProblem::Input(0, "of at least one element along the last axis".to_owned())),
    }
}

/// What a device does.
fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (dtype, dims) = (call.output.dtype, call.inputs[0].shape.dims());
    let line = Line::along(dims, dims.len() - 1);
    let square = Expr::input("x") * Expr::input("x");
    let squares =
        Phase { how: FoldOp::Sum, of: Fragment::build(&square, &[Argument::own("x", 0, dtype)], dtype, &call.params)? };
    let mean = Expr::input("sum") / Expr::number(line.length as f64).cast(dtype);
    let root = Fragment::build(&mean.unary(UnaryOp::Sqrt), &[Argument::value("sum", 0, dtype)], dtype, &call.params)?;
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(line.fold(vec![squares], Finish::Once(root))), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

/// The same in plain Rust.
fn reference(call: &Reference) -> Data {
    let axis = call.signature.inputs[0].shape.rank() - 1;
    let root = |line: &Vec<usize>| {
        let squares: f64 = line.iter().map(|at| call.float(0, *at).powi(2)).sum();
        Scalar::from_f64(call.dtype(), (squares / line.len() as f64).sqrt())
    };
    Data::collect(call.dtype(), call.lines(&[axis]).iter().map(root))
}
