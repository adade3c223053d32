//! `Flatten`: a matrix of the same elements, split before an axis.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::reshape::reshaped;
use crate::ModelError;

pub(super) const FLATTEN: Operator = Operator::new("Flatten", Kind::Layout, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let axis = call.int("axis", 1)?;
    // The axis may lie after the last one.
    let split = match axis {
        axis if axis == dims.len() as i64 => dims.len(),
        axis => call.axis(axis, dims.len(), "axis")?,
    };
    let (outer, inner) = dims.split_at_checked(split).unwrap_or((dims, &[]));
    let product = |dims: &[usize]| {
        let len = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim));
        // Too large a number is refused with the shape.
        len.unwrap_or(usize::MAX)
    };
    reshaped(call, vec![product(outer), product(inner)])
}

#[cfg(test)]
mod tests {
    use crate::builder::{int, single};

    #[test]
    fn axes_come_together_in_two() {
        let flat = |attributes| single(13, "Flatten", &[-1, 1, 4, 1], vec![], attributes).dims().unwrap();
        assert_eq!(flat(vec![]), [2, 4]);
        assert_eq!(flat(vec![int("axis", 0)]), [1, 8]);
        assert_eq!(flat(vec![int("axis", 4)]), [8, 1]);
    }
}
