//! `Cast`: the same numbers as elements of another type.

use dala_spec::DType;

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::range::named_type;
use super::unary::{Each, question};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::proto::element_type;

pub(super) const CAST: Operator = Operator::new("Cast", Kind::Elements, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let to = match call.attribute("to") {
        Some(Attribute::Int(to)) => *to,
        Some(other) => return Err(call.bad_attribute("to", "an integer", other.kind())),
        None => return Err(call.bad_attribute("to", "there", "nothing")),
    };
    let dtype = named_type(call, to)?;
    match to == i64::from(element_type::BOOL) {
        // Truth values are bytes here.
        true => question(call, Each::text("x != 0")),
        false => to_type(call, dtype),
    }
}

/// To the element type of the second input.
pub(super) const CAST_LIKE: Operator =
    Operator::new("CastLike", Kind::Elements, |call| to_type(call, call.dtype(1)?)).inputs(2, 2);

/// Of integers that do not fit, the low bits are kept, as the format says.
fn to_type(call: &NodeCall<'_>, dtype: DType) -> Result<Outcome, ModelError> {
    let value = call.value(0)?;
    if value.ty.dtype == dtype {
        return Ok(Outcome::same(call.input(0)?));
    }
    let ty = call.output(dtype, value.ty.shape.dims().to_vec())?;
    let each = match value.ty.dtype.is_float() || dtype.is_float() {
        true => Each::new("cast"),
        false => Each::new("cast").with_param("overflow", "wrap"),
    };
    Ok(Outcome::layer(each, [call.input(0)?], ty))
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
        assert_eq!(cast(element_type::BOOL.into()).code(), "read");
        let like = single(15, "CastLike", &[2], vec![list(&[1])], vec![]).resolve(2).unwrap();
        assert_eq!(like.layers[0].op.downcast(), Some(&Each::new("cast")));
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
