//! Part of a buffer: `out[i] = x[start + i * step]` along each axis. The output's shape says how many elements there are.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, KernelSpec, NUMBERS, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature, SpecError,
    param,
};

use crate::keys::{START, STEP};
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
            param(START, ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("where the part starts along each axis; at 0 if empty"),
        )
        .param(
            param(STEP, ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("how far apart its elements are along each axis; 1 if empty"),
        );
    Kernel::lowered(spec, lower).example(&[&[3, 4]], &[2, 2]).reference(reference)
}

/// Start and step of each axis; the param that does not fit otherwise.
fn parts(start: &[i64], step: &[i64], dims: &[usize]) -> Result<Vec<(usize, usize)>, ShapeProblem> {
    let most = f64::from(i32::MAX);
    let fill = |name: &'static str, list: &[i64], value: i64| -> Result<Vec<usize>, ShapeProblem> {
        let list = if list.is_empty() { vec![value; dims.len()] } else { list.to_vec() };
        let number = |own: &i64| usize::try_from(*own).ok().filter(|own| *own >= value as usize);
        let numbers: Option<Vec<usize>> = list.iter().map(number).collect();
        numbers.filter(|list| list.len() == dims.len()).ok_or(ShapeProblem::Param(name, value as f64, most))
    };
    let (start, step) = (fill("start", start, 0)?, fill("step", step, 1)?);
    for (start, size) in start.iter().zip(dims) {
        if start > size {
            return Err(ShapeProblem::Param("start", 0.0, *size as f64));
        }
    }
    Ok(start.into_iter().zip(step).collect())
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, chosen) = (call.inputs[0].shape.dims(), shapes::chosen(call)?);
    let parts = parts(call.params.ints(START), call.params.ints(STEP), dims)?;
    if chosen.rank() != dims.len() {
        return Err(ShapeProblem::Output(format!("of {} dimensions", dims.len())));
    }
    for (axis, (start, step)) in parts.iter().enumerate() {
        let most = dims[axis].saturating_sub(*start).div_ceil(*step);
        if chosen.dims()[axis] > most {
            return Err(ShapeProblem::Output(format!("of at most {most} elements along axis {axis}")));
        }
    }
    Ok(chosen.clone())
}

fn view(call: &Signature) -> Result<View, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let parts = parts(call.params.ints(START), call.params.ints(STEP), dims)?;
    let own = strides(dims);
    Ok(View {
        dims: call.output.shape.dims().to_vec(),
        offset: parts.iter().zip(&own).map(|((start, _), stride)| start * *stride as usize).sum(),
        // A step that is never taken may be of any size.
        strides: parts.iter().zip(&own).map(|((_, step), stride)| (*step as i64).saturating_mul(*stride)).collect(),
    })
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    lowering.step(view(call)?.task(input.dtype, input.shape.len(), call, facts)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.inputs[0].shape.dims();
    let parts = parts(call.params().ints(START), call.params().ints(STEP), dims).unwrap_or_default();
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
