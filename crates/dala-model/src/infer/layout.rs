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

#[cfg(test)]
mod tests {
    use crate::builder::{Net, float, int, ints, list, scalar, single, text};
    use crate::{ModelError, Op, PadMode};

    fn dims(net: Net) -> Result<Vec<usize>, ModelError> {
        let network = net.resolve(2)?;
        Ok(network.values[network.outputs[0]].ty.shape.dims().to_vec())
    }

    #[test]
    fn shapes_may_be_open_in_one_place() {
        let reshape =
            |shape: &[i64], attributes| dims(single(14, "Reshape", &[-1, 6, 4], vec![list(shape)], attributes));
        assert_eq!(reshape(&[0, -1], vec![]).unwrap(), [2, 24]);
        assert_eq!(reshape(&[-1, 3, 0], vec![]).unwrap(), [4, 3, 4]);
        for bad in [&[-1, -1][..], &[-2, 6], &[7, -1], &[i64::MAX, -1], &[1, 1, 1, 0], &[i64::MAX; 8]] {
            assert_eq!(reshape(bad, vec![]).unwrap_err().code(), "bad_value", "{bad:?}");
        }
        assert_eq!(reshape(&[5, 5], vec![]).unwrap_err().code(), "shape_mismatch");
        assert_eq!(reshape(&[0, 24], vec![int("allowzero", 1)]).unwrap_err().code(), "shape_mismatch");
        assert_eq!(reshape(&[1 << 31, 1 << 31, 0], vec![]).unwrap_err().code(), "too_large");
    }

    #[test]
    fn axes_come_and_go() {
        let x = &[-1, 1, 4, 1];
        assert_eq!(dims(single(13, "Squeeze", x, vec![list(&[1, -1])], vec![])).unwrap(), [2, 4]);
        assert_eq!(dims(single(11, "Squeeze", x, vec![], vec![ints("axes", &[1])])).unwrap(), [2, 4, 1]);
        assert_eq!(dims(single(13, "Unsqueeze", x, vec![list(&[0, -1])], vec![])).unwrap(), [1, 2, 1, 4, 1, 1]);
        assert_eq!(single(13, "Squeeze", x, vec![list(&[2])], vec![]).code(), "shape_mismatch");
        assert_eq!(single(13, "Unsqueeze", x, vec![list(&[0, 0])], vec![]).code(), "bad_value");
        assert_eq!(single(13, "Unsqueeze", x, vec![list(&[0, 1, 2, 3, 4])], vec![]).code(), "too_large");
        assert_eq!(dims(single(13, "Flatten", x, vec![], vec![])).unwrap(), [2, 4]);
        assert_eq!(dims(single(13, "Flatten", x, vec![], vec![int("axis", 0)])).unwrap(), [1, 8]);
        assert_eq!(dims(single(13, "Flatten", x, vec![], vec![int("axis", 4)])).unwrap(), [8, 1]);
        assert_eq!(dims(single(13, "Transpose", x, vec![], vec![ints("perm", &[0, 2, 3, 1])])).unwrap(), [2, 4, 1, 1]);
        assert_eq!(single(13, "Transpose", x, vec![], vec![ints("perm", &[0, 2, 2, 1])]).code(), "bad_attribute");
        assert_eq!(single(13, "Transpose", x, vec![], vec![ints("perm", &[0])]).code(), "bad_attribute");
    }

    #[test]
    fn moves_to_the_same_place_vanish() {
        for net in [
            single(13, "Reshape", &[-1, 4], vec![list(&[0, 4])], vec![]),
            single(13, "Flatten", &[-1, 4], vec![], vec![]),
            single(13, "Transpose", &[-1, 4], vec![], vec![ints("perm", &[0, 1])]),
            single(13, "Concat", &[-1, 4], vec![], vec![int("axis", 1)]),
            single(13, "Pad", &[-1, 4], vec![list(&[0; 4])], vec![]),
            single(13, "Slice", &[-1, 4], vec![list(&[0]), list(&[9]), list(&[1])], vec![]),
            single(13, "Identity", &[-1, 4], vec![], vec![]),
            single(13, "Dropout", &[-1, 4], vec![], vec![]),
        ] {
            let network = net.resolve(3).unwrap();
            assert!(network.layers.is_empty());
            assert_eq!(network.outputs, network.inputs);
        }
    }

    #[test]
    fn padding_has_two_numbers_for_each_axis() {
        let op = |net: Net| net.resolve(1).map(|network| network.layers[0].op.clone());
        let old = single(9, "Pad", &[1, 4], vec![], vec![ints("pads", &[0, 1, 0, 2]), float("value", 0.5)]);
        let expected = |mode| Op::Pad { before: vec![0, 1], after: vec![0, 2], mode };
        assert_eq!(op(old).unwrap(), expected(PadMode::Constant(0.5)));
        let new = single(13, "Pad", &[1, 4], vec![list(&[0, 1, 0, 2]), scalar(2.0)], vec![]);
        assert_eq!(op(new).unwrap(), expected(PadMode::Constant(2.0)));
        let axes =
            single(18, "Pad", &[1, 4], vec![list(&[1, 2]), scalar(2.0), list(&[-1])], vec![text("mode", "edge")]);
        assert_eq!(op(axes).unwrap(), expected(PadMode::Edge));
        let pad = |pads: &[i64], mode| single(13, "Pad", &[1, 4], vec![list(pads)], vec![text("mode", mode)]).code();
        assert_eq!(pad(&[0, 4, 0, 0], "reflect"), "bad_value");
        assert_eq!(pad(&[0, 3, 0, 3], "reflect"), "read");
        assert_eq!(pad(&[0, 1], "edge"), "bad_value");
        assert_eq!(pad(&[0, -1, 0, 0], "edge"), "unsupported_operator");
        assert_eq!(pad(&[0, 1 << 31, 0, 0], "constant"), "too_large");
        assert_eq!(pad(&[0, i64::MAX, 0, 0], "constant"), "bad_value");
        assert_eq!(pad(&[0, 1, 0, 0], "wrap"), "unsupported_operator");
    }

    #[test]
    fn values_side_by_side_agree_elsewhere() {
        let concat = |a: &[i64], b: &[i64], axis| {
            let net = Net::new(13).x(a).input("z", 1, b).node("Concat", &["x", "z"], "y", vec![int("axis", axis)]);
            dims(net.output("y"))
        };
        assert_eq!(concat(&[-1, 2], &[-1, 3], -1).unwrap(), [2, 5]);
        assert_eq!(concat(&[-1, 2], &[-1, 3], 0).unwrap_err().code(), "shape_mismatch");
        assert_eq!(concat(&[-1, 2], &[-1, 3], 2).unwrap_err().code(), "bad_value");
    }
}
