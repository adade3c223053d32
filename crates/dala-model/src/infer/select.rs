//! Operators that take some of the elements.

use dala_spec::{DType, Data, Shape};

use super::{Call, Input, Outcome};
use crate::{ModelError, Op, fold};

pub(super) fn slice(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let value = call.value(0)?;
    let dims = value.ty.shape.dims();
    let needed = |what: &'static str, place: usize| {
        let list = call.integers_from(what, place, 10)?;
        list.ok_or_else(|| call.bad_attribute(what, "there", "nothing"))
    };
    let (given_starts, ends) = (needed("starts", 1)?, needed("ends", 2)?);
    let axes = match call.integers_from("axes", 3, 10)? {
        Some(given) => call.axes(&given, dims.len())?,
        None => (0..given_starts.len()).collect(),
    };
    let given_steps = if call.has(4) { call.integers(4, "steps")? } else { vec![1; axes.len()] };
    let lens = [given_starts.len(), ends.len(), given_steps.len()];
    if lens.iter().any(|&len| len != axes.len()) || axes.len() > dims.len() {
        let expected = format!("as many ends and steps as starts, for at most {} axes", dims.len());
        return Err(call.bad_value("starts", expected, format!("{lens:?}")));
    }
    let mut starts = vec![0i64; dims.len()];
    let mut steps = vec![1i64; dims.len()];
    let mut sizes = dims.to_vec();
    for (place, &axis) in axes.iter().enumerate() {
        let (Some(start), Some(step), Some(size)) = (starts.get_mut(axis), steps.get_mut(axis), sizes.get_mut(axis))
        else {
            return Err(call.bad_value("axes", format!("axes of {}", dims.len()), axis));
        };
        let (given, end) = (given_starts.get(place).copied(), ends.get(place).copied());
        *step = given_steps.get(place).copied().unwrap_or(1);
        if *step == 0 {
            return Err(call.bad_value("steps", "other than 0", 0));
        }
        (*start, *size) = range(given.unwrap_or_default(), end.unwrap_or_default(), *step, *size);
    }
    if steps.iter().any(|&step| step < 0) {
        let data = value.constant.as_deref().ok_or_else(|| call.unsupported("not supported: negative steps"))?;
        let shape = call.output(value.ty.dtype, sizes)?.shape;
        let data = fold::slice(data, dims, &shape, &starts, &steps);
        let data = data.ok_or_else(|| call.bad_value("starts", "inside the value", format!("{starts:?}")))?;
        return Ok(Outcome::Constant(shape, data));
    }
    let input = call.input(0)?;
    if sizes == dims {
        return Ok(Outcome::Same(input));
    }
    let ty = call.output(value.ty.dtype, sizes)?;
    let unsigned = |list: &[i64]| list.iter().map(|&value| usize::try_from(value).unwrap_or_default()).collect();
    Ok(Outcome::layer(Op::Slice { starts: unsigned(&starts), steps: unsigned(&steps) }, [input], ty))
}

/// Where a slice of an axis starts and how many elements it has, with ends outside the axis moved into it.
fn range(start: i64, end: i64, step: i64, size: usize) -> (i64, usize) {
    let size = size as i64;
    let place = |given: i64| if given < 0 { given.saturating_add(size) } else { given };
    let (start, end, distance) = if step > 0 {
        let (start, end) = (place(start).clamp(0, size), place(end).clamp(0, size));
        (start, end, end - start)
    } else {
        let (start, end) = (place(start).clamp(0, (size - 1).max(0)), place(end).clamp(-1, size - 1));
        (start, end, start - end)
    };
    debug_assert!(start >= 0 && end >= -1);
    let count = u64::try_from(distance).unwrap_or_default().div_ceil(step.unsigned_abs());
    (start, count as usize)
}

