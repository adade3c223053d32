//! A picture as a network wants it: resized to the output's height and width, three channels, scaled to 0 to 1, normalised. `fit:
//! crop` resizes the shorter side to `resize` first and takes the middle. Alpha is dropped, gray is repeated. The output is
//! `{1, 3, height, width}` or `{height, width, 3}`.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, Tolerance, param,
};

use crate::keys::{FIT, MEAN, NORMALIZE, RESIZE, SIZE, STD};
use crate::lower::resample::{AxisTable, Interpolation, Window, reference as resample, resampled, store_value};
use crate::lower::{map, pixel, shapes};
use crate::{Kernel, Reference};

/// Mean and standard deviation of ImageNet's channels.
const MEANS: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATIONS: [f64; 3] = [0.229, 0.224, 0.225];

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("preprocess", Class::Composite)
        .summary("A picture as a network wants it: resized, scaled, normalised")
        .input("x", PIXELS)
        .computed("{1, 3, height, width} or {height, width, 3}", OutputDType::OneOf(&[DType::F32]), shape)
        .param(
            param(SIZE, ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("height and width, if they are to be said; always those of the output"),
        )
        .param(
            param(FIT, ParamKind::words(&["stretch", "crop"]))
                .default("stretch")
                .summary("the whole picture, or its middle in the right proportions"),
        )
        .param(
            param(RESIZE, ParamKind::Int)
                .default(256)
                .range(1.0, 65535.0)
                .summary("what the shorter side becomes before the middle is taken"),
        )
        .param(param(NORMALIZE, ParamKind::Bool).default(true).summary("whether mean and std are applied"))
        .param(param(MEAN, ParamKind::Floats).default(MEANS.to_vec()).summary("subtracted from each channel"))
        .param(param(STD, ParamKind::Floats).default(DEVIATIONS.to_vec()).summary("what each channel is divided by"))
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::lowered(spec, lower).example(&[&[9, 7, 4]], &[1, 3, 4, 6]).example_dtype(DType::F32).reference(reference)
}

/// Height, width, and whether channels come first.
fn layout(shape: &Shape) -> Option<(usize, usize, bool)> {
    match *shape.dims() {
        [1, 3, height, width] => Some((height, width, true)),
        [height, width, 3] => Some((height, width, false)),
        _ => None,
    }
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    shapes::picture(call, 0)?;
    let (image, chosen) = (shapes::image_with_tables(call, 0)?, shapes::chosen(call)?);
    let wanted = |size: &[i64]| match size {
        [height, width] => ShapeProblem::Output(format!("{{1, 3, {height}, {width}}} or {{{height}, {width}, 3}}")),
        _ => ShapeProblem::Output("{1, 3, height, width} or {height, width, 3}".to_owned()),
    };
    let size = call.params.ints(SIZE);
    if !matches!(size, [] | [(0..), (0..)]) {
        return Err(ShapeProblem::Param("size", 0.0, 65535.0));
    }
    let (height, width, _) = layout(chosen).ok_or_else(|| wanted(size))?;
    shapes::output_with_tables(height, width)?;
    if !size.is_empty() && size != [height as i64, width as i64] {
        return Err(wanted(size));
    }
    if image.height * image.width == 0 && !chosen.is_empty() {
        return Err(ShapeProblem::Input(0, "of at least one pixel".to_owned()));
    }
    for key in [MEAN, STD] {
        if call.params.floats(key).len() != 3 {
            return Err(ShapeProblem::Param(key.name(), 3.0, 3.0));
        }
    }
    if !call.params.floats(MEAN).iter().all(|mean| mean.is_finite()) {
        return Err(ShapeProblem::Param("mean", f64::MIN, f64::MAX));
    }
    if !call.params.floats(STD).iter().all(|std| std.is_finite() && *std > 0.0) {
        return Err(ShapeProblem::Param("std", f64::MIN_POSITIVE, f64::MAX));
    }
    if call.params.word(FIT) == "crop" && !chosen.is_empty() {
        let (full_height, full_width) = scaled(image.height, image.width, call.params.int(RESIZE) as usize);
        if height > full_height || width > full_width {
            return Err(ShapeProblem::Output(format!("inside the resized picture, {full_height} by {full_width}")));
        }
    }
    Ok(chosen.clone())
}

