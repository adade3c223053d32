//! `Squeeze`: axes of size one go. Which ones is an attribute up to version 12 and an input after.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::reshape::reshaped;
use crate::ModelError;

pub(super) const SQUEEZE: Operator = Operator::new("Squeeze", Kind::Layout, infer).inputs(1, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let axes = match call.integers_from("axes", 1, 13)? {
        Some(given) => call.axes(&given, dims.len())?,
        None => dims.iter().enumerate().filter(|(_, dim)| **dim == 1).map(|(axis, _)| axis).collect(),
    };
    if axes.iter().any(|&axis| dims.get(axis) != Some(&1)) {
        return Err(call.shape_mismatch(format!("size 1 along the axes {axes:?}"), dims));
    }
    let left = dims.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &dim)| dim);
    reshaped(call, left.collect())
}

#[cfg(test)]
mod tests {
    use crate::builder::{ints, list, single};

    #[test]
    fn only_axes_of_size_one_go() {
        let x = &[-1, 1, 4, 1];
        assert_eq!(single(13, "Squeeze", x, vec![list(&[1, -1])], vec![]).dims().unwrap(), [2, 4]);
        assert_eq!(single(11, "Squeeze", x, vec![], vec![ints("axes", &[1])]).dims().unwrap(), [2, 4, 1]);
        assert_eq!(single(13, "Squeeze", x, vec![list(&[2])], vec![]).code(), "shape_mismatch");
    }
}