pub(super) fn gather(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let indices = call.value(1)?;
    if !matches!(indices.ty.dtype, DType::S32 | DType::S64) {
        return Err(call.type_mismatch("indices of type s32 or s64", indices.ty.dtype));
    }
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let (outer, rest) = dims.split_at_checked(axis).unwrap_or((dims, &[]));
    let (&size, inner) = rest.split_first().ok_or_else(|| call.shape_mismatch("at least one axis", dims))?;
    let ty = call.output(call.dtype(0)?, [outer, indices.ty.shape.dims(), inner].concat())?;

    let mut index_input = Input::Value(call.input(1)?);
    if let Some(data) = indices.constant.as_deref() {
        let len = size as i64;
        let range = -len..len;
        if let Some(bad) = data.iter().map(|index| index.as_i64()).find(|index| !range.contains(index)) {
            return Err(call.bad_value("the indices", format!("from {} to {}", -len, len - 1), bad));
        }
        if data.iter().any(|index| index.as_i64() < 0) {
            let from_start = |index: i64| if index < 0 { index + len } else { index };
            let data = match data {
                Data::S32(list) => Data::S32(list.iter().map(|&index| from_start(index.into()) as i32).collect()),
                other => Data::S64(other.iter().map(|index| from_start(index.as_i64())).collect()),
            };
            index_input = Input::Made("indices", Shape::clone(&indices.ty.shape), data);
        }
    }
    let inputs = vec![Input::Value(call.input(0)?), index_input];
    Ok(Outcome::Layer { op: Op::Gather { axis }, inputs, ty })
}

#[cfg(test)]
mod tests {
    use super::range;
    use crate::Op;
    use crate::builder::{Net, int, ints, list, single};

    #[test]
    fn ranges_are_moved_into_the_axis() {
        for (start, end, step, expected) in [
            (1, 9, 1, (1, 4)),
            (-3, -1, 1, (2, 2)),
            (0, i64::MAX, 2, (0, 3)),
            (i64::MIN, i64::MAX, 3, (0, 2)),
            (4, 2, 1, (4, 0)),
            (9, 10, 1, (5, 0)),
            (-1, i64::MIN, -1, (4, 5)),
            (3, 0, -2, (3, 2)),
            (0, 5, -1, (0, 0)),
            (0, i64::MAX, i64::MAX, (0, 1)),
            (4, i64::MIN, i64::MIN, (4, 1)),
        ] {
            assert_eq!(range(start, end, step, 5), expected, "{start}..{end} by {step}");
        }
    }

    #[test]
    fn slices_have_an_entry_for_each_axis() {
        let expected = Op::Slice { starts: vec![0, 1, 2], steps: vec![1, 1, 2] };
        let new = vec![list(&[2, 1]), list(&[9, -1]), list(&[-1, 1]), list(&[2, 1])];
        let network = single(13, "Slice", &[-1, 4, 5], new, vec![]).resolve(2).unwrap();
        assert_eq!(network.layers[0].op, expected);
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 2, 2]);
        let old = vec![ints("starts", &[1]), ints("ends", &[3]), ints("axes", &[1])];
        let network = single(9, "Slice", &[-1, 4, 5], vec![], old).resolve(2).unwrap();
        assert_eq!(network.layers[0].op, Op::Slice { starts: vec![0, 1, 0], steps: vec![1, 1, 1] });
        let back = vec![list(&[-1]), list(&[0]), list(&[1]), list(&[-1])];
        assert_eq!(single(13, "Slice", &[-1, 4, 5], back, vec![]).code(), "unsupported_operator");
        let still = vec![list(&[-1]), list(&[0]), list(&[1]), list(&[0])];
        assert_eq!(single(13, "Slice", &[-1, 4, 5], still, vec![]).code(), "bad_value");
        let more = vec![list(&[0, 0]), list(&[1]), list(&[1])];
        assert_eq!(single(13, "Slice", &[-1, 4, 5], more, vec![]).code(), "bad_value");
    }

    #[test]
    fn indices_count_from_the_start() {
        let gather = |indices: &[i64]| single(13, "Gather", &[-1, 4, 5], vec![list(indices)], vec![int("axis", -2)]);
        let network = gather(&[0, -1, 3]).resolve(2).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 3, 5]);
        let indices = network.values[network.layers[0].inputs[1]].constant.as_deref();
        assert_eq!(indices, Some(&dala_spec::Data::S64(vec![0, 3, 3])));
        assert_eq!(gather(&[4]).code(), "bad_value");
        assert_eq!(gather(&[-5]).code(), "bad_value");
        let floats = Net::new(13).x(&[4]).node("Gather", &["x", "x"], "y", vec![]).output("y");
        assert_eq!(floats.code(), "dtype_mismatch");
    }
}
