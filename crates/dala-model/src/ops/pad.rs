//! `Pad`: more elements around the value, or fewer. How many is an attribute up to version 10 and a constant input after.
//! And `CenterCropPad`: as many elements as a constant says, with the middle staying where it is.

use dala_spec::{Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const PAD: Operator = Operator::new("Pad", Kind::Layout, infer).inputs(1, 4);

pub(super) const CENTER_CROP_PAD: Operator = Operator::new("CenterCropPad", Kind::Layout, |call| {
    let dims = call.dims(0)?;
    let axes = match call.ints("axes")? {
        Some(given) => call.axes(given, dims.len())?,
        None => (0..dims.len()).collect(),
    };
    let given = call.integers(1, "the shape")?;
    let fits = given.len() == axes.len() && given.iter().all(|size| (0..=MAX_ELEMENTS as i64).contains(size));
    if !fits {
        return Err(call.bad_value("the shape", format!("{} sizes", axes.len()), format!("{given:?}")));
    }
    let (mut before, mut after, mut sizes) = (vec![0; dims.len()], vec![0; dims.len()], dims.to_vec());
    for (&axis, &size) in axes.iter().zip(&given) {
        let sides = (before.get_mut(axis), after.get_mut(axis), sizes.get_mut(axis));
        if let (Some(before), Some(after), Some(own)) = sides {
            // What is odd is at the end, be it added or taken away.
            let more = size - *own as i64;
            *before = more / 2;
            (*after, *own) = (more - *before, size as usize);
        }
    }
    if sizes == dims {
        return Ok(Outcome::same(call.input(0)?));
    }
    let ty = call.output(call.dtype(0)?, sizes)?;
    Ok(Outcome::layer(Pad { before, after, mode: PadMode::Constant(0.0) }, [call.input(0)?], ty))
})
.inputs(2, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
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
            if size.unsigned_abs() > MAX_ELEMENTS as u64 {
                return Err(bad("numbers of a size that can be"));
            }
            list.get_mut(axis).into_iter().for_each(|pad| *pad = size);
        }
    }
    let mode = match call.text("mode", "constant")? {
        "constant" if call.opset < 11 => PadMode::Constant(call.float_attribute("value", 0.0)?.into()),
        "constant" => {
            let value = call.scalar(2, "the constant value")?;
            PadMode::Constant(value.map_or(0.0, |scalar| scalar.as_f64()))
        }
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(call.bad_attribute("mode", "constant, reflect, edge or wrap", other)),
    };
    let mut padded = Vec::with_capacity(dims.len());
    for ((&dim, &before), &after) in dims.iter().zip(&before).zip(&after) {
        // What is taken away is taken away first.
        let left = dim as i64 + before.min(0) + after.min(0);
        let most = before.max(after).max(0);
        match mode {
            _ if left < 0 => return Err(bad("no more taken away than there is")),
            PadMode::Reflect if most >= left.max(1) && most > 0 => {
                return Err(bad("smaller than the value along each axis"));
            }
            PadMode::Edge | PadMode::Wrap if left == 0 && most > 0 => {
                return Err(bad("nothing along an axis of size 0"));
            }
            _ => padded.push((left + before.max(0) + after.max(0)) as usize),
        }
    }
    let input = call.input(0)?;
    if padded == dims && before.iter().chain(&after).all(|&side| side == 0) {
        return Ok(Outcome::same(input));
    }
    let ty = call.output(call.dtype(0)?, padded)?;
    Ok(Outcome::layer(Pad { before, after, mode }, [input], ty))
}

/// One entry for each axis.
#[derive(Debug, PartialEq)]
struct Pad {
    /// Negative where elements are taken away.
    before: Vec<i64>,
    after: Vec<i64>,
    mode: PadMode,
}

/// What the elements around are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PadMode {
    /// A number.
    Constant(f64),
    /// The elements mirrored at the outermost one, which is not repeated.
    Reflect,
    /// The outermost element.
    Edge,
    /// The elements again, from the other side.
    Wrap,
}

