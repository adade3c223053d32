//! Part of a buffer: `out[i] = x[start + i * step]` along each axis. The output's shape says how many elements there are.

use dala_spec::{
    Class, Data, DeviceFacts, KernelSpec, Lowering, NUMBERS, OutputDType, ParamKind, Place, Shape, ShapeCall,
    ShapeProblem, Signature, SpecError, param,
};

use crate::lower::shapes;
use crate::lower::view::{View, strides};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("slice", Class::View)
        .summary("Part of a buffer: `out[i] = x[start + i * step]`")
        .input("x", NUMBERS)
        .computed("any that lies inside the input", OutputDType::Inputs, shape)
        .param(
            param("start", ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("where the part starts along each axis; at 0 if empty"),
        )
        .param(
            param("step", ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("how far apart its elements are along each axis; 1 if empty"),
        );
    Kernel::lowered(spec, lower).example(&[&[3, 4]], &[2, 2]).reference(reference)
}

/// Start and step of each axis.
fn parts(start: &[i64], step: &[i64], rank: usize) -> Option<Vec<(usize, usize)>> {
    let fill = |list: &[i64], value: i64| if list.is_empty() { vec![value; rank] } else { list.to_vec() };
    let (start, step) = (fill(start, 0), fill(step, 1));
    if start.len() != rank || step.len() != rank {
        return None;
    }
    let pair = |(start, step): (i64, i64)| Some((usize::try_from(start).ok()?, usize::try_from(step).ok()?));
    start.into_iter().zip(step).map(pair).collect()
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, chosen) = (call.inputs[0].shape.dims(), shapes::chosen(call)?);
    let parts = parts(call.params.ints("start"), call.params.ints("step"), dims.len());
    let parts = parts.ok_or(ShapeProblem::Param("start", 0.0, f64::from(i32::MAX)))?;
    if chosen.rank() != dims.len() {
        return Err(ShapeProblem::Output(format!("of {} dimensions", dims.len())));
    }
    for (axis, (start, step)) in parts.iter().enumerate() {
        if *step == 0 {
            return Err(ShapeProblem::Param("step", 1.0, f64::from(i32::MAX)));
        }
        let last = chosen.dims()[axis].checked_sub(1).map(|last| start + last * step);
        if last.is_some_and(|last| last >= dims[axis]) {
            let most = dims[axis].saturating_sub(*start).div_ceil(*step);
            return Err(ShapeProblem::Output(format!("of at most {most} elements along axis {axis}")));
        }
    }
    Ok(chosen.clone())
}

fn view(call: &Signature) -> View {
    let dims = call.inputs[0].shape.dims();
    let parts = parts(call.params.ints("start"), call.params.ints("step"), dims.len()).unwrap_or_default();
    let own = strides(dims);
    View {
        dims: call.output.shape.dims().to_vec(),
        offset: parts.iter().zip(&own).map(|((start, _), stride)| start * *stride as usize).sum(),
        strides: parts.iter().zip(&own).map(|((_, step), stride)| *step as i64 * stride).collect(),
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    lowering.step(view(call).task(input.dtype, input.shape.len(), call)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.inputs[0].shape.dims();
    let parts = parts(call.params().ints("start"), call.params().ints("step"), dims.len()).unwrap_or_default();
    let output = call.signature.output.shape.dims();
    call.moved(|index| {
        let (mut rest, mut at, mut size) = (index, 0, 1);
        for axis in (0..dims.len()).rev() {
            at += (parts[axis].0 + rest % output[axis] * parts[axis].1) * size;
            rest /= output[axis];
            size *= dims[axis];
        }
        (0, at)
    })
}
