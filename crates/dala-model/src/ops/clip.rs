//! `Clip`: numbers moved into a range, whose ends are attributes up to version 10 and inputs after.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::unary::{Each, numbers};
use crate::ModelError;

pub(super) const CLIP: Operator = Operator::new("Clip", Kind::Elements, infer).inputs(1, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.dtype(0)?;
    if call.opset < 11 {
        call.float()?;
        return numbers(call, clamp(call.float_attribute("min", f32::MIN)?, call.float_attribute("max", f32::MAX)?));
    }
    let mut places = Vec::new();
    for place in (1..3).filter(|&place| call.has(place)) {
        call.same_dtype(place)?;
        let len = call.value(place)?.ty.shape.len();
        if len != 1 {
            return Err(call.bad_value(if place == 1 { "min" } else { "max" }, "one element", len));
        }
        places.push(place);
    }
    let constant = |place: usize| call.value(place).is_ok_and(|value| value.constant.is_some());
    if dtype.is_float() && places.iter().all(|&place| constant(place)) {
        let bound = |place: usize, name: &str, default: f32| {
            Ok(call.scalar(place, name)?.map_or(default, |scalar| scalar.as_f64() as f32))
        };
        return numbers(call, clamp(bound(1, "min", f32::MIN)?, bound(2, "max", f32::MAX)?));
    }
    let text = match places[..] {
        [] => return Ok(Outcome::same(call.input(0)?)),
        [1] => "max(a, b)",
        [_] => "min(a, b)",
        _ => "min(max(a, b), c)",
    };
    let inputs = [0].into_iter().chain(places).map(|place| call.input(place)).collect::<Result<Vec<_>, _>>()?;
    Ok(Outcome::layer(Each::text(text), inputs, call.value(0)?.ty.clone()))
}

fn clamp(min: f32, max: f32) -> Each {
    Each::new("clamp").with("min", min).with("max", max)
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::{Each, clamp};
    use crate::builder::{Net, constants, float, floats, integers, list, scalar, single};

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
        assert_eq!(open.resolve(1).unwrap().layers[0].op.downcast(), Some(&Each::text("max(a, b)")));
        assert_eq!(single(13, "Clip", &[2], vec![floats(&[2], vec![1.0; 2])], vec![]).code(), "bad_value");
        assert_eq!(single(13, "Clip", &[2], vec![integers(&[], &[1])], vec![]).code(), "dtype_mismatch");
        let whole = vec![list(&[-5, 1, 9]), integers(&[], &[0]), integers(&[], &[7])];
        assert_eq!(constants(13, "Clip", whole, vec![]).1, Data::S64(vec![0, 1, 7]));
    }
}
