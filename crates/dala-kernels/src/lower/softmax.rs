//! What `softmax` and `log_softmax` share: the largest value of a line, and the sum of powers above it.

use dala_plan::work::{Argument, Finish, FoldOp, Fragment, Phase};
use dala_plan::{Lowering, Place, Task};
use dala_spec::expr::UnaryOp;
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, ShapeProblem, Signature, SpecError, Tolerance, param,
};

use super::halves::in_f32;
use super::{reduce::Line, shapes};
use crate::kernel::{LowerFn, ReferenceFn};
use crate::keys::AXIS;
use crate::{Kernel, Reference};

/// A kernel along the axis of its param `axis`.
pub(crate) fn kernel(name: &str, summary: &str, lower: LowerFn, reference: ReferenceFn) -> Kernel {
    let spec = KernelSpec::new(name, Class::Reduction)
        .summary(summary)
        .input("x", FLOATS)
        .computed("the input's", OutputDType::Inputs, shapes::with_axis)
        .param(param(AXIS, ParamKind::Int).default(-1).summary("the axis, counted from the end if negative"))
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[3, 8]], &[3, 8]).reference(reference)
}

fn line(call: &Signature) -> Result<Line, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    Ok(Line::along(dims, shapes::axis("axis", call.params.int(AXIS), dims.len())?))
}

/// `exp(x - max)`, which does not overflow.
pub(crate) fn power() -> Expr {
    (Expr::input("x") - Expr::input("max")).unary(UnaryOp::Exp)
}

/// Stores what `finish` makes of `x`, of its line's `max`, and of the `sum` of powers.
pub(crate) fn lower(call: &Signature, finish: &Expr) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype;
    let arguments = [Argument::own("x", 0, dtype), Argument::value("max", 0, dtype), Argument::value("sum", 1, dtype)];
    let build = |expr: &Expr, known: usize| Fragment::build(expr, &arguments[..known], dtype, &call.params);
    let phases = vec![
        Phase { how: FoldOp::Max, of: build(&Expr::input("x"), 1)? },
        Phase { how: FoldOp::Sum, of: build(&power(), 2)? },
    ];
    let fold = line(call)?.fold(phases, Finish::Each(build(finish, 3)?));
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(fold), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

/// The same in plain Rust: `finish` gets `x`, `max` and `sum`.
pub(crate) fn reference(call: &Reference, finish: impl Fn(f64, f64, f64) -> f64) -> Data {
    let Ok(Line { length, inner, .. }) = line(call.signature) else { return Data::F32(Vec::new()) };
    call.numbers(|index| {
        let start = index / (length * inner) * length * inner + index % inner;
        let line: Vec<f64> = (0..length).map(|at| call.float(0, start + at * inner)).collect();
        let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = line.iter().map(|x| (x - max).exp()).sum();
        finish(call.float(0, index), max, sum)
    })
}
