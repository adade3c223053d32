//! `Softmax`, `LogSoftmax` and `Hardmax` along an axis, or in old files along all from an axis on.

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::one_hot::one_hot;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

/// One where the largest number is, the first of several, and zero elsewhere.
pub(super) const HARDMAX: Operator = Operator::new("Hardmax", Kind::Axes, |call| infer(call, How::Hardest));
pub(super) const LOG_SOFTMAX: Operator = Operator::new("LogSoftmax", Kind::Axes, |call| infer(call, How::Logarithm));
/// `exp(x) / sum(exp(x))`.
pub(super) const SOFTMAX: Operator = Operator::new("Softmax", Kind::Axes, |call| infer(call, How::Share));

fn infer(call: &NodeCall<'_>, how: How) -> Result<Outcome, ModelError> {
    call.float()?;
    let ty = call.value(0)?.ty.clone();
    let rank = ty.shape.rank();
    // Before version 13 the value was taken as a matrix, split at the axis.
    let matrix = call.opset < 13;
    let axis = call.axis(call.int("axis", if matrix { 1 } else { -1 })?, rank, "axis")?;
    let axes = (axis..if matrix { rank } else { axis + 1 }).collect();
    Ok(Outcome::layer(Softmax { how, axes }, [call.input(0)?], ty))
}

#[derive(Debug, PartialEq)]
struct Softmax {
    how: How,
    /// The axes over which the sum goes.
    axes: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Share,
    Logarithm,
    Hardest,
}

impl Compute for Softmax {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (mut x, output) = (to.first(0)?, to.output());
        let (mut ty, mut axis) = (output.clone(), self.axes.first().copied().unwrap_or_default());
        if self.axes.len() != 1 {
            let (outer, inner) = output.shape.dims().split_at(axis);
            ty = TensorType::new(output.dtype, [outer.iter().product::<usize>(), inner.iter().product()]);
            axis = 1;
            x = to.calls.view(x, ty.clone());
        }
        let along = Params::new().with("axis", axis as i64);
        let made = match self.how {
            How::Share => to.call("softmax", &[x], ty, &along)?,
            How::Logarithm => to.call("log_softmax", &[x], ty, &along)?,
            How::Hardest => {
                let mut dims = ty.shape.dims().to_vec();
                dims.remove(axis);
                let over = Params::new().with("axes", axis as i64);
                let found = to.call("argmax", &[x], TensorType::new(DType::S32, dims), &over)?;
                let ends = [0.0, 1.0].map(|value| Scalar::from_f64(ty.dtype, value));
                let values = to.constant(Data::collect(ty.dtype, ends), &[2]);
                one_hot(to, found, values, axis, ty)?
            }
        };
        let seen = to.calls.view(made, output.clone());
        to.give_first(0, seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{How, Softmax};
    use crate::builder::{int, single};

    #[test]
    fn old_files_weigh_over_all_later_axes() {
        let same = |opset, attributes, axes: &[usize]| {
            let network = single(opset, "Softmax", &[-1, 3, 4], vec![], attributes).resolve(1).unwrap();
            assert_eq!(network.layers[0].op.downcast(), Some(&Softmax { how: How::Share, axes: axes.to_vec() }));
        };
        same(13, vec![], &[2]);
        same(11, vec![], &[1, 2]);
        same(13, vec![int("axis", -2)], &[1]);
        assert_eq!(single(13, "Softmax", &[-1, 3], vec![], vec![int("axis", 2)]).code(), "bad_value");
    }
}
