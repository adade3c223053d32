//! `Slice`: every so many elements along each axis. Where is attributes up to version 9 and constant inputs after.

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const SLICE: Operator = Operator::new("Slice", Kind::Layout, infer).inputs(1, 5);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
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
    if sizes == dims && steps.iter().all(|&step| step > 0) {
        return Ok(Outcome::same(call.input(0)?));
    }
    let ty = call.output(value.ty.dtype, sizes)?;
    Ok(Outcome::layer(Slice { starts, steps }, [call.input(0)?], ty))
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

/// One entry for each axis.
#[derive(Debug, PartialEq)]
struct Slice {
    starts: Vec<i64>,
    /// From one element to the next; negative ones go backwards.
    steps: Vec<i64>,
}

impl Compute for Slice {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.order(0);
        let (starts, steps) = (order.axes(&self.starts), order.axes(&self.steps));
        let mut cell = to.read(0, order)?;
        let ty = to.output_in(order);
        // First those axes that go backwards, each by itself.
        let (mut forward_starts, mut forward_steps) = (starts.clone(), steps.clone());
        for axis in (0..steps.len()).filter(|&axis| steps[axis] < 0) {
            let (size, count) = (to.calls.ty(cell).shape.dims()[axis] as i64, ty.shape.dims()[axis]);
            // A step that is never taken may be of any size.
            let params = Params::new().with("start", starts[axis]).with("step", steps[axis].max(-size.max(1)));
            cell = to.picked(cell, axis, count, "start + i * step", &params)?;
            (forward_starts[axis], forward_steps[axis]) = (0, 1);
        }
        let made = match *to.calls.ty(cell) == ty {
            true => cell,
            false => {
                let params = Params::new().with("start", forward_starts).with("step", forward_steps);
                to.call("slice", &[cell], ty, &params)?
            }
        };
        to.give(0, order, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::{Slice, range};
    use crate::builder::{constants, floats, ints, list, single};

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
        let new = vec![list(&[2, 1]), list(&[9, -1]), list(&[-1, 1]), list(&[2, 1])];
        let network = single(13, "Slice", &[-1, 4, 5], new, vec![]).resolve(2).unwrap();
        let expected = Slice { starts: vec![0, 1, 2], steps: vec![1, 1, 2] };
        assert_eq!(network.layers[0].op.downcast(), Some(&expected));
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 2, 2]);
        let old = vec![ints("starts", &[1]), ints("ends", &[3]), ints("axes", &[1])];
        let network = single(9, "Slice", &[-1, 4, 5], vec![], old).resolve(2).unwrap();
        let expected = Slice { starts: vec![0, 1, 0], steps: vec![1, 1, 1] };
        assert_eq!(network.layers[0].op.downcast(), Some(&expected));
        let back = vec![list(&[-1]), list(&[0]), list(&[1]), list(&[-1])];
        let network = single(13, "Slice", &[-1, 4, 5], back, vec![]).resolve(2).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 3, 5]);
        crate::lower::lower(&network).unwrap();
        let still = vec![list(&[-1]), list(&[0]), list(&[1]), list(&[0])];
        assert_eq!(single(13, "Slice", &[-1, 4, 5], still, vec![]).code(), "bad_value");
        let more = vec![list(&[0, 0]), list(&[1]), list(&[1])];
        assert_eq!(single(13, "Slice", &[-1, 4, 5], more, vec![]).code(), "bad_value");
    }

    #[test]
    fn axes_may_go_backwards() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let back = vec![matrix, list(&[-1]), list(&[i64::MIN]), list(&[1]), list(&[-2])];
        assert_eq!(constants(13, "Slice", back, vec![]), (vec![2, 2], Data::F32(vec![3.0, 1.0, 6.0, 4.0])));
    }
}
