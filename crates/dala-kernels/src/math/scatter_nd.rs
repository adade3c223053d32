//! Updates put at places along the first axes: the last axis of `indices` is a place in `x`, and `updates` has a part of `x` for each.
//! Of several for one place the last counts, or all of them are joined with what is there. A negative index counts from the end; an
//! update whose index is outside still is left out.

use dala_plan::work::Map;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::{CompareOp, LogicOp, store, widen};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType,
};

use crate::lower::index::{self, INDICES};
use crate::lower::scatter::{self, Lines, Reduction};
use crate::lower::view::{strides, word_of};
use crate::lower::{map, position};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("scatter_nd", Class::Opaque)
        .summary(
            "Updates put at places along the first axes: `out[indices[i, 0], indices[i, 1], .., ..] = updates[i, ..]`",
        )
        .input("indices", INDICES)
        .input("x", NUMBERS)
        .input("updates", NUMBERS)
        .computed("that of `x`", OutputDType::Rest, shape);
    Kernel::lowered(scatter::with_reduction(spec), lower)
        .example(&[&[3, 1], &[4, 5], &[3, 5]], &[4, 5])
        .reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (indices, dims) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let Some((&depth, lead)) = indices.split_last().filter(|(depth, _)| **depth <= dims.len()) else {
        return Err(ShapeProblem::Input(0, format!("with a last axis for places in {}", call.inputs[1].shape)));
    };
    let wanted = Shape::new([lead, &dims[depth..]].concat());
    match call.inputs[2].shape == wanted {
        true => Ok(call.inputs[1].shape.clone()),
        false => Err(ShapeProblem::Input(2, wanted.to_string())),
    }
}

/// The axes that places are along, how many parts there are, how many elements each has, and how many updates there are.
fn sizes(call: &Signature) -> (&[usize], usize, usize, usize) {
    let (indices, dims) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let (depth, lead) = indices.split_last().map_or((0, indices), |(depth, lead)| (*depth, lead));
    let (axes, rest) = dims.split_at(depth.min(dims.len()));
    (axes, axes.iter().product(), rest.iter().product(), lead.iter().product())
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (indices, x, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let (axes, parts, run, count) = sizes(call);
    if count == 0 {
        lowering.step(Task::Map(Map::copy(x)), [Place::Input(1)], Place::Output);
        return Ok(lowering);
    }
    let mut steps = Vec::new();
    let mut inside: Option<Expr> = None;
    for (entry, (size, stride)) in axes.iter().zip(strides(axes)).enumerate() {
        let at = Expr::index() * Expr::size(axes.len()) + Expr::size(entry);
        let place = index::from_start("indices", indices.dtype, at, *size);
        let own = index::is_inside(place.clone(), *size);
        inside = Some(inside.map_or(own.clone(), |all| all.logic(LogicOp::And, own)));
        steps.push((place, stride as usize));
    }
    let place = match inside {
        Some(inside) => Expr::select(inside, position::place(steps), Expr::from(-1).cast(DType::S32)),
        None => Expr::from(0).cast(DType::S32),
    };
    let places_type = TensorType::new(DType::S32, [count]);
    let places = lowering.transient(places_type.clone());
    match axes.is_empty() {
        true => lowering.step(map(&place, &[], places_type.clone(), call)?, [], places),
        false => {
            let named = [("indices", index::words(indices))];
            lowering.step(map(&place, &named, places_type.clone(), call)?, [Place::Input(0)], places);
        }
    }
    let places = (places, places_type);

    let Some(how) = Reduction::of(call) else {
        let lines = Lines { outer: 1, size: parts, inner: 1, count, shared: true };
        let (last, last_type) = scatter::last_updates(&mut lowering, call, facts, lines, places);
        // Bits are moved, whatever they mean: as words where runs allow it.
        let bytes = x.dtype.size();
        let word = word_of(run * bytes);
        let words = |elements: usize| elements * bytes / word.size();
        let mut coordinates = position::coordinates(&[parts, words(run)]).into_iter();
        let (part, within) = (coordinates.next().unwrap_or(Expr::from(0)), coordinates.next().unwrap_or(Expr::from(0)));
        let number = Expr::input("last").gather(part);
        let update = Expr::input("updates").gather(number.clone() * Expr::size(words(run)) + within);
        let kept = number.compare(CompareOp::Lt, 0);
        let expr = Expr::select(kept, Expr::input("x").gather(Expr::index()), update);
        let flat = |len: usize| TensorType::new(word, [words(len)]);
        let named = [("x", flat(x.shape.len())), ("last", last_type), ("updates", flat(count * run))];
        let task = map(&expr, &named, flat(x.shape.len()), call)?;
        lowering.step(task, [Place::Input(1), last, Place::Input(2)], Place::Output);
        return Ok(lowering);
    };
    let lines = Lines { outer: 1, size: parts, inner: run, count, shared: true };
    let updates = scatter::widened(&mut lowering, call, 2)?;
    scatter::joined(&mut lowering, call, facts, (lines, how), places, updates)?;
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (axes, _, run, count) = sizes(call.signature);
    let how = Reduction::of(call.signature);
    let mut out: Vec<Scalar> = call.inputs[1].iter().map(widen).collect();
    for number in 0..count {
        let place = axes.iter().enumerate().try_fold(0, |place, (entry, size)| {
            let found = call.inputs[0].get(number * axes.len() + entry).map_or(0, Scalar::as_i64);
            Some(place * size + index::inside(found, *size)?)
        });
        let Some(place) = place else { continue };
        for within in 0..run {
            let (at, update) = (place * run + within, call.inputs[2].get(number * run + within));
            let update = widen(update.unwrap_or(Scalar::U8(0)));
            out[at] = how.map_or(update, |how| how.apply(out[at], update));
        }
    }
    Data::collect(call.dtype(), out.into_iter().map(|value| store(value, call.dtype())))
}
