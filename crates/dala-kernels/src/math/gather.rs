//! Elements picked along an axis: `out[.., i, ..] = x[.., indices[i], ..]`. The axes of `indices` take the place of the axis. A
//! negative index counts from the end; one that is outside still counts as the nearest inside.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, param,
};

use crate::keys::AXIS;
use crate::lower::index::{self, INDICES};
use crate::lower::view::word_of;
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("gather", Class::View)
        .summary("Elements picked along an axis: `out[.., i, ..] = x[.., indices[i], ..]`")
        .input("x", NUMBERS)
        .input("indices", INDICES)
        .computed("the input's, with the indices' axes in place of the axis", OutputDType::First, shape)
        .param(param(AXIS, ParamKind::Int).default(0).summary("the axis, counted from the end if negative"));
    Kernel::lowered(spec, lower).example(&[&[4, 3], &[2, 5]], &[2, 5, 3]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, indices) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let shape = Shape::new([&dims[..axis], indices, &dims[axis + 1..]].concat());
    match dims[axis] == 0 && !shape.is_empty() {
        true => Err(ShapeProblem::Input(0, "at least one element along the axis".to_owned())),
        false => Ok(shape),
    }
}

/// The size of the axis, and how many elements each step along it moves.
fn axis(call: &Signature) -> Result<(usize, usize), ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    Ok((dims[axis], dims[axis + 1..].iter().product()))
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, indices, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let (size, run) = axis(call)?;
    // Bits are moved, whatever they mean: as words where runs allow it.
    let bytes = x.dtype.size();
    let word = word_of(run * bytes);
    let words = |elements: usize| elements * bytes / word.size();
    let (blocks, run, count) = (x.shape.len() / (size * run).max(1), words(run), indices.shape.len());
    // What lies together, and what there is only one of, needs no coordinate.
    let sizes = [blocks, count, run];
    let used: Vec<usize> = (0..3).filter(|axis| *axis == 1 || sizes[*axis] > 1).collect();
    let coordinates = position::coordinates(&used.iter().map(|axis| sizes[*axis]).collect::<Vec<_>>());
    let step = |(axis, at): (&usize, Expr)| match axis {
        0 => (at, size * run),
        1 => (index::kept("indices", indices.dtype, at, size), run),
        _ => (at, 1),
    };
    let place = position::place(used.iter().zip(coordinates).map(step));
    let named = [("x", TensorType::new(word, [words(x.shape.len())])), ("indices", index::words(indices))];
    let output = TensorType::new(word, [words(call.output.shape.len())]);
    let task = map(&Expr::input("x").gather(place), &named, output, call)?;
    lowering.step(task, [Place::Input(0), Place::Input(1)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let ((size, run), count) = (axis(call.signature).unwrap_or_default(), call.inputs[1].len());
    call.moved(|index| {
        let (row, column) = (index / run, index % run);
        let own = call.inputs[1].get(row % count).map_or(0, Scalar::as_i64);
        (0, (row / count * size + index::nearest(own, size)) * run + column)
    })
}
