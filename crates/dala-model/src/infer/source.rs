//! Operators that give constants, and those that do nothing.

use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape};

use super::{Call, Outcome};
use crate::ModelError;
use crate::graph::Attribute;

pub(super) fn constant(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let list = |len: usize| Shape::from([len]);
    for name in ["value", "value_float", "value_int", "value_floats", "value_ints"] {
        let outcome = match (name, call.attribute(name)) {
            (_, None) => continue,
            ("value", Some(Attribute::Tensor(tensor))) => Outcome::Shared(tensor.ty.clone(), Arc::clone(&tensor.data)),
            ("value_float", Some(Attribute::Float(value))) => {
                Outcome::Constant(Shape::default(), Data::F32(vec![*value]))
            }
            ("value_int", Some(Attribute::Int(value))) => Outcome::Constant(Shape::default(), Data::S64(vec![*value])),
            ("value_floats", Some(Attribute::Floats(values))) => {
                Outcome::Constant(list(values.len()), Data::F32(values.clone()))
            }
            ("value_ints", Some(Attribute::Ints(values))) => {
                Outcome::Constant(list(values.len()), Data::S64(values.clone()))
            }
            (_, Some(other)) => return Err(call.bad_attribute(name, "what its name says", other.kind())),
        };
        return Ok(outcome);
    }
    Err(call.bad_attribute("value", "there", "nothing"))
}

pub(super) fn constant_of_shape(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let mut dims = Vec::new();
    for dim in call.integers(0, "the shape")? {
        let size = usize::try_from(dim);
        dims.push(size.map_err(|_| call.bad_value("the shape", "numbers of at least 0", dim))?);
    }
    let scalar = match call.attribute("value") {
        None => Some(Scalar::F32(0.0)),
        Some(Attribute::Tensor(tensor)) if tensor.data.len() == 1 => tensor.data.get(0),
        Some(_) => None,
    };
    let scalar = scalar.ok_or_else(|| call.bad_attribute("value", "a tensor of one element", "something else"))?;
    let ty = call.output(scalar.dtype(), dims)?;
    Ok(Outcome::Filled(ty.shape, scalar))
}

pub(super) fn shape(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let rank = dims.len() as i64;
    // From version 15 on, a part of the shape; the ends are moved into it.
    let place = |given: i64| (if given < 0 { given.saturating_add(rank) } else { given }).clamp(0, rank) as usize;
    let (start, end) = (place(call.int("start", 0)?), place(call.int("end", rank)?));
    let part: Vec<i64> = dims.get(start..end).unwrap_or_default().iter().map(|&dim| dim as i64).collect();
    Ok(Outcome::Constant(Shape::from([part.len()]), Data::S64(part)))
}

/// Leaves everything as it is, unless the file was made for training.
pub(super) fn dropout(call: &Call<'_>) -> Result<Outcome, ModelError> {
    match call.scalar(2, "training_mode")? {
        Some(training) if training.as_i64() != 0 => Err(call.unsupported("not supported: training_mode")),
        _ => Ok(Outcome::Same(call.input(0)?)),
    }
}
