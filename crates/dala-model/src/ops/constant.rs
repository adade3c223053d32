//! `Constant`: numbers in the node itself.

use std::sync::Arc;

use dala_spec::{Data, Shape};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;

pub(super) const CONSTANT: Operator = Operator::new("Constant", Kind::Others, infer).inputs(0, 0).refuses(|node| {
    refused([
        (node.has("value_string") || node.has("value_strings"), "texts"),
        (node.has("sparse_value"), "sparse values"),
    ])
});

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let list = |len: usize| Shape::from([len]);
    for name in ["value", "value_float", "value_int", "value_floats", "value_ints"] {
        let given = match (name, call.attribute(name)) {
            (_, None) => continue,
            ("value", Some(Attribute::Tensor(tensor))) => Given::Shared(tensor.ty.clone(), Arc::clone(&tensor.data)),
            ("value_float", Some(Attribute::Float(value))) => {
                Given::Constant(Shape::default(), Data::F32(vec![*value]))
            }
            ("value_int", Some(Attribute::Int(value))) => Given::Constant(Shape::default(), Data::S64(vec![*value])),
            ("value_floats", Some(Attribute::Floats(values))) => {
                Given::Constant(list(values.len()), Data::F32(values.clone()))
            }
            ("value_ints", Some(Attribute::Ints(values))) => {
                Given::Constant(list(values.len()), Data::S64(values.clone()))
            }
            (_, Some(other)) => return Err(call.bad_attribute(name, "what its name says", other.kind())),
        };
        return Ok(Outcome::Given(vec![given]));
    }
    Err(call.bad_attribute("value", "there", "nothing"))
}
