//! The axes in another order: axis `i` of the output is axis `axes[i]` of the input; reversed if nothing is said.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, KernelSpec, NUMBERS, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature, SpecError,
    param,
};

use crate::keys::AXES;
use crate::lower::shapes;
use crate::lower::view::{View, strides};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("transpose", Class::View)
        .summary("The axes in another order")
        .input("x", NUMBERS)
        .computed("the input's axes in the new order", OutputDType::Inputs, shape)
        .param(
            param(AXES, ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("the input's axis for each of the output's; reversed if empty"),
        );
    Kernel::lowered(spec, lower).example(&[&[3, 4]], &[4, 3]).reference(reference)
}

fn order(list: &[i64], rank: usize) -> Result<Vec<usize>, ShapeProblem> {
    if list.is_empty() {
        return Ok((0..rank).rev().collect());
    }
    let order = list.iter().map(|axis| shapes::axis("axes", *axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..rank) {
        true => Ok(order),
        false => Err(ShapeProblem::Param("axes", 0.0, rank as f64 - 1.0)),
    }
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let order = order(call.params.ints(AXES), dims.len())?;
    Ok(Shape::new(order.iter().map(|axis| dims[*axis]).collect::<Vec<_>>()))
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    let order = order(call.params.ints(AXES), input.shape.rank())?;
    let (view, _) = View::permuted(input.shape.dims(), &order);
    lowering.step(view.task(input.dtype, input.shape.len(), call, facts)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.inputs[0].shape.dims();
    let order = order(call.params().ints(AXES), dims.len()).unwrap_or_default();
    let own = strides(dims);
    call.moved(|index| {
        let (mut rest, mut at) = (index, 0);
        for axis in order.iter().rev() {
            at += rest % dims[*axis] * own[*axis] as usize;
            rest /= dims[*axis];
        }
        (0, at)
    })
}
