//! `Pad`: more elements around the value. How many is an attribute up to version 10 and a constant input after.

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

pub(super) const PAD: Operator = Operator::new("Pad", Kind::Layout, infer).inputs(1, 4).refuses(|node| {
    let other = node.says_other("mode", &["constant", "reflect", "edge"]);
    refused([(other, "modes other than constant, reflect and edge")])
});

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
        return Ok(Outcome::same(input));
    }
    let ty = call.output(call.dtype(0)?, padded)?;
    Ok(Outcome::layer(Pad { before, after, mode }, [input], ty))
}

/// One entry for each axis.
#[derive(Debug, PartialEq)]
struct Pad {
    before: Vec<usize>,
    after: Vec<usize>,
    mode: PadMode,
}

/// What the elements around are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PadMode {
    /// A number.
    Constant(f32),
    /// The elements mirrored at the outermost one, which is not repeated.
    Reflect,
    /// The outermost element.
    Edge,
}

impl Compute for Pad {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let params = match self.mode {
            PadMode::Constant(value) => Params::new().with("mode", "constant").with("value", f64::from(value)),
            PadMode::Reflect => Params::new().with("mode", "reflect"),
            PadMode::Edge => Params::new().with("mode", "edge"),
        };
        let order = to.order(0);
        let side = |sizes: &[usize]| ints(&order.axes(sizes));
        let x = to.read(0, order)?;
        to.call_in(order, "pad", &[x], &params.with("before", side(&self.before)).with("after", side(&self.after)))
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
        assert_eq!(pad(&[0, -1, 0, 0], "edge"), "unsupported_operator");
        assert_eq!(pad(&[0, 1 << 31, 0, 0], "constant"), "too_large");
        assert_eq!(pad(&[0, i64::MAX, 0, 0], "constant"), "bad_value");
        assert_eq!(pad(&[0, 1, 0, 0], "wrap"), "unsupported_operator");
    }

    #[test]
    fn constants_are_padded() {
        let matrix = || floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let padded = constants(13, "Pad", vec![matrix(), list(&[0, 1, 0, 0]), scalar(9.0)], vec![]);
        assert_eq!(padded, (vec![2, 4], Data::F32(vec![9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0])));
        let mirrored = constants(9, "Pad", vec![matrix()], vec![ints("pads", &[0, 2, 0, 0]), text("mode", "reflect")]);
        assert_eq!(mirrored, (vec![2, 5], Data::F32(vec![3.0, 2.0, 1.0, 2.0, 3.0, 6.0, 5.0, 4.0, 5.0, 6.0])));
    }
}
