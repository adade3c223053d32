//! `Unsqueeze`: axes of size one come. Where is an attribute up to version 12 and an input after.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::reshape::reshaped;
use crate::ModelError;

pub(super) const UNSQUEEZE: Operator = Operator::new("Unsqueeze", Kind::Layout, infer).inputs(1, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let given = call.integers_from("axes", 1, 13)?;
    let given = given.ok_or_else(|| call.bad_attribute("axes", "there", "nothing"))?;
    let rank = dims.len() + given.len();
    let axes = call.axes(&given, rank)?;
    let mut rest = dims.iter().copied();
    let dims = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { rest.next().unwrap_or(1) });
    reshaped(call, dims.collect())
}

#[cfg(test)]
mod tests {
    use crate::builder::{list, single};

    #[test]
    fn each_new_axis_has_its_own_place() {
        let x = &[-1, 1, 4, 1];
        assert_eq!(single(13, "Unsqueeze", x, vec![list(&[0, -1])], vec![]).dims().unwrap(), [1, 2, 1, 4, 1, 1]);
        assert_eq!(single(13, "Unsqueeze", x, vec![list(&[0, 0])], vec![]).code(), "bad_value");
        assert_eq!(single(13, "Unsqueeze", x, vec![list(&[0, 1, 2, 3, 4])], vec![]).code(), "too_large");
    }
}
