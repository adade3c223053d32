//! Operators that bring an axis down to one number, or weigh along one.

use super::{Call, Outcome};
use crate::{ModelError, Op};

pub(super) fn softmax(call: &Call<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let ty = call.value(0)?.ty.clone();
    let rank = ty.shape.rank();
    // Before version 13 the value was taken as a matrix, split at the axis.
    let matrix = call.opset < 13;
    let axis = call.axis(call.int("axis", if matrix { 1 } else { -1 })?, rank, "axis")?;
    let axes = (axis..if matrix { rank } else { axis + 1 }).collect();
    Ok(Outcome::layer(Op::Softmax { axis, axes }, [call.input(0)?], ty))
}

pub(super) fn mean(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let dims = call.dims(0)?;
    let given = call.integers_from("axes", 1, 18)?.filter(|axes| !axes.is_empty());
    let keep = call.flag("keepdims", true)?;
    let axes = match given {
        Some(given) => {
            let mut axes = call.axes(&given, dims.len())?;
            axes.sort_unstable();
            axes
        }
        None if call.opset >= 18 && call.flag("noop_with_empty_axes", false)? => {
            return Ok(Outcome::Same(call.input(0)?));
        }
        None => (0..dims.len()).collect(),
    };
    let kept = dims.iter().enumerate().filter_map(|(axis, &dim)| match axes.contains(&axis) {
        true => keep.then_some(1),
        false => Some(dim),
    });
    let ty = call.output(dtype, kept.collect())?;
    Ok(Outcome::layer(Op::ReduceMean { axes }, [call.input(0)?], ty))
}
