//! Operators that work on each element by itself.

use dala_spec::{DType, Shape};

use super::{Call, Outcome, broadcast};
use crate::graph::Attribute;
use crate::proto::element_type;
use crate::{BinaryOp, ModelError, Op, fold, read};

/// A function of one value.
pub(super) fn unary(call: &Call<'_>, op: Op) -> Result<Outcome, ModelError> {
    if op != Op::Relu || call.dtype(0)? == DType::U8 || call.dtype(0)? == DType::U32 {
        call.float()?;
    }
    Ok(Outcome::layer(op, [call.input(0)?], call.value(0)?.ty.clone()))
}

pub(super) fn hard_sigmoid(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let alpha = call.float_attribute("alpha", 0.2)?;
    unary(call, Op::HardSigmoid { alpha, beta: call.float_attribute("beta", 0.5)? })
}

pub(super) fn leaky_relu(call: &Call<'_>) -> Result<Outcome, ModelError> {
    unary(call, Op::LeakyRelu { alpha: call.float_attribute("alpha", 0.01)? })
}

pub(super) fn clip(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let bound = |name: &'static str, place: usize, default: f32| {
        if call.opset < 11 {
            return call.float_attribute(name, default);
        }
        Ok(call.scalar(place, name)?.map_or(default, |scalar| scalar.as_f64() as f32))
    };
    let (min, max) = (bound("min", 1, f32::MIN)?, bound("max", 2, f32::MAX)?);
    unary(call, Op::Clip { min, max })
}

pub(super) fn binary(call: &Call<'_>, op: BinaryOp) -> Result<Outcome, ModelError> {
    call.same_dtype(1)?;
    let (a, b) = (call.dims(0)?, call.dims(1)?);
    let expected = || format!("a second input that can be repeated to fit {}", Shape::from(a));
    let dims = broadcast(a, b).ok_or_else(|| call.shape_mismatch(expected(), &b))?;
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Op::Binary(op), [call.input(0)?, call.input(1)?], ty))
}

pub(super) fn batch_norm(call: &Call<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let dims = call.dims(0)?;
    let Some(&channels) = dims.get(1) else {
        return Err(call.shape_mismatch("a first input with at least two dimensions", &dims));
    };
    for place in 1..5 {
        call.same_dtype(place)?;
        let found = call.dims(place)?;
        if found != [channels] {
            return Err(
                call.shape_mismatch(format!("a scale, bias, mean and variance of shape {{{channels}}}"), &found)
            );
        }
    }
    let epsilon = call.float_attribute("epsilon", 1e-5)?;
    let inputs = [call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?];
    Ok(Outcome::layer(Op::BatchNorm { epsilon }, inputs, call.value(0)?.ty.clone()))
}

pub(super) fn cast(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let to = match call.attribute("to") {
        Some(Attribute::Int(to)) => i32::try_from(*to).unwrap_or(0),
        Some(other) => return Err(call.bad_attribute("to", "an integer", other.kind())),
        None => return Err(call.bad_attribute("to", "there", "nothing")),
    };
    let dtype = read::dtype(to).map_err(|found| ModelError::ElementType {
        what: format!("the result of node `{}`", call.name()),
        found: found.to_owned(),
    })?;
    let value = call.value(0)?;
    if to == element_type::BOOL {
        // Truth values are bytes here, and a byte of a layer's output would keep its number.
        let data = value.constant.as_deref().ok_or_else(|| call.unsupported("not supported: a cast to bool"))?;
        return Ok(Outcome::Constant(value.ty.shape.clone(), fold::to_bool(data)));
    }
    if value.ty.dtype == dtype {
        return Ok(Outcome::Same(call.input(0)?));
    }
    let ty = call.output(dtype, value.ty.shape.dims().to_vec())?;
    Ok(Outcome::layer(Op::Cast, [call.input(0)?], ty))
}

#[cfg(test)]
mod tests {
    use crate::Op;
    use crate::builder::{Net, float, floats, int, scalar, single};
    use crate::proto::element_type;

    fn op(net: Net) -> Op {
        let model = crate::Model::read(net.bytes()).unwrap();
        model.resolve(model.fixed_batch().unwrap_or(1)).unwrap().layers[0].op.clone()
    }

    #[test]
    fn bounds_are_attributes_or_inputs() {
        let old = single(9, "Clip", &[2], vec![], vec![float("max", 6.0)]);
        assert_eq!(op(old), Op::Clip { min: f32::MIN, max: 6.0 });
        let new = single(13, "Clip", &[2], vec![scalar(1.0)], vec![]);
        assert_eq!(op(new), Op::Clip { min: 1.0, max: f32::MAX });
        let no_min = Net::new(13).x(&[2]).tensor("six", scalar(6.0)).node("Clip", &["x", "", "six"], "y", vec![]);
        assert_eq!(op(no_min.output("y")), Op::Clip { min: f32::MIN, max: 6.0 });
        let open = Net::new(13).x(&[1]).node("Clip", &["x", "x"], "y", vec![]).output("y");
        assert_eq!(open.code(), "not_constant");
        assert_eq!(single(13, "Clip", &[2], vec![floats(&[2], vec![1.0; 2])], vec![]).code(), "bad_value");
    }

    #[test]
    fn defaults_are_those_of_the_format() {
        assert_eq!(op(single(13, "LeakyRelu", &[2], vec![], vec![])), Op::LeakyRelu { alpha: 0.01 });
        assert_eq!(op(single(13, "HardSigmoid", &[2], vec![], vec![])), Op::HardSigmoid { alpha: 0.2, beta: 0.5 });
    }

    #[test]
    fn shapes_are_repeated_to_fit() {
        let dims = |x: &[i64], c: &[i64]| {
            let c = floats(c, vec![1.0; c.iter().product::<i64>() as usize]);
            let network = single(13, "Mul", x, vec![c], vec![]).resolve(1);
            network.map(|network| network.values[network.outputs[0]].ty.shape.dims().to_vec())
        };
        assert_eq!(dims(&[1, 3, 1, 5], &[4, 1]).unwrap(), [1, 3, 4, 5]);
        assert_eq!(dims(&[1], &[]).unwrap(), [1]);
        assert_eq!(dims(&[1, 3], &[2]).unwrap_err().code(), "shape_mismatch");
    }

    #[test]
    fn casts_to_the_same_type_vanish() {
        let cast = |to| single(13, "Cast", &[2], vec![], vec![int("to", to)]);
        assert!(cast(element_type::FLOAT.into()).resolve(2).unwrap().layers.is_empty());
        assert_eq!(op(cast(element_type::INT64.into())), Op::Cast);
        assert_eq!(cast(element_type::FLOAT16.into()).code(), "unsupported_element_type");
        assert_eq!(cast(element_type::BOOL.into()).code(), "unsupported_operator");
    }
}
