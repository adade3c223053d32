//! Shape rules that several kernels share.

use crate::keys::{AXES, AXIS, KEEP_DIMS};
use dala_spec::{ImageShape, Shape, ShapeCall, ShapeProblem};

const IMAGE: &str = "{height, width} or {height, width, channels} with 1 to 4 channels";
const PICTURE: &str = "{height, width} or {height, width, channels} with 1, 3 or 4 channels";

/// Input `index` as a picture.
pub(crate) fn image(call: &ShapeCall, index: usize) -> Result<ImageShape, ShapeProblem> {
    call.inputs[index].shape.image().ok_or(ShapeProblem::Input(index, IMAGE.to_owned()))
}

/// As [`image`], where channels are gray levels or colours.
pub(crate) fn picture(call: &ShapeCall, index: usize) -> Result<ImageShape, ShapeProblem> {
    call.inputs[index].shape.picture().ok_or(ShapeProblem::Input(index, PICTURE.to_owned()))
}

/// The longest side of a picture of which every row and column has entries in a table.
pub(crate) const LONGEST_SIDE: usize = 1 << 20;

/// Refuses an output whose sides are too long for tables.
pub(crate) fn output_with_tables(height: usize, width: usize) -> Result<(), ShapeProblem> {
    match height.max(width) <= LONGEST_SIDE {
        true => Ok(()),
        false => Err(ShapeProblem::Output(format!("of at most {LONGEST_SIDE} rows and columns"))),
    }
}

/// Input `index` as a picture whose sides are not too long for tables.
pub(crate) fn image_with_tables(call: &ShapeCall, index: usize) -> Result<ImageShape, ShapeProblem> {
    let image = image(call, index)?;
    match image.height.max(image.width) <= LONGEST_SIDE || call.inputs[index].shape.is_empty() {
        true => Ok(image),
        false => Err(ShapeProblem::Input(index, format!("of at most {LONGEST_SIDE} rows and columns"))),
    }
}

/// The output's shape as the caller chose it.
pub(crate) fn chosen<'a>(call: &ShapeCall<'a>) -> Result<&'a Shape, ShapeProblem> {
    call.output.ok_or(ShapeProblem::Output("given".to_owned()))
}

/// A picture of the input's own shape.
pub(crate) fn same_image(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    image(call, 0)?;
    Ok(call.inputs[0].shape.clone())
}

/// A picture of another size with the input's channels.
pub(crate) fn other_size(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (from, output) = (image(call, 0)?, chosen(call)?);
    let expected = || {
        ShapeProblem::Output(match call.inputs[0].shape.rank() {
            2 => "{height, width}".to_owned(),
            _ => format!("{{height, width, {}}}", from.channels),
        })
    };
    let to = output.image().ok_or_else(expected)?;
    match to.channels == from.channels && output.rank() == call.inputs[0].shape.rank() {
        true => Ok(output.clone()),
        false => Err(expected()),
    }
}

/// An axis that may be counted from the end; `name` is the param's.
///
/// # Errors
///
/// There is no such axis.
pub fn axis(name: &'static str, axis: i64, rank: usize) -> Result<usize, ShapeProblem> {
    let own = if axis < 0 { axis + rank as i64 } else { axis };
    let outside = || ShapeProblem::Param(name, -(rank as f64), rank as f64 - 1.0);
    usize::try_from(own).ok().filter(|axis| *axis < rank).ok_or_else(outside)
}

/// The axes of a list, in order; all of them if it is empty.
pub(crate) fn axes(name: &'static str, list: &[i64], rank: usize) -> Result<Vec<usize>, ShapeProblem> {
    if list.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut axes = list.iter().map(|own| axis(name, *own, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

/// The input without the axes of the param `axes`; with `keep_dims`, they stay with size 1.
pub(crate) fn without_axes(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    let axes = axes("axes", call.params.ints(AXES), dims.len())?;
    let keep = call.params.flag(KEEP_DIMS);
    let kept = dims.iter().enumerate().filter_map(|(axis, size)| match axes.contains(&axis) {
        false => Some(*size),
        true => keep.then_some(1),
    });
    Ok(Shape::new(kept.collect::<Vec<_>>()))
}

/// As [`without_axes`], for what needs at least one element to choose from.
pub(crate) fn without_full_axes(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let shape = without_axes(call)?;
    match call.inputs[0].shape.is_empty() && !shape.is_empty() {
        true => Err(ShapeProblem::Input(0, "at least one element along every reduced axis".to_owned())),
        false => Ok(shape),
    }
}

/// The input's own shape, which must have the axis of the param `axis`.
pub(crate) fn with_axis(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    axis("axis", call.params.int(AXIS), call.inputs[0].shape.rank())?;
    Ok(call.inputs[0].shape.clone())
}

#[cfg(test)]
mod tests {
    use dala_spec::{DType, Params, TensorType, validate};

    use crate::Registry;

    /// Sides that a stranger claims must not decide how much memory planning takes.
    #[test]
    fn tables_stay_small() {
        let refusal = |name: &str, from: [usize; 3], to: &[usize], params: Params| {
            let kernel = Registry::built_in().get(name).unwrap().clone();
            let dtype = if name == "preprocess" { DType::F32 } else { DType::U8 };
            let types = (TensorType::new(DType::U8, from), TensorType::new(dtype, to.to_vec()));
            validate(&kernel.spec, &[types.0], &types.1, &params).err().map(|problems| problems[0].to_string())
        };
        let long = [(1 << 20) + 1, 4, 4];
        for name in ["blur", "box_blur", "sharpen", "sobel"] {
            assert_eq!(refusal(name, [1 << 20, 4, 4], &[1 << 20, 4, 4], Params::new()), None, "{name}");
            let problem = refusal(name, long, &long, Params::new()).unwrap();
            assert!(problem.contains("of at most 1048576 rows and columns"), "{problem}");
        }
        for name in ["resize", "preprocess"] {
            let channels = if name == "preprocess" { 3 } else { 4 };
            assert_eq!(refusal(name, [8, 1 << 20, 4], &[8, 8, channels], Params::new()), None, "{name}");
            assert!(refusal(name, long, &[8, 8, channels], Params::new()).unwrap().contains("1048576"));
            assert!(refusal(name, [8, 8, 4], &[8, long[0], channels], Params::new()).unwrap().contains("1048576"));
        }
        let wide = Params::new().with("radius", 256);
        let panorama = [16, 32_704, 4];
        assert_eq!(refusal("blur", panorama, &panorama, wide.clone()), None);
        let wider = [16, 32_705, 4];
        assert!(refusal("blur", wider, &wider, wide).unwrap().contains("radius"));
    }
}
