//! Separable filters of pictures: in one pass where the picture's rows suit vectors, axis by axis elsewhere.

use std::iter;

use dala_plan::work::{Argument, AxisSum, Border, Filter, Fragment, Stencil};
use dala_plan::{DeviceFacts, Lowering, Place, Step, Task};
use dala_spec::{
    DType, Data, Expr, ParamKind, ParamSpec, Shape, ShapeCall, ShapeProblem, Signature, SpecError, TensorType, param,
};

use super::{hand_on, load_float, map, shapes};
use crate::Reference;
use crate::keys::{BORDER, RADIUS};

/// The names under which a store expression finds what the filters give; `x` is the element itself.
pub const VALUES: [&str; 2] = ["f0", "f1"];

/// Filters every channel of the first input, and stores what `store` makes of `f0`, `f1` and `x`. There may be two filters.
///
/// # Errors
///
/// The expression does not fit the call's types.
pub fn filtered(
    call: &Signature,
    facts: &DeviceFacts,
    border: Border,
    filters: Vec<Filter>,
    store: &Expr,
) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    let image = input.shape.image().ok_or_else(|| SpecError::internal("a filter was given no picture"))?;
    let radius = filters.iter().map(|filter| filter.down.len() / 2).max().unwrap_or(0);
    let taps = 2 * radius + 1;
    if Stencil::fits(image.height, image.width, image.channels, radius, facts) {
        let values = filters.iter().zip(VALUES).enumerate();
        let mut arguments: Vec<Argument> =
            values.map(|(number, (_, name))| Argument::value(name, number, DType::F32)).collect();
        arguments.push(Argument::own("x", 0, input.dtype));
        let stencil = Stencil {
            height: image.height,
            width: image.width,
            channels: image.channels,
            border,
            radius,
            filters,
            load: match input.dtype {
                // Bytes are summed as integers, exactly, before they become floats.
                DType::U8 => {
                    Fragment::build(&Expr::input("x"), &[Argument::own("x", 0, DType::U8)], DType::S32, &call.params)?
                }
                other => load_float(0, other, call)?,
            },
            store: Fragment::build(store, &arguments, call.output.dtype, &call.params)?,
            pixels: None,
        };
        let own = Stencil::scratch(image.width, image.channels, radius, stencil.filters.len(), facts);
        let lines = own.map(|own| TensorType::new(DType::F32, [facts.units_per_cube as usize, own]));
        let writes = iter::once(Place::Output).chain(lines.map(|lines| lowering.transient(lines))).collect();
        lowering.steps.push(Step {
            task: Task::Stencil(stencil),
            reads: vec![Place::Input(0)],
            writes,
            parts: Vec::new(),
        });
        return Ok(lowering);
    }
    let float = TensorType::new(DType::F32, input.shape.clone());
    let mut results = Vec::new();
    for filter in filters {
        let between = lowering.transient(float.clone());
        let result = lowering.transient(float.clone());
        let down = AxisSum {
            outer: 1,
            from: image.height,
            to: image.height,
            inner: image.width * image.channels,
            taps,
            load: load_float(2, input.dtype, call)?,
            store: hand_on(DType::F32, DType::F32, call)?,
        };
        let across = AxisSum {
            outer: image.height,
            from: image.width,
            to: image.width,
            inner: image.channels,
            load: load_float(2, DType::F32, call)?,
            ..down.clone()
        };
        let tables = table(&mut lowering, border, image.height, &filter.down);
        lowering.step(Task::AxisSum(down), [tables.0, tables.1, Place::Input(0)], between);
        let tables = table(&mut lowering, border, image.width, &filter.across);
        lowering.step(Task::AxisSum(across), [tables.0, tables.1, between], result);
        results.push(result);
    }
    let mut named: Vec<(&str, TensorType)> =
        results.iter().zip(VALUES).map(|(_, name)| (name, float.clone())).collect();
    named.push(("x", input.clone()));
    results.push(Place::Input(0));
    lowering.step(map(store, &named, call.output.clone(), call)?, results, Place::Output);
    Ok(lowering)
}

/// The positions and weights of a filter along an axis of `len` places.
fn table(lowering: &mut Lowering, border: Border, len: usize, weights: &[f32]) -> (Place, Place) {
    let radius = (weights.len() / 2) as i64;
    let entries = len * weights.len();
    let (mut places, mut table) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    for at in 0..len as i64 {
        for (tap, weight) in weights.iter().enumerate() {
            let place = border.place(at + tap as i64 - radius, len);
            places.push(place.map_or(AxisSum::NOWHERE, |place| place as u32));
            table.push(*weight);
        }
    }
    (lowering.constant(Data::U32(places)), lowering.constant(Data::F32(table)))
}

/// The most entries of a table that a radius may ask for.
const MAX_ENTRIES: usize = 1 << 24;

/// A picture of the input's own shape, for filters of a few taps: the shape rule of such kernels.
///
/// # Errors
///
/// The first input is no picture.
pub fn same_image(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    shapes::image_with_tables(call, 0)?;
    Ok(call.inputs[0].shape.clone())
}

/// A picture of the input's own shape, with a `radius` that does not ask for too much.
pub(crate) fn image_of_radius(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let image = shapes::image_with_tables(call, 0)?;
    let longest = image.height.max(image.width).max(1);
    let most = (MAX_ENTRIES / longest).saturating_sub(1) / 2;
    match call.params.int(RADIUS) as usize <= most || call.inputs[0].shape.is_empty() {
        true => Ok(call.inputs[0].shape.clone()),
        false => Err(ShapeProblem::Param("radius", 0.0, most as f64)),
    }
}

/// The param that says what lies outside a picture.
pub fn border_param() -> ParamSpec {
    param(BORDER, ParamKind::words(Border::WORDS)).default("clamp").summary("what lies outside the picture")
}

/// The plain definition: every output element is what `f` makes of the element itself and of what the filters give there, with
/// the border that the param of [`border_param`] says.
pub fn reference(call: &Reference, filters: &[Filter], f: impl Fn(f64, &[f64]) -> f64) -> Data {
    let Some(image) = call.signature.output.shape.image() else { return call.numbers(|_| 0.0) };
    let border = Border::from_word(call.params().word(BORDER));
    let filtered = |filter: &Filter, index: usize| {
        let (channel, pixel) = (index % image.channels, index / image.channels);
        let (y, x) = ((pixel / image.width) as i64, (pixel % image.width) as i64);
        let radius = (filter.down.len() / 2) as i64;
        let mut sum = 0.0;
        for (row, down) in filter.down.iter().enumerate() {
            for (column, across) in filter.across.iter().enumerate() {
                let y = border.place(y + row as i64 - radius, image.height);
                let x = border.place(x + column as i64 - radius, image.width);
                if let (Some(y), Some(x)) = (y, x) {
                    let value = call.float(0, (y * image.width + x) * image.channels + channel);
                    sum += f64::from(*down) * f64::from(*across) * value;
                }
            }
        }
        sum
    };
    call.numbers(|index| {
        let values: Vec<f64> = filters.iter().map(|filter| filtered(filter, index)).collect();
        f(call.float(0, index), &values)
    })
}
