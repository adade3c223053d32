//! Windows of pictures `{batch, height, width, channels}`: what convolutions and pooling share.

use crate::keys::{DILATION, LAYOUT, PADDING, SIZE, STRIDE};
use dala_plan::work::Windows;
use dala_spec::{KernelSpec, ParamKey, ParamKind, ResolvedParams, Shape, ShapeCall, ShapeProblem, param};

/// The largest size, stride, dilation and padding.
const LARGEST: f64 = 4096.0;

/// The params that say where windows are; `size` too where no weights say it.
pub(crate) fn with_params(spec: KernelSpec, sized: bool, dilated: bool) -> KernelSpec {
    let both = |key: ParamKey, default: [i64; 2], summary: &'static str| {
        param(key, ParamKind::IntList).default(default.to_vec()).summary(summary)
    };
    let mut spec = spec;
    if sized {
        spec = spec.param(both(SIZE, [2, 2], "rows and columns of a window"));
    }
    spec = spec.param(both(STRIDE, [1, 1], "how many rows and columns apart windows are")).param(
        param(PADDING, ParamKind::IntList)
            .default(vec![0i64; 4])
            .summary("rows above, columns left, rows below and columns right that are added around the picture"),
    );
    match dilated {
        true => spec.param(both(DILATION, [1, 1], "how many rows and columns apart the pixels of a window are")),
        false => spec,
    }
}

/// Rows and columns, as a param says them.
fn both(params: &ResolvedParams, key: ParamKey) -> Result<[usize; 2], ShapeProblem> {
    match *params.ints(key) {
        [rows, columns] if rows.min(columns) >= 1 && rows.max(columns) <= LARGEST as i64 => {
            Ok([rows as usize, columns as usize])
        }
        _ => Err(ShapeProblem::Param(key.name(), 1.0, LARGEST)),
    }
}

/// The windows of a call whose params say how large they are.
pub(crate) fn sized(params: &ResolvedParams, x: &Shape) -> Result<Windows, ShapeProblem> {
    windows(params, x, both(params, SIZE)?)
}

/// The shape of a picture that has a pixel for each of those windows.
pub(crate) fn pooled(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let Windows { to: [rows, columns], channels, .. } = sized(call.params, &call.inputs[0].shape)?;
    Ok(Shape::new([call.inputs[0].shape.dims()[0], rows, columns, channels]))
}

/// The windows of a call, whose size is given.
pub(crate) fn windows(params: &ResolvedParams, x: &Shape, size: [usize; 2]) -> Result<Windows, ShapeProblem> {
    let planar = params.has(LAYOUT) && params.word(LAYOUT) == "nchw";
    let (height, width, channels) = match (x.dims(), planar) {
        (&[_, height, width, channels], false) | (&[_, channels, height, width], true) => (height, width, channels),
        (_, false) => return Err(ShapeProblem::Input(0, "{batch, height, width, channels}".to_owned())),
        (_, true) => return Err(ShapeProblem::Input(0, "{batch, channels, height, width}".to_owned())),
    };
    let stride = both(params, STRIDE)?;
    let dilation = if params.has(DILATION) { both(params, DILATION)? } else { [1, 1] };
    let list = params.ints(PADDING);
    let [top, left, bottom, right] = *list else { return Err(ShapeProblem::Param("padding", 0.0, LARGEST)) };
    if list.iter().any(|own| !(0..=LARGEST as i64).contains(own)) {
        return Err(ShapeProblem::Param("padding", 0.0, LARGEST));
    }
    let padding = [top as usize, left as usize];
    let along = |axis: usize, from: usize, after: i64| {
        // Sizes may be as large as there are numbers, weights' too.
        let covered = (size[axis].max(1) - 1).checked_mul(dilation[axis])?.checked_add(1)?;
        let around = from.checked_add(padding[axis])?.checked_add(after as usize)?;
        Some(around.checked_sub(covered)? / stride[axis] + 1)
    };
    let to = [along(0, height, bottom), along(1, width, right)];
    let ([Some(rows), Some(columns)], true) = (to, size[0].min(size[1]) > 0) else {
        let [rows, columns] = size;
        return Err(ShapeProblem::Input(0, format!("a picture that windows of {rows} x {columns} pixels fit into")));
    };
    Ok(Windows { from: [height, width], to: [rows, columns], channels, planar, size, stride, dilation, padding })
}

/// The positions in a picture of what belongs to one result: place in the window, and element of the picture.
pub(crate) fn elements(windows: &Windows, index: usize, channels: usize) -> impl Iterator<Item = (usize, usize)> {
    let own = *windows;
    let pixel = index / channels.max(1);
    let (x, y) = (pixel % own.to[1], pixel / own.to[1] % own.to[0]);
    let picture = pixel / own.to[1] / own.to[0];
    (0..own.size[0] * own.size[1]).filter_map(move |tap| {
        let at = |axis: usize, place: usize, step: usize| {
            let found = (place * own.stride[axis] + step * own.dilation[axis]).checked_sub(own.padding[axis])?;
            (found < own.from[axis]).then_some(found)
        };
        let (row, column) = (at(0, y, tap / own.size[1])?, at(1, x, tap % own.size[1])?);
        Some((tap, ((picture * own.from[0] + row) * own.from[1] + column) * own.channels))
    })
}
