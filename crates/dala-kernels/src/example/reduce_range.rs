//! Largest minus smallest element along an axis: `max(x) - min(x)`. NaN counts only where there is nothing else.

use dala_plan::work::{Argument, Finish, FoldOp, Fragment, Phase};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, param,
};

use crate::keys::AXIS;
use crate::lower::{reduce::Line, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("reduce_range", Class::Reduction)
        .summary("Largest minus smallest element along an axis")
        .input("x", FLOATS)
        .computed("the input's without the axis", OutputDType::Inputs, shape)
        .param(param(AXIS, ParamKind::Int).default(-1).summary("the axis, counted from the end if negative"));
    Kernel::lowered(spec, lower).example(&[&[5, 12]], &[5]).reference(reference)
}

/// The only output shape that fits a call.
fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let mut dims = call.inputs[0].shape.dims().to_vec();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let length = dims.remove(axis);
    let shape = Shape::new(dims);
    match length == 0 && !shape.is_empty() {
        true => Err(ShapeProblem::Input(0, "at least one element along the axis".to_owned())),
        false => Ok(shape),
    }
}

fn axis(call: &Signature) -> Result<usize, ShapeProblem> {
    shapes::axis("axis", call.params.int(AXIS), call.inputs[0].shape.rank())
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype;
    // What is folded: the step's first read, as it is.
    let value = Fragment::build(&Expr::input("x"), &[Argument::own("x", 0, dtype)], dtype, &call.params)?;
    let phases = vec![Phase { how: FoldOp::Max, of: value.clone() }, Phase { how: FoldOp::Min, of: value }];
    // What is written: the results of the phases are values 0 and 1.
    let results = [Argument::value("max", 0, dtype), Argument::value("min", 1, dtype)];
    let range = Expr::input("max") - Expr::input("min");
    let finish = Finish::Once(Fragment::build(&range, &results, dtype, &call.params)?);
    let fold = Line::along(call.inputs[0].shape.dims(), axis(call)?).fold(phases, finish);
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(fold), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let lines = call.lines(&[axis(call.signature).unwrap_or_default()]);
    let range = |line: &Vec<usize>| {
        let values = || line.iter().map(|at| call.float(0, *at));
        let (max, min) = (values().fold(f64::NAN, f64::max), values().fold(f64::NAN, f64::min));
        Scalar::from_f64(call.dtype(), max - min)
    };
    Data::collect(call.dtype(), lines.iter().map(range))
}
