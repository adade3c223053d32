//! `Clip`: numbers moved into a range, whose ends are attributes up to version 10 and constant inputs after.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::unary::{Each, floats};
use crate::ModelError;

pub(super) const CLIP: Operator = Operator::new("Clip", Kind::Elements, infer).inputs(1, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let bound = |name: &'static str, place: usize, default: f32| {
        if call.opset < 11 {
            return call.float_attribute(name, default);
        }
        Ok(call.scalar(place, name)?.map_or(default, |scalar| scalar.as_f64() as f32))
    };
    floats(call, clamp(bound("min", 1, f32::MIN)?, bound("max", 2, f32::MAX)?))
}

fn clamp(min: f32, max: f32) -> Each {
    Each::new("clamp").with("min", min).with("max", max)
}

#[cfg(test)]
mod tests {
    use super::clamp;
    use crate::builder::{Net, float, floats, scalar, single};

    #[test]
    fn bounds_are_attributes_or_inputs() {
        let same = |net: Net, min: f32, max: f32| {
            assert_eq!(net.resolve(2).unwrap().layers[0].op.downcast(), Some(&clamp(min, max)));
        };
        same(single(9, "Clip", &[2], vec![], vec![float("max", 6.0)]), f32::MIN, 6.0);
        same(single(13, "Clip", &[2], vec![scalar(1.0)], vec![]), 1.0, f32::MAX);
        let no_min = Net::new(13).x(&[2]).tensor("six", scalar(6.0)).node("Clip", &["x", "", "six"], "y", vec![]);
        same(no_min.output("y"), f32::MIN, 6.0);
        let open = Net::new(13).x(&[1]).node("Clip", &["x", "x"], "y", vec![]).output("y");
        assert_eq!(open.code(), "not_constant");
        assert_eq!(single(13, "Clip", &[2], vec![floats(&[2], vec![1.0; 2])], vec![]).code(), "bad_value");
    }
}
