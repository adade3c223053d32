//! Operators that put elements elsewhere: other shapes, other orders, side by side, more around them.

use super::{Call, Outcome};
use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use crate::{ModelError, Op, PadMode};

/// The same elements in `dims`; nothing at all if that is the shape they have.
fn reshaped(call: &Call<'_>, dims: Vec<usize>) -> Result<Outcome, ModelError> {
    let from = &call.value(0)?.ty;
    let ty = call.output(from.dtype, dims)?;
    if ty.shape.len() != from.shape.len() {
        return Err(call.shape_mismatch(
            format!("a shape for the {} elements of {}", from.shape.len(), from.shape),
            ty.shape.dims(),
        ));
    }
    let input = call.input(0)?;
    Ok(if ty == *from { Outcome::Same(input) } else { Outcome::layer(Op::Reshape, [input], ty) })
}

pub(super) fn reshape(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let from = call.value(0)?.ty.shape.clone();
    let given = call.integers(1, "the shape")?;
    let keep_zeros = call.flag("allowzero", false)?;
    let bad = || call.bad_value("the shape", format!("one that {from} can take"), format!("{given:?}"));
    let mut dims = Vec::new();
    let mut open = None;
    for (axis, &size) in given.iter().enumerate() {
        dims.push(match size {
            0 if !keep_zeros => *from.dims().get(axis).ok_or_else(bad)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            size => usize::try_from(size).ok().filter(|&size| size <= MAX_ELEMENTS).ok_or_else(bad)?,
        });
    }
    if let Some(open) = open {
        let known = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim)).ok_or_else(bad)?;
        let size = from.len().checked_div(known).filter(|size| size * known == from.len()).ok_or_else(bad)?;
        dims.get_mut(open).into_iter().for_each(|dim| *dim = size);
    }
    reshaped(call, dims)
}

pub(super) fn flatten(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let axis = call.int("axis", 1)?;
    // The axis may lie after the last one.
    let split = match axis {
        axis if axis == dims.len() as i64 => dims.len(),
        axis => call.axis(axis, dims.len(), "axis")?,
    };
    let (outer, inner) = dims.split_at_checked(split).unwrap_or((dims, &[]));
    let product = |dims: &[usize]| {
        let len = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim));
        // Too large a number is refused with the shape.
        len.unwrap_or(usize::MAX)
    };
    reshaped(call, vec![product(outer), product(inner)])
}

pub(super) fn squeeze(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let axes = match call.integers_from("axes", 1, 13)? {
        Some(given) => call.axes(&given, dims.len())?,
        None => dims.iter().enumerate().filter(|(_, dim)| **dim == 1).map(|(axis, _)| axis).collect(),
    };
    if axes.iter().any(|&axis| dims.get(axis) != Some(&1)) {
        return Err(call.shape_mismatch(format!("size 1 along the axes {axes:?}"), dims));
    }
    let left = dims.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &dim)| dim);
    reshaped(call, left.collect())
}

pub(super) fn unsqueeze(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let given = call.integers_from("axes", 1, 13)?;
    let given = given.ok_or_else(|| call.bad_attribute("axes", "there", "nothing"))?;
    let rank = dims.len() + given.len();
    let axes = call.axes(&given, rank)?;
    let mut rest = dims.iter().copied();
    let dims = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { rest.next().unwrap_or(1) });
    reshaped(call, dims.collect())
}

pub(super) fn transpose(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let perm = match call.ints("perm")? {
        Some(given) => {
            let bad = || call.bad_attribute("perm", format!("{} axes, each once", dims.len()), format!("{given:?}"));
            if given.len() != dims.len() {
                return Err(bad());
            }
            call.axes(given, dims.len()).map_err(|_| bad())?
        }
        None => (0..dims.len()).rev().collect(),
    };
    let input = call.input(0)?;
    if perm.iter().enumerate().all(|(axis, &from)| axis == from) {
        return Ok(Outcome::Same(input));
    }
    let turned = perm.iter().filter_map(|&axis| dims.get(axis).copied());
    let ty = call.output(call.dtype(0)?, turned.collect())?;
    Ok(Outcome::layer(Op::Transpose { perm }, [input], ty))
}

pub(super) fn concat(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let first = call.dims(0)?;
    if call.attribute("axis").is_none() {
        return Err(call.bad_attribute("axis", "there", "nothing"));
    }
    let axis = call.axis(call.int("axis", 0)?, first.len(), "axis")?;
    let mut inputs = Vec::with_capacity(call.inputs.len());
    let mut size = 0usize;
    for place in 0..call.inputs.len() {
        inputs.push(call.input(place)?);
        call.same_dtype(place)?;
        let dims = call.dims(place)?;
        let fits = dims.len() == first.len()
            && dims.iter().zip(first).enumerate().all(|(number, (dim, first))| number == axis || dim == first);
        if !fits {
            return Err(call.shape_mismatch(format!("inputs that differ along axis {axis} only"), dims));
        }
        size = size.saturating_add(dims.get(axis).copied().unwrap_or_default());
    }
    if let [only] = inputs[..] {
        return Ok(Outcome::Same(only));
    }
    let mut dims = first.to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = size);
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Op::Concat { axis }, inputs, ty))
}

pub(super) fn pad(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let given = call.integers_from("pads", 1, 11)?;
    let given = given.ok_or_else(|| call.bad_attribute("pads", "there", "nothing"))?;
    let axes = match call.has(3) {
        true => call.axes(&call.integers(3, "axes")?, dims.len())?,
        false => (0..dims.len()).collect(),
    };
    let bad = |expected: &str| call.bad_value("pads", expected, format!("{given:?}"));
    if given.len() != 2 * axes.len() || axes.len() > MAX_RANK {
        return Err(bad("two numbers for each axis"));
    }
    let (mut before, mut after) = (vec![0; dims.len()], vec![0; dims.len()]);
    for (list, given) in [&mut before, &mut after].into_iter().zip(given.chunks(axes.len().max(1))) {
        for (&axis, &size) in axes.iter().zip(given) {
            if size < 0 {
                return Err(call.unsupported("not supported: negative pads"));
            }
            let size = usize::try_from(size).ok().filter(|&size| size <= MAX_ELEMENTS);
            let size = size.ok_or_else(|| bad("numbers of a size that can be"))?;
            list.get_mut(axis).into_iter().for_each(|pad| *pad = size);
        }
    }
    let mode = match call.text("mode", "constant")? {
        "constant" if call.opset < 11 => PadMode::Constant(call.float_attribute("value", 0.0)?),
        "constant" => {
            let value = call.scalar(2, "the constant value")?;
            PadMode::Constant(value.map_or(0.0, |scalar| scalar.as_f64() as f32))
        }
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        other => return Err(call.bad_attribute("mode", "constant, reflect or edge", other)),
    };
    let mut padded = Vec::with_capacity(dims.len());
    for ((&dim, &before), &after) in dims.iter().zip(&before).zip(&after) {
        let most = before.max(after);
        match mode {
            PadMode::Reflect if most >= dim.max(1) && most > 0 => {
                return Err(bad("smaller than the value along each axis"));
            }
            PadMode::Edge if dim == 0 && most > 0 => return Err(bad("nothing along an axis of size 0")),
            _ => padded.push(dim.saturating_add(before).saturating_add(after)),
        }
    }
    let input = call.input(0)?;
    if padded == dims {
        return Ok(Outcome::Same(input));
    }
    let ty = call.output(call.dtype(0)?, padded)?;
    Ok(Outcome::layer(Op::Pad { before, after, mode }, [input], ty))
}
