//! Parts picked by their place along several axes: the last axis of `indices` is a place along the first axes of `x`, after
//! `batch_dims` axes that both have. A negative index counts from the end; one that is outside still counts as the nearest inside.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, param,
};

use crate::keys::BATCH_DIMS;
use crate::lower::index::{self, INDICES};
use crate::lower::view::{strides, word_of};
use crate::lower::{map, position};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("gather_nd", Class::View)
        .summary(
            "Parts picked by their place along the first axes: `out[i, ..] = x[indices[i, 0], indices[i, 1], .., ..]`",
        )
        .input("x", NUMBERS)
        .input("indices", INDICES)
        .computed(
            "the indices' without the last axis, then the input's axes that no index is for",
            OutputDType::First,
            shape,
        )
        .param(
            param(BATCH_DIMS, ParamKind::Int)
                .default(0)
                .range(0.0, 8.0)
                .summary("how many first axes both inputs have in common"),
        );
    Kernel::lowered(spec, lower).example(&[&[4, 3, 2], &[5, 2]], &[5, 2]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, indices) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let batch = call.params.int(BATCH_DIMS).max(0) as usize;
    let wanted = || format!("with {batch} axes of {} and a last axis for places in the others", call.inputs[0].shape);
    let Some((&depth, lead)) = indices.split_last() else { return Err(ShapeProblem::Input(1, wanted())) };
    if lead.len() < batch || depth > dims.len().saturating_sub(batch) || dims[..batch] != lead[..batch] {
        return Err(ShapeProblem::Input(1, wanted()));
    }
    let shape = Shape::new([lead, &dims[batch + depth..]].concat());
    match dims[batch..batch + depth].contains(&0) && !shape.is_empty() {
        true => Err(ShapeProblem::Input(0, "at least one element along the axes that are picked from".to_owned())),
        false => Ok(shape),
    }
}

/// The sizes of a call.
struct Sizes<'a> {
    /// Places for each element of the first axes.
    count: usize,
    /// The axes that are picked from, and how many elements a step along each moves.
    axes: &'a [usize],
    steps: Vec<usize>,
    /// Elements of `x` for each element of the first axes.
    block: usize,
    /// Elements that are picked together.
    run: usize,
}

impl Sizes<'_> {
    fn of(call: &Signature) -> Sizes<'_> {
        let (dims, indices) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
        let batch = call.params.int(BATCH_DIMS).max(0) as usize;
        let (depth, lead) = indices.split_last().map_or((0, indices), |(depth, lead)| (*depth, lead));
        let own = strides(dims).into_iter().map(|stride| stride as usize);
        Sizes {
            count: lead[batch..].iter().product(),
            axes: &dims[batch..batch + depth],
            steps: own.skip(batch).take(depth).collect(),
            block: dims[batch..].iter().product(),
            run: dims[batch + depth..].iter().product(),
        }
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, indices, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let Sizes { count, axes, steps, block, run } = Sizes::of(call);
    // Bits are moved, whatever they mean: as words where runs allow it.
    let bytes = x.dtype.size();
    let word = word_of(run * bytes);
    let words = |elements: usize| elements * bytes / word.size();
    let blocks = x.shape.len() / block.max(1);
    let sizes = [blocks, count, words(run)];
    let used: Vec<usize> = (0..3).filter(|axis| *axis == 1 || sizes[*axis] > 1).collect();
    let coordinates = position::coordinates(&used.iter().map(|axis| sizes[*axis]).collect::<Vec<_>>());
    let coordinate = |axis: usize| used.iter().position(|own| *own == axis).map(|place| coordinates[place].clone());
    let mut places = Vec::new();
    let mut number = coordinate(1).unwrap_or(Expr::from(0));
    if let Some(batch) = coordinate(0) {
        number = batch.clone() * Expr::size(count) + number;
        places.push((batch, words(block)));
    }
    for (entry, (size, step)) in axes.iter().zip(steps).enumerate() {
        let at = number.clone() * Expr::size(axes.len()) + Expr::size(entry);
        places.push((index::kept("indices", indices.dtype, at, *size), words(step)));
    }
    places.extend(coordinate(2).map(|inside| (inside, 1)));
    let mut named = vec![("x", TensorType::new(word, [words(x.shape.len())]))];
    let mut reads = vec![Place::Input(0)];
    if !axes.is_empty() {
        named.push(("indices", index::words(indices)));
        reads.push(Place::Input(1));
    }
    let output = TensorType::new(word, [words(call.output.shape.len())]);
    let task = map(&Expr::input("x").gather(position::place(places)), &named, output, call)?;
    lowering.step(task, reads, Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let Sizes { count, axes, steps, block, run } = Sizes::of(call.signature);
    call.moved(|at| {
        let (number, inside) = (at / run, at % run);
        let entries = axes.iter().zip(&steps).enumerate().map(|(entry, (size, step))| {
            let found = call.inputs[1].get(number * axes.len() + entry).map_or(0, Scalar::as_i64);
            index::nearest(found, *size) * step
        });
        (0, number / count * block + entries.sum::<usize>() + inside)
    })
}
