//! Updates put one by one at places along an axis: `out[.., indices[.., i, ..], ..] = updates[.., i, ..]`, and `x` elsewhere. Of several
//! for one place the last counts, or all of them are joined with the element there. A negative index counts from the end; an update
//! whose index is outside still is left out.

use dala_plan::work::Map;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::{CompareOp, LogicOp, store, widen};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem,
    Signature, SpecError, TensorType, param,
};

use crate::keys::AXIS;
use crate::lower::index::{self, INDICES};
use crate::lower::reduce::Line;
use crate::lower::scatter::{self, Lines, Reduction};
use crate::lower::view::{strides, word_of};
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("scatter_elements", Class::Opaque)
        .summary(
            "Updates put one by one at places along an axis: `out[.., indices[.., i, ..], ..] = updates[.., i, ..]`",
        )
        .input("indices", INDICES)
        .input("x", NUMBERS)
        .input("updates", NUMBERS)
        .computed("that of `x`", OutputDType::Rest, shape)
        .param(param(AXIS, ParamKind::Int).default(0).summary("the axis, counted from the end if negative"));
    Kernel::lowered(scatter::with_reduction(spec), lower)
        .example(&[&[2, 3], &[4, 3], &[2, 3]], &[4, 3])
        .reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (indices, dims) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let fits = |(own, (size, count)): (usize, (&usize, &usize))| own == axis || count <= size;
    if indices.len() != dims.len() || !dims.iter().zip(indices).enumerate().all(fits) {
        let wanted = format!("no larger than {}, but for axis {axis}", call.inputs[1].shape);
        return Err(ShapeProblem::Input(0, wanted));
    }
    match call.inputs[2].shape == call.inputs[0].shape {
        true => Ok(call.inputs[1].shape.clone()),
        false => Err(ShapeProblem::Input(2, format!("{}, as the indices", call.inputs[0].shape))),
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (indices, x, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    if indices.shape.is_empty() {
        lowering.step(Task::Map(Map::copy(x)), [Place::Input(1)], Place::Output);
        return Ok(lowering);
    }
    let dims = x.shape.dims();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let Line { outer, length, inner } = Line::along(dims, axis);
    let lines = Lines { outer, size: length, inner, count: indices.shape.dims()[axis], shared: false };
    // A place for each update, and none for lines that have no updates.
    let mut sizes = dims.to_vec();
    sizes[axis] = lines.count;
    let own: Vec<usize> = strides(indices.shape.dims()).into_iter().map(|stride| stride as usize).collect();
    let coordinates = position::coordinates(&sizes);
    let at = position::place(coordinates.iter().cloned().zip(own.iter().copied()));
    let some = coordinates.iter().zip(sizes.iter().zip(indices.shape.dims())).filter(|(_, (size, count))| count < size);
    let covered = some.map(|(at, (_, count))| at.clone().compare(CompareOp::Lt, Expr::size(*count)));
    let place = index::from_start("indices", indices.dtype, at.clone(), length);
    let inside = covered.fold(index::is_inside(place.clone(), length), |all, one| one.logic(LogicOp::And, all));
    let place = Expr::select(inside, place, Expr::from(-1).cast(DType::S32));
    let updates_len = lines.outer * lines.count * lines.inner;
    let places_type = TensorType::new(DType::S32, [updates_len]);
    let places = lowering.transient(places_type.clone());
    lowering.step(
        map(&place, &[("indices", index::words(indices))], places_type.clone(), call)?,
        [Place::Input(0)],
        places,
    );
    let places = (places, places_type);

    let Some(how) = Reduction::of(call) else {
        let (last, last_type) = scatter::last_updates(&mut lowering, call, facts, lines, places);
        // Bits are moved, whatever they mean: large elements as two words.
        let word = word_of(x.dtype.size());
        let each = x.dtype.size() / word.size();
        let all: Vec<usize> = dims.iter().copied().chain((each > 1).then_some(each)).collect();
        let coordinates = position::coordinates(&all);
        let element = match each {
            1 => Expr::index(),
            _ => {
                let strides = strides(dims).into_iter().map(|stride| stride as usize);
                position::place(coordinates.iter().cloned().zip(strides))
            }
        };
        let number = Expr::input("last").gather(element);
        let step = |((place, at), stride): ((usize, Expr), usize)| match place == axis {
            true => (number.clone(), stride),
            false => (at, stride),
        };
        let steps = own.iter().map(|stride| stride * each).chain([1]);
        let update = position::place(coordinates.into_iter().enumerate().zip(steps).map(step));
        let update = Expr::input("updates").gather(update);
        let kept = number.clone().compare(CompareOp::Lt, 0);
        let expr = Expr::select(kept, Expr::input("x").gather(Expr::index()), update);
        let words = |ty: &TensorType| TensorType::new(word, [ty.shape.len() * each]);
        let named = [("x", words(x)), ("last", last_type), ("updates", words(&call.inputs[2]))];
        lowering.step(map(&expr, &named, words(x), call)?, [Place::Input(1), last, Place::Input(2)], Place::Output);
        return Ok(lowering);
    };
    let wide = |len: usize| TensorType::new(x.dtype.register(), [len]);
    let updates = lowering.transient(wide(updates_len));
    let expr = Expr::input("u").gather(at);
    let named = [("u", call.inputs[2].clone())];
    lowering.step(map(&expr, &named, wide(updates_len), call)?, [Place::Input(2)], updates);
    let updates = (updates, wide(updates_len));
    scatter::joined(&mut lowering, call, facts, (lines, how), places, updates)?;
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (indices, dims) = (call.signature.inputs[0].shape.dims(), call.signature.inputs[1].shape.dims());
    let axis = shapes::axis("axis", call.params().int(AXIS), dims.len()).unwrap_or_default();
    let how = Reduction::of(call.signature);
    let mut out: Vec<Scalar> = call.inputs[1].iter().map(widen).collect();
    for (number, update) in call.inputs[2].iter().enumerate() {
        let found = call.inputs[0].get(number).map_or(0, Scalar::as_i64);
        let Some(found) = index::inside(found, dims[axis]) else { continue };
        let (mut rest, mut place, mut stride) = (number, 0, 1);
        for own in (0..dims.len()).rev() {
            place += if own == axis { found } else { rest % indices[own] } * stride;
            rest /= indices[own];
            stride *= dims[own];
        }
        out[place] = how.map_or(widen(update), |how| how.apply(out[place], widen(update)));
    }
    Data::collect(call.dtype(), out.into_iter().map(|value| store(value, call.dtype())))
}
