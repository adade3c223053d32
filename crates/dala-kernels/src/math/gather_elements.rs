//! Elements picked one by one along an axis: `out[.., i, ..] = x[.., indices[.., i, ..], ..]`. The indices say which element each
//! element of the output is, and have no more than the input along the other axes. A negative index counts from the end; one that
//! is outside still counts as the nearest inside.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, param,
};

use crate::keys::AXIS;
use crate::lower::index::{self, INDICES};
use crate::lower::view::{strides, word_of};
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("gather_elements", Class::View)
        .summary("Elements picked one by one along an axis: `out[.., i, ..] = x[.., indices[.., i, ..], ..]`")
        .input("x", NUMBERS)
        .input("indices", INDICES)
        .computed("the indices'", OutputDType::First, shape)
        .param(param(AXIS, ParamKind::Int).default(0).summary("the axis, counted from the end if negative"));
    Kernel::lowered(spec, lower).example(&[&[4, 3], &[2, 3]], &[2, 3]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, indices) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let fits = |(own, (size, count)): (usize, (&usize, &usize))| own == axis || count <= size;
    if indices.len() != dims.len() || !dims.iter().zip(indices).enumerate().all(fits) {
        let wanted = format!("no larger than {}, but for axis {axis}", call.inputs[0].shape);
        return Err(ShapeProblem::Input(1, wanted));
    }
    match dims[axis] == 0 && !call.inputs[1].shape.is_empty() {
        true => Err(ShapeProblem::Input(0, "at least one element along the axis".to_owned())),
        false => Ok(call.inputs[1].shape.clone()),
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, indices, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let dims = x.shape.dims();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    // Bits are moved, whatever they mean: large elements as two words.
    let word = word_of(x.dtype.size());
    let each = x.dtype.size() / word.size();
    let sizes: Vec<usize> = indices.shape.dims().iter().copied().chain((each > 1).then_some(each)).collect();
    let coordinates = position::coordinates(&sizes);
    let own = strides(indices.shape.dims()).into_iter().map(|stride| stride as usize);
    let at = match each {
        1 => Expr::index(),
        _ => position::place(coordinates.iter().cloned().zip(own)),
    };
    let places = strides(dims).into_iter().map(|stride| stride as usize * each).chain([1]);
    let step = |((own, at_own), stride): ((usize, Expr), usize)| match own == axis {
        true => (index::kept("indices", indices.dtype, at.clone(), dims[axis]), stride),
        false => (at_own, stride),
    };
    let place = position::place(coordinates.into_iter().enumerate().zip(places).map(step));
    let named = [("x", TensorType::new(word, [x.shape.len() * each])), ("indices", index::words(indices))];
    let output = TensorType::new(word, [call.output.shape.len() * each]);
    let task = map(&Expr::input("x").gather(place), &named, output, call)?;
    lowering.step(task, [Place::Input(0), Place::Input(1)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (dims, indices) = (call.signature.inputs[0].shape.dims(), call.signature.inputs[1].shape.dims());
    let axis = shapes::axis("axis", call.params().int(AXIS), dims.len()).unwrap_or_default();
    call.moved(|at| {
        let found = call.inputs[1].get(at).map_or(0, Scalar::as_i64);
        let (mut rest, mut place, mut stride) = (at, 0, 1);
        for own in (0..dims.len()).rev() {
            let along = if own == axis { index::nearest(found, dims[axis]) } else { rest % indices[own] };
            place += along * stride;
            rest /= indices[own];
            stride *= dims[own];
        }
        (0, place)
    })
}
