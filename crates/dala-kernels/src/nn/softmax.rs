//! Softmax along an axis: `exp(x - max) / sum(exp(x - max))`, so that large values do not overflow.

use dala_spec::expr::UnaryOp;
use dala_spec::work::{Argument, Finish, FoldOp, Fragment, Phase};
use dala_spec::{
    Class, Data, DeviceFacts, Expr, FLOATS, KernelSpec, Lowering, OutputDType, ParamKind, Place, Scalar, Signature,
    SpecError, Task, Tolerance, param,
};

use crate::lower::{reduce::Line, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("softmax", Class::Reduction)
        .summary("Softmax along an axis")
        .input("x", FLOATS)
        .computed("the input's", OutputDType::Inputs, shapes::with_axis)
        .param(param("axis", ParamKind::Int).default(-1).summary("the axis, counted from the end if negative"))
        .tolerance(Tolerance::Close { epsilons: 64.0, absolute_epsilons: 64.0 });
    Kernel::lowered(spec, lower).example(&[&[3, 8]], &[3, 8]).reference(reference)
}

fn axis(call: &Signature) -> usize {
    shapes::axis("axis", call.params.int("axis"), call.inputs[0].shape.rank()).unwrap_or_default()
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype;
    let arguments = [Argument::own("x", 0, dtype), Argument::value("max", 0, dtype), Argument::value("sum", 1, dtype)];
    let exp = (Expr::input("x") - Expr::input("max")).unary(UnaryOp::Exp);
    let max = Fragment::build(&Expr::input("x"), &arguments[..1], dtype, &call.params)?;
    let sum = Fragment::build(&exp, &arguments[..2], dtype, &call.params)?;
    let finish = exp / Expr::input("sum");
    let finish = Fragment::build(&finish, &arguments, dtype, &call.params)?;
    let phases = vec![Phase { how: FoldOp::Max, of: max }, Phase { how: FoldOp::Sum, of: sum }];
    let fold = Line::along(call.inputs[0].shape.dims(), axis(call)).fold(phases, Finish::Each(finish));
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(fold), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let axis = axis(call.signature);
    let dims = call.signature.inputs[0].shape.dims();
    let (length, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    let element = |index: usize| {
        let start = index / (length * inner) * length * inner + index % inner;
        let line: Vec<f64> = (0..length).map(|at| call.float(0, start + at * inner)).collect();
        let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = line.iter().map(|x| (x - max).exp()).sum();
        let x = call.float(0, index);
        Scalar::from_f64(call.dtype(), (x - max).exp() / sum)
    };
    Data::collect(call.dtype(), (0..call.len()).map(element))
}
