//! `Cast`: the same numbers as elements of another type.

use dala_spec::{DType, Data, Scalar};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::unary::Each;
use crate::ModelError;
use crate::attribute::Attribute;
use crate::proto::element_type;

pub(super) const CAST: Operator = Operator::new("Cast", Kind::Elements, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let to = match call.attribute("to") {
        Some(Attribute::Int(to)) => i32::try_from(*to).unwrap_or(0),
        Some(other) => return Err(call.bad_attribute("to", "an integer", other.kind())),
        None => return Err(call.bad_attribute("to", "there", "nothing")),
    };
    let dtype = element_type::dtype(to).map_err(|found| ModelError::ElementType {
        what: format!("the result of node `{}`", call.name()),
        found: found.to_owned(),
    })?;
    let value = call.value(0)?;
    if to == element_type::BOOL {
        // Truth values are bytes here, and a byte of a layer's output would keep its number.
        let data = value.constant.as_deref().ok_or_else(|| call.unsupported("not supported: a cast to bool"))?;
        let truth = data.iter().map(|value| u8::from(value.as_f64() != 0.0)).collect();
        return Ok(Outcome::constant(value.ty.shape.clone(), Data::U8(truth)));
    }
    if value.ty.dtype == dtype {
        return Ok(Outcome::same(call.input(0)?));
    }
    if let (DType::U8, false, Some(data)) = (dtype, value.ty.dtype.is_float(), value.constant.as_deref()) {
        // Kernels take bytes for pixels, which stay in their range; of a constant the low bits are kept, as the format says.
        let bytes = data.iter().map(|value| Scalar::from_i64(dtype, value.as_i64()));
        return Ok(Outcome::constant(value.ty.shape.clone(), Data::collect(dtype, bytes)));
    }
    let ty = call.output(dtype, value.ty.shape.dims().to_vec())?;
    Ok(Outcome::layer(Each::new("cast"), [call.input(0)?], ty))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::Each;
    use crate::builder::{constants, floats, int, list, single};
    use crate::proto::element_type;

    #[test]
    fn casts_to_the_same_type_vanish() {
        let cast = |to| single(13, "Cast", &[2], vec![], vec![int("to", to)]);
        assert!(cast(element_type::FLOAT.into()).resolve(2).unwrap().layers.is_empty());
        let whole = cast(element_type::INT64.into()).resolve(2).unwrap();
        assert_eq!(whole.layers[0].op.downcast(), Some(&Each::new("cast")));
        assert_eq!(cast(14).code(), "unsupported_element_type");
        let half = cast(element_type::FLOAT16.into()).resolve(2).unwrap();
        assert_eq!(half.layers[0].op.downcast(), Some(&Each::new("cast")));
        assert_eq!(cast(element_type::BOOL.into()).code(), "unsupported_operator");
    }

    #[test]
    fn constants_are_cast() {
        let whole = constants(13, "Cast", vec![floats(&[3], vec![-1.5, 2.9, 300.0])], vec![int("to", 7)]);
        assert_eq!(whole.1, Data::S64(vec![-1, 2, 300]));
        let truth = constants(13, "Cast", vec![list(&[0, 256, -1])], vec![int("to", 9)]);
        assert_eq!(truth.1, Data::U8(vec![0, 1, 1]));
        let bytes = constants(13, "Cast", vec![list(&[3, 257, -1])], vec![int("to", 2)]);
        assert_eq!(bytes.1, Data::U8(vec![3, 1, 255]));
    }
}
