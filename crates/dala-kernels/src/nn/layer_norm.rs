//! Layer normalisation over the last axis: `(x - mean) / sqrt(variance + epsilon) * scale + bias`, with the variance of the whole
//! line (divided by its length). `scale` and `bias` have one element for each place of the axis, or one for all.

use dala_plan::work::{Argument, Finish, FoldOp, Fragment, Phase};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::UnaryOp;
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, Tolerance, param,
};

use crate::keys::EPSILON;
use crate::lower::halves::in_f32;
use crate::lower::reduce::Line;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("layer_norm", Class::Reduction)
        .summary("Layer normalisation over the last axis")
        .input("x", FLOATS)
        .input("scale", FLOATS)
        .input("bias", FLOATS)
        .computed("the input's", OutputDType::Inputs, shape)
        .param(param(EPSILON, ParamKind::Float).default(1e-5).range(0.0, 1.0).summary("added to the variance"))
        .tolerance(Tolerance::close(512.0, 512.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[3, 8], &[8], &[8]], &[3, 8]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let Some(last) = call.inputs[0].shape.dims().last() else {
        return Err(ShapeProblem::Input(0, "of at least one dimension".to_owned()));
    };
    for index in [1, 2] {
        let own = &call.inputs[index].shape;
        if own.len() != 1 && own.dims() != [*last] {
            return Err(ShapeProblem::Input(index, format!("{{{last}}}")));
        }
    }
    Ok(call.inputs[0].shape.clone())
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (dtype, dims) = (call.output.dtype, call.inputs[0].shape.dims());
    let count = || Expr::number(dims[dims.len() - 1] as f64).cast(dtype);
    let arguments = [
        Argument::own("x", 0, dtype),
        Argument::value("sum", 0, dtype),
        Argument::value("rest", 1, dtype),
        Argument::value("squares", 2, dtype),
        Argument::column("scale", 1, &call.inputs[1]),
        Argument::column("bias", 2, &call.inputs[2]),
    ];
    let build = |expr: &Expr, known: usize| Fragment::build(expr, &arguments[..known], dtype, &call.params);
    // Far from zero the first mean is only roughly right: what is left over corrects it.
    let rough = || Expr::input("x") - Expr::input("sum") / count();
    let centred = || rough() - Expr::input("rest") / count();
    let variance = Expr::input("squares") / count() + Expr::param(EPSILON);
    let normal = centred() / variance.unary(UnaryOp::Sqrt) * Expr::input("scale") + Expr::input("bias");
    let phases = vec![
        Phase { how: FoldOp::Sum, of: build(&Expr::input("x"), 1)? },
        Phase { how: FoldOp::Sum, of: build(&rough(), 2)? },
        Phase { how: FoldOp::Sum, of: build(&(centred() * centred()), 3)? },
    ];
    let fold = Line::along(dims, dims.len() - 1).fold(phases, Finish::Each(build(&normal, 6)?));
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(fold), crate::lower::inputs(call), Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.inputs[0].shape.dims();
    let (length, epsilon) = (dims[dims.len() - 1], call.number(EPSILON));
    let of_line = |input: usize, at: usize| call.float(input, if call.inputs[input].len() == 1 { 0 } else { at });
    call.numbers(|index| {
        let start = index / length * length;
        let line: Vec<f64> = (start..start + length).map(|at| call.float(0, at)).collect();
        let mean = line.iter().sum::<f64>() / length as f64;
        let variance = line.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / length as f64;
        let normal = (call.float(0, index) - mean) / (variance + epsilon).sqrt();
        normal * of_line(1, index - start) + of_line(2, index - start)
    })
}
