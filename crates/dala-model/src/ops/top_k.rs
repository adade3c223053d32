//! `TopK`: the largest or smallest elements along an axis, in order, and where they are. How many is an attribute up to version 9 and a
//! constant input after. Of equal ones the first comes first.

use std::sync::Arc;

use dala_spec::{DType, Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

pub(super) const TOP_K: Operator = Operator::new("TopK", Kind::Axes, infer).inputs(1, 2).outputs(2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let (dims, dtype) = (call.dims(0)?, call.dtype(0)?);
    let axis = call.axis(call.int("axis", -1)?, dims.len(), "axis")?;
    let size = dims.get(axis).copied().unwrap_or_default();
    let given = match call.opset {
        ..10 => call.int("k", -1)?,
        _ => match call.integers(1, "k")?[..] {
            [k] => k,
            ref list => return Err(call.bad_value("k", "one number", format!("{list:?}"))),
        },
    };
    let count = usize::try_from(given).ok().filter(|&count| count <= size);
    let count = count.ok_or_else(|| call.bad_value("k", format!("from 0 to {size}"), given))?;
    let largest = call.flag("largest", true)?;
    call.flag("sorted", true)?;
    let mut dims = dims.to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = count);
    let types = vec![call.output(dtype, dims.clone())?, call.output(DType::S64, dims)?];
    let inputs = vec![("x", Given::Value(call.input(0)?))];
    Ok(Outcome::Layer { compute: Arc::new(TopK { axis, largest }), inputs, types })
}

#[derive(Debug, PartialEq)]
struct TopK {
    axis: usize,
    largest: bool,
}

impl Compute for TopK {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let x = to.first(0)?;
        let axis = Params::new().with("axis", self.axis as i64);
        let places = TensorType { dtype: DType::S64, shape: to.output().shape.clone() };
        let places = to.call("argsort", &[x], places, &axis.clone().with("descending", self.largest))?;
        to.make(0, Order::First, "gather_elements", &[x, places], &axis)?;
        to.give_first(1, places);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::TopK;
    use crate::builder::{Net, floats, int, list, single};

    #[test]
    fn how_many_is_an_attribute_or_an_input() {
        let old = single(9, "TopK", &[-1, 5], vec![], vec![int("k", 3)]);
        assert_eq!(old.dims().unwrap(), [2, 3]);
        let new = single(11, "TopK", &[-1, 5], vec![list(&[3])], vec![int("axis", 0), int("largest", 0)]);
        assert_eq!(new.resolve(2).unwrap_err().code(), "bad_value");
        assert!(new.resolve(3).is_ok());
        let new = single(11, "TopK", &[-1, 5], vec![list(&[2])], vec![int("largest", 0)]).resolve(2).unwrap();
        assert_eq!(new.layers[0].op.downcast(), Some(&TopK { axis: 1, largest: false }));
        assert_eq!(single(11, "TopK", &[-1, 5], vec![list(&[6])], vec![]).code(), "bad_value");
        assert_eq!(single(11, "TopK", &[-1, 5], vec![list(&[-1])], vec![]).code(), "bad_value");
    }

    #[test]
    fn equal_ones_stay_in_order() {
        let mut net = Net::new(13).x(&[-1]).tensor("c", floats(&[6], vec![1.0, 3.0, f32::NAN, 3.0, 2.0, 3.0]));
        net = net.ints("k", &[5]).node("TopK", &["c", "k"], "values", vec![]);
        net.graph().node[0].output.push("places".to_owned());
        let network = net.output("values").output("places").resolve(1).unwrap();
        let constant = |place: usize| network.values[network.outputs[place]].constant.as_deref().cloned();
        assert_eq!(constant(0), Some(Data::F32(vec![3.0, 3.0, 3.0, 2.0, 1.0])));
        assert_eq!(constant(1), Some(Data::S64(vec![1, 3, 5, 4, 0])));
    }
}