impl Compute for Pad {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let params = match self.mode {
            PadMode::Constant(value) => Params::new().with("mode", "constant").with("value", value),
            PadMode::Reflect => Params::new().with("mode", "reflect"),
            PadMode::Edge | PadMode::Wrap => Params::new().with("mode", "edge"),
        };
        let order = to.order(0);
        let [before, after] = [&self.before, &self.after].map(|side| order.axes(side));
        let mut cell = to.read(0, order)?;
        let dtype = to.output().dtype;
        if before.iter().chain(&after).any(|&side| side < 0) {
            let taken = before.iter().zip(&after).map(|(&before, &after)| before.min(0) + after.min(0));
            let dims =
                to.calls.ty(cell).shape.dims().iter().zip(taken).map(|(&dim, taken)| (dim as i64 + taken) as usize);
            let ty = TensorType::new(dtype, dims.collect::<Vec<usize>>());
            let start: Vec<i64> = before.iter().map(|&before| -before.min(0)).collect();
            cell = to.call("slice", &[cell], ty, &Params::new().with("start", start))?;
        }
        let [before, after] = [before, after].map(|side| side.into_iter().map(|own| own.max(0)).collect::<Vec<i64>>());
        if self.mode == PadMode::Wrap {
            for axis in (0..before.len()).filter(|&axis| before[axis] + after[axis] > 0) {
                let count = to.output_in(order).shape.dims()[axis];
                let before = Params::new().with("before", before[axis]);
                cell = to.picked(cell, axis, count, "mod(i - before, size)", &before)?;
            }
        } else if before.iter().chain(&after).any(|&side| side > 0) {
            cell = to.call("pad", &[cell], to.output_in(order), &params.with("before", before).with("after", after))?;
        }
        to.give(0, order, cell);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::{Pad, PadMode};
    use crate::builder::{Net, constants, float, floats, ints, list, scalar, single, text};

    #[test]
    fn padding_has_two_numbers_for_each_axis() {
        let same = |net: Net, mode| {
            let expected = Pad { before: vec![0, 1], after: vec![0, 2], mode };
            assert_eq!(net.resolve(1).unwrap().layers[0].op.downcast(), Some(&expected));
        };
        let old = single(9, "Pad", &[1, 4], vec![], vec![ints("pads", &[0, 1, 0, 2]), float("value", 0.5)]);
        same(old, PadMode::Constant(0.5));
        let new = single(13, "Pad", &[1, 4], vec![list(&[0, 1, 0, 2]), scalar(2.0)], vec![]);
        same(new, PadMode::Constant(2.0));
        let axes =
            single(18, "Pad", &[1, 4], vec![list(&[1, 2]), scalar(2.0), list(&[-1])], vec![text("mode", "edge")]);
        same(axes, PadMode::Edge);
        let pad = |pads: &[i64], mode| single(13, "Pad", &[1, 4], vec![list(pads)], vec![text("mode", mode)]).code();
        assert_eq!(pad(&[0, 4, 0, 0], "reflect"), "bad_value");
        assert_eq!(pad(&[0, 3, 0, 3], "reflect"), "read");
        assert_eq!(pad(&[0, 1], "edge"), "bad_value");
        assert_eq!(pad(&[0, -1, 0, 0], "edge"), "read");
        assert_eq!(pad(&[0, -3, 0, -2], "edge"), "bad_value");
        assert_eq!(pad(&[0, 1 << 31, 0, 0], "constant"), "too_large");
        assert_eq!(pad(&[0, i64::MAX, 0, 0], "constant"), "bad_value");
        assert_eq!(pad(&[0, 1, 0, 0], "somehow"), "bad_attribute");
    }

    #[test]
    fn the_middle_stays() {
        let line = || floats(&[1, 4], vec![1.0, 2.0, 3.0, 4.0]);
        let of = |shape: &[i64]| constants(18, "CenterCropPad", vec![line(), list(shape)], vec![ints("axes", &[1])]).1;
        assert_eq!(of(&[1]), Data::F32(vec![2.0]));
        assert_eq!(of(&[7]), Data::F32(vec![0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]));
        assert_eq!(single(18, "CenterCropPad", &[1, 4], vec![list(&[1])], vec![]).code(), "bad_value");
    }

    #[test]
    fn constants_are_padded() {
        let matrix = || floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let padded = constants(13, "Pad", vec![matrix(), list(&[0, 1, 0, 0]), scalar(9.0)], vec![]);
        assert_eq!(padded, (vec![2, 4], Data::F32(vec![9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0])));
        let mirrored = constants(9, "Pad", vec![matrix()], vec![ints("pads", &[0, 2, 0, 0]), text("mode", "reflect")]);
        let fewer = constants(13, "Pad", vec![matrix(), list(&[0, -1, 1, 0]), scalar(9.0)], vec![]);
        assert_eq!(fewer, (vec![3, 2], Data::F32(vec![2.0, 3.0, 5.0, 6.0, 9.0, 9.0])));
        let wrapped = constants(19, "Pad", vec![matrix(), list(&[0, 4, 0, 1])], vec![text("mode", "wrap")]);
        assert_eq!(wrapped.0, [2, 8]);
        let Data::F32(wrapped) = wrapped.1 else { panic!("no floats") };
        assert_eq!(wrapped[..8], [3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0]);
        assert_eq!(mirrored, (vec![2, 5], Data::F32(vec![3.0, 2.0, 1.0, 2.0, 3.0, 6.0, 5.0, 4.0, 5.0, 6.0])));
    }
}
