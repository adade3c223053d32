//! How many elements fall into each of the output's bins, which divide the range from `min` to `max` evenly. The last bin includes
//! `max`; elements outside, and NaN, do not count. Without a range it is 0 to 256 for `u8` and 0 to 1 for `f32`.

use dala_plan::work::{Argument, FoldOp, Fragment, Histogram};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::{CompareOp, UnaryOp};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, param,
};

use crate::keys::{MAX, MIN};
use crate::lower::{reduce, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("histogram", Class::Reduction)
        .summary("How many elements fall into each bin")
        .input("x", PIXELS)
        .computed("{bins}", OutputDType::OneOf(&[DType::U32]), shape)
        .param(param(MIN, ParamKind::Float).default(0.0).summary("where the first bin starts"))
        .param(
            param(MAX, ParamKind::Float).default(0.0).summary("where the last bin ends; 0 for the type's own range"),
        );
    Kernel::lowered(spec, lower).example(&[&[3, 5]], &[16]).example_dtype(DType::U32).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let chosen = shapes::chosen(call)?;
    match chosen.dims() {
        [1..=65536] => {}
        _ => return Err(ShapeProblem::Output("{bins} with 1 to 65536 bins".to_owned())),
    }
    let (min, max) = (call.params.float(MIN), call.params.float(MAX));
    if min == 0.0 && max == 0.0 {
        return Ok(chosen.clone());
    }
    // As the device divides it: in f32.
    let (low, high) = (min as f32, max as f32);
    let width = (chosen.len() as f64 / (max - min)) as f32;
    match low.is_finite() && high.is_finite() && low < high && width.is_finite() && width > 0.0 {
        true => Ok(chosen.clone()),
        false => Err(ShapeProblem::Param("max", min, f64::from(f32::MAX))),
    }
}

fn range(call: &Signature) -> (f64, f64) {
    match (call.params.float(MIN), call.params.float(MAX), call.inputs[0].dtype) {
        (0.0, 0.0, DType::U8) => (0.0, 256.0),
        (0.0, 0.0, _) => (0.0, 1.0),
        (min, max, _) => (min, max),
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, bins) = (&call.inputs[0], call.output.shape.len());
    let (min, max) = range(call);
    let x = Expr::input("x").cast(DType::F32);
    let (low, high) = (Expr::number(min), Expr::number(max));
    let place = (x.clone() - low.clone()) * Expr::number(bins as f64 / (max - min));
    let bin = place.unary(UnaryOp::Floor).cast(DType::S32).min(Expr::size(bins - 1));
    // Comparisons with NaN do not hold.
    let above = x.clone().compare(CompareOp::Ge, low);
    let below = x.compare(CompareOp::Le, high);
    let nowhere = Expr::from(-1).cast(DType::S32);
    let bin = Expr::select(above, Expr::select(below, bin, nowhere.clone()), nowhere);
    let bin = Fragment::build(&bin, &[Argument::own("x", 0, input.dtype)], DType::S32, &call.params)?;
    let most = if facts.cpu { 4 * facts.units_per_cube as usize } else { 256 };
    let parts = (input.shape.len() / 1024).clamp(1, most);
    let mut lowering = Lowering::new();
    let counts = lowering.transient(TensorType::new(DType::U32, [parts, bins]));
    let count = Histogram { len: input.shape.len(), bins, parts, bin };
    lowering.step(Task::Histogram(count), [Place::Input(0)], counts);
    let sum = reduce::Reduction { how: FoldOp::Sum, dtype: DType::U32, finish: Expr::input("r") };
    reduce::summed(&mut lowering, call, facts, counts, reduce::Line { outer: 1, length: parts, inner: bins }, &sum)?;
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (min, max) = range(call.signature);
    let mut counts = vec![0u32; call.len()];
    for value in call.inputs[0].iter().map(|value| value.as_f64() as f32) {
        let (low, high) = (min as f32, max as f32);
        if value >= low && value <= high {
            let place = (value - low) * (call.len() as f64 / (max - min)) as f32;
            counts[(place.floor() as usize).min(call.len() - 1)] += 1;
        }
    }
    Data::U32(counts)
}