/// The size after the shorter side became `short`.
fn scaled(height: usize, width: usize, short: usize) -> (usize, usize) {
    if height <= width { (short, short * width / height) } else { (short * height / width, short) }
}

fn tables(call: &Signature) -> Option<(AxisTable, AxisTable)> {
    let image = call.inputs[0].shape.image()?;
    let (height, width, _) = layout(&call.output.shape)?;
    if call.output.shape.is_empty() {
        return None;
    }
    let (full_height, full_width) = match call.params.word(FIT) {
        "crop" => scaled(image.height, image.width, call.params.int(RESIZE) as usize),
        _ => (height, width),
    };
    let table = |from: usize, to: usize, count: usize| {
        let start = ((to - count) as f64 / 2.0).round_ties_even() as usize;
        AxisTable::new(Window { from, to, start, count }, Interpolation::Bilinear, true)
    };
    Some((table(image.height, full_height, height), table(image.width, full_width, width)))
}

/// Factor and summand that scale and normalise a channel.
fn affine(call: &Signature, channel: usize) -> (f64, f64) {
    let full = pixel::full(call.inputs[0].dtype);
    match call.params.flag(NORMALIZE) {
        true => {
            let (mean, std) = (call.params.floats(MEAN)[channel], call.params.floats(STD)[channel]);
            (1.0 / (full * std), -mean / std)
        }
        false => (1.0 / full, 0.0),
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let mut lowering = Lowering::new();
    let parts = (call.inputs[0].shape.image(), layout(&call.output.shape), tables(call));
    let (Some(image), Some((height, width, planar)), Some(tables)) = parts else {
        return Err(SpecError::internal("`preprocess` was given no picture"));
    };
    let resized = TensorType::new(DType::F32, [height, width, image.channels]);
    let between = lowering.transient(resized.clone());
    let store = store_value(&Signature { output: resized.clone(), ..call.clone() }, DType::F32)?;
    resampled(&mut lowering, call, facts, image, tables, store, between)?;
    let channel = || Expr::coord(if planar { 1 } else { 2 });
    let is = |number: i64| channel().compare(CompareOp::Eq, number);
    let choose = |values: [f64; 3]| {
        let [r, g, b] = values.map(Expr::number);
        Expr::select(is(0), r, Expr::select(is(1), g, b))
    };
    let affine: Vec<(f64, f64)> = (0..3).map(|channel| affine(call, channel)).collect();
    let own = channel().min(Expr::size(image.channels - 1));
    let (y, x) = if planar { (Expr::coord(2), Expr::coord(3)) } else { (Expr::coord(0), Expr::coord(1)) };
    let at = (y * Expr::size(width) + x) * Expr::size(image.channels) + own;
    let value = Expr::input("x").gather(at);
    let result =
        value * choose([affine[0].0, affine[1].0, affine[2].0]) + choose([affine[0].1, affine[1].1, affine[2].1]);
    lowering.step(map(&result, &[("x", resized)], call.output.clone(), call)?, [between], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let parts = (call.signature.inputs[0].shape.image(), layout(&call.signature.output.shape), tables(call.signature));
    let (Some(image), Some((height, width, planar)), Some((down, across))) = parts else {
        return call.numbers(|_| 0.0);
    };
    call.numbers(|index| {
        let (channel, pixel) =
            if planar { (index / (height * width), index % (height * width)) } else { (index % 3, index / 3) };
        let own = channel.min(image.channels - 1);
        let (factor, summand) = affine(call.signature, channel);
        resample(call, &down, &across, (pixel / width, pixel % width), own) * factor + summand
    })
}
