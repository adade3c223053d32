//! `Reshape`: the same elements in another shape.

use std::sync::Arc;

use dala_spec::SpecError;

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const RESHAPE: Operator = Operator::new("Reshape", Kind::Layout, infer).inputs(2, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let from = call.value(0)?.ty.shape.clone();
    let given = call.integers(1, "the shape")?;
    let keep_zeros = call.flag("allowzero", false)?;
    let bad = || call.bad_value("the shape", format!("one that {from} can take"), format!("{given:?}"));
    let mut dims = Vec::new();
    let mut open = None;
    for (axis, &size) in given.iter().enumerate() {
        dims.push(match size {
            0 if !keep_zeros => *from.dims().get(axis).ok_or_else(bad)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            size => usize::try_from(size).ok().filter(|&size| size <= MAX_ELEMENTS).ok_or_else(bad)?,
        });
    }
    if let Some(open) = open {
        let known = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim)).ok_or_else(bad)?;
        let size = from.len().checked_div(known).filter(|size| size * known == from.len()).ok_or_else(bad)?;
        dims.get_mut(open).into_iter().for_each(|dim| *dim = size);
    }
    reshaped(call, dims)
}

/// The first input's elements in `dims`; nothing at all if that is the shape they have.
pub(super) fn reshaped(call: &NodeCall<'_>, dims: Vec<usize>) -> Result<Outcome, ModelError> {
    let value = call.value(0)?;
    let from = &value.ty;
    let ty = call.output(from.dtype, dims)?;
    if ty.shape.len() != from.shape.len() {
        return Err(call.shape_mismatch(
            format!("a shape for the {} elements of {}", from.shape.len(), from.shape),
            ty.shape.dims(),
        ));
    }
    Ok(match &value.constant {
        _ if ty == *from => Outcome::same(call.input(0)?),
        Some(data) => Outcome::Given(vec![Given::Shared(ty, Arc::clone(data))]),
        None => Outcome::layer(Reshape, [call.input(0)?], ty),
    })
}

#[derive(Debug)]
struct Reshape;

impl Compute for Reshape {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let cell = to.first(0)?;
        to.give_first(0, cell);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{constants, int, list, single, some_floats};

    #[test]
    fn shapes_may_be_open_in_one_place() {
        let reshape =
            |shape: &[i64], attributes| single(14, "Reshape", &[-1, 6, 4], vec![list(shape)], attributes).dims();
        assert_eq!(reshape(&[0, -1], vec![]).unwrap(), [2, 24]);
        assert_eq!(reshape(&[-1, 3, 0], vec![]).unwrap(), [4, 3, 4]);
        for bad in [&[-1, -1][..], &[-2, 6], &[7, -1], &[i64::MAX, -1], &[1, 1, 1, 0], &[i64::MAX; 8]] {
            assert_eq!(reshape(bad, vec![]).unwrap_err().code(), "bad_value", "{bad:?}");
        }
        assert_eq!(reshape(&[5, 5], vec![]).unwrap_err().code(), "shape_mismatch");
        assert_eq!(reshape(&[0, 24], vec![int("allowzero", 1)]).unwrap_err().code(), "shape_mismatch");
        assert_eq!(reshape(&[1 << 31, 1 << 31, 0], vec![]).unwrap_err().code(), "too_large");
    }

    #[test]
    fn constants_take_another_shape() {
        assert_eq!(constants(13, "Reshape", vec![some_floats(&[2, 3]), list(&[-1])], vec![]).0, [6]);
    }
}
