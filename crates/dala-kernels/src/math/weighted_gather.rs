//! Weighted sums of elements picked along an axis: `out[.., i, ..] = Σ weights[i, t] * x[.., places[i, t], ..]`. What filters and
//! other sizes of pictures come to, along each axis. A place that is not there counts for nothing. Sums are of `f32`.

use dala_plan::work::AxisSum;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::{
    Class, DType, DTypes, Data, KernelSpec, OutputDType, ParamKind, Scalar, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, Tolerance, param,
};

use crate::keys::AXIS;
use crate::lower::{hand_on, load_float, shapes};
use crate::{Kernel, Reference};

/// What fits sums of `f32`.
const SUMMED: DTypes = &[DType::F32, DType::F16, DType::BF16];

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("weighted_gather", Class::Stencil)
        .summary("Weighted sums of elements picked along an axis: `out[.., i, ..] = Σ weights[i, t] * x[.., places[i, t], ..]`")
        .input("x", SUMMED)
        .input("places", &[DType::S32])
        .input("weights", &[DType::F32])
        .computed("the input's, with as many elements along the axis as the tables have rows", OutputDType::First, shape)
        .param(param(AXIS, ParamKind::Int).default(0).summary("the axis, counted from the end if negative"))
        .tolerance(Tolerance::close(16.0, 16.0));
    Kernel::lowered(spec, lower).example(&[&[4, 3], &[5, 2], &[5, 2]], &[5, 3]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let mut dims = call.inputs[0].shape.dims().to_vec();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let [rows, _] = *call.inputs[1].shape.dims() else {
        return Err(ShapeProblem::Input(1, "a table of two axes".to_owned()));
    };
    if call.inputs[2].shape != call.inputs[1].shape {
        return Err(ShapeProblem::Input(2, call.inputs[1].shape.to_string()));
    }
    let none = dims[axis] == 0 || call.inputs[1].shape.is_empty();
    dims[axis] = rows;
    let shape = Shape::new(dims);
    match none && !shape.is_empty() {
        true => Err(ShapeProblem::Input(
            0,
            "at least one element along the axis, and one in each row of the tables".to_owned(),
        )),
        false => Ok(shape),
    }
}

/// How many blocks there are, the size of the axis, and how many elements each step along it moves.
fn around(call: &Signature) -> Result<[usize; 3], ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    Ok([dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product()])
}

/// How many elements the axis has after, and how many are summed for each.
fn table(call: &Signature) -> (usize, usize) {
    match *call.inputs[1].shape.dims() {
        [rows, taps] => (rows, taps),
        _ => (0, 0),
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let mut lowering = Lowering::new();
    if call.output.shape.is_empty() {
        return Ok(lowering);
    }
    let ([outer, from, inner], (to, taps)) = (around(call)?, table(call));
    let sum = AxisSum {
        outer,
        from,
        to,
        inner,
        taps,
        load: load_float(2, call.inputs[0].dtype, call)?,
        store: hand_on(DType::F32, call.output.dtype, call)?,
    };
    // The bits of a place below zero are a number beyond every axis.
    lowering.step(Task::AxisSum(sum), [Place::Input(1), Place::Input(2), Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let ([_, from, inner], (to, taps)) = (around(call.signature).unwrap_or_default(), table(call.signature));
    call.numbers(|index| {
        let (row, column) = (index / inner, index % inner);
        let (block, at) = (row / to, row % to);
        let one = |tap: usize| {
            let place = call.inputs[1].get(at * taps + tap).map_or(-1, Scalar::as_i64);
            match usize::try_from(place) {
                Ok(place) if place < from => {
                    call.float(2, at * taps + tap) * call.float(0, (block * from + place) * inner + column)
                }
                _ => 0.0,
            }
        };
        (0..taps).map(one).sum()
    })
}
