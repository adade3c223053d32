//! Sequences from their last element to their first: those of a batch have lengths of their own, and what is after the end of one
//! stays where it is. A length that is outside counts as the nearest inside.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Params, Scalar, Shape, ShapeCall, ShapeProblem,
    Signature, SpecError, TensorType, param,
};

use crate::keys::{BATCH_AXIS, TIME_AXIS};
use crate::lower::index::{self, INDICES};
use crate::lower::view::{strides, word_of};
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("reverse_sequence", Class::View)
        .summary("Sequences of different lengths, each from its last element to its first")
        .input("x", NUMBERS)
        .input("lengths", INDICES)
        .computed("the first input's", OutputDType::First, shape)
        .param(param(BATCH_AXIS, ParamKind::Int).default(0).summary("the axis of the sequences"))
        .param(param(TIME_AXIS, ParamKind::Int).default(1).summary("the axis that they are turned round along"));
    Kernel::lowered(spec, lower)
        .example(&[&[3, 4, 2], &[3]], &[3, 4, 2])
        .example_params(Params::new)
        .reference(reference)
}

fn axes(dims: &[usize], batch: i64, time: i64) -> Result<(usize, usize), ShapeProblem> {
    Ok((shapes::axis("batch_axis", batch, dims.len())?, shapes::axis("time_axis", time, dims.len())?))
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let (batch, time) = axes(dims, call.params.int(BATCH_AXIS), call.params.int(TIME_AXIS))?;
    if batch == time {
        return Err(ShapeProblem::Input(0, "with different axes for sequences and their elements".to_owned()));
    }
    match call.inputs[1].shape.dims() == [dims[batch]] {
        true => Ok(call.inputs[0].shape.clone()),
        false => Err(ShapeProblem::Input(1, format!("{{{}}}", dims[batch]))),
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, lengths, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let dims = x.shape.dims();
    let (batch, time) = axes(dims, call.params.int(BATCH_AXIS), call.params.int(TIME_AXIS))?;
    // Bits are moved, whatever they mean: large elements as two words.
    let word = word_of(x.dtype.size());
    let each = x.dtype.size() / word.size();
    let sizes: Vec<usize> = dims.iter().copied().chain((each > 1).then_some(each)).collect();
    let coordinates = position::coordinates(&sizes);
    let at = coordinates[time].clone();
    let length = index::from_start("lengths", lengths.dtype, coordinates[batch].clone(), 0).min(Expr::size(dims[time]));
    let back = length.clone() - 1 - at.clone();
    let along = Expr::select(at.clone().compare(CompareOp::Lt, length), back, at);
    let places = strides(dims).into_iter().map(|stride| stride as usize * each).chain([1]);
    let step = |((axis, at), stride): ((usize, Expr), usize)| (if axis == time { along.clone() } else { at }, stride);
    let place = position::place(coordinates.into_iter().enumerate().zip(places).map(step));
    let flat = TensorType::new(word, [x.shape.len() * each]);
    let named = [("x", flat.clone()), ("lengths", index::words(lengths))];
    let task = map(&Expr::input("x").gather(place), &named, flat, call)?;
    lowering.step(task, [Place::Input(0), Place::Input(1)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.inputs[0].shape.dims();
    let axes = axes(dims, call.params().int(BATCH_AXIS), call.params().int(TIME_AXIS));
    let (batch, time) = axes.unwrap_or_default();
    let strides = strides(dims);
    call.moved(|index| {
        let along = |axis: usize| index / strides[axis] as usize % dims[axis];
        let length = call.inputs[1].get(along(batch)).map_or(0, Scalar::as_i64).clamp(0, dims[time] as i64) as usize;
        let at = along(time);
        let found = if at < length { length - 1 - at } else { at };
        (0, index - at * strides[time] as usize + found * strides[time] as usize)
    })
}
