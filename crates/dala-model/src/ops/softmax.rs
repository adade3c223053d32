//! `Softmax`: `exp(x) / sum(exp(x))` along an axis, or in old files along all from an axis on.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const SOFTMAX: Operator = Operator::new("Softmax", Kind::Axes, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let ty = call.value(0)?.ty.clone();
    let rank = ty.shape.rank();
    // Before version 13 the value was taken as a matrix, split at the axis.
    let matrix = call.opset < 13;
    let axis = call.axis(call.int("axis", if matrix { 1 } else { -1 })?, rank, "axis")?;
    let axes = (axis..if matrix { rank } else { axis + 1 }).collect();
    Ok(Outcome::layer(Softmax { axes }, [call.input(0)?], ty))
}

#[derive(Debug, PartialEq)]
struct Softmax {
    /// The axes over which the sum goes.
    axes: Vec<usize>,
}

impl Compute for Softmax {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let x = to.first(0)?;
        if let [axis] = self.axes[..] {
            return to.call_first("softmax", &[x], &Params::new().with("axis", axis as i64));
        }
        let output = to.output();
        let dims = output.shape.dims();
        let from = self.axes.first().copied().unwrap_or(dims.len());
        let flat = |dims: &[usize]| dims.iter().product::<usize>();
        let ty = TensorType::new(output.dtype, [flat(&dims[..from]), flat(&dims[from..])]);
        let seen = to.calls.view(x, ty.clone());
        let made = to.call("softmax", &[seen], ty, &Params::new())?;
        let seen = to.calls.view(made, output.clone());
        to.give_first(0, seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Softmax;
    use crate::builder::{int, single};

    #[test]
    fn old_files_weigh_over_all_later_axes() {
        let same = |opset, attributes, axes: &[usize]| {
            let network = single(opset, "Softmax", &[-1, 3, 4], vec![], attributes).resolve(1).unwrap();
            assert_eq!(network.layers[0].op.downcast(), Some(&Softmax { axes: axes.to_vec() }));
        };
        same(13, vec![], &[2]);
        same(11, vec![], &[1, 2]);
        same(13, vec![int("axis", -2)], &[1]);
        assert_eq!(single(13, "Softmax", &[-1, 3], vec![], vec![int("axis", 2)]).code(), "bad_value");
    }
}
