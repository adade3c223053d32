//! `ArgMax` and `ArgMin`: where the largest or smallest number along an axis is, the first of several or the last.

use dala_spec::{DType, Data, Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ARG_MAX: Operator = Operator::new("ArgMax", Kind::Axes, |call| infer(call, "argmax"));
pub(super) const ARG_MIN: Operator = Operator::new("ArgMin", Kind::Axes, |call| infer(call, "argmin"));

fn infer(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    let mut dims = call.dims(0)?.to_vec();
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let last = call.flag("select_last_index", false)?;
    if dims.get(axis) == Some(&0) {
        return Err(call.shape_mismatch(format!("at least one element along axis {axis}"), &dims));
    }
    match call.flag("keepdims", true)? {
        true => dims.get_mut(axis).into_iter().for_each(|size| *size = 1),
        false => drop(dims.remove(axis)),
    }
    let ty = call.output(DType::S64, dims)?;
    Ok(Outcome::layer(ArgMax { kernel, axis, last }, [call.input(0)?], ty))
}

/// The output's shape says whether the axis is kept with size one.
#[derive(Debug)]
struct ArgMax {
    kernel: &'static str,
    axis: usize,
    last: bool,
}

impl Compute for ArgMax {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (mut x, axis, output) = (to.first(0)?, self.axis as i64, to.output().clone());
        let size = to.dims(0)[self.axis] as i64;
        let kept = to.dims(0).len() == output.shape.rank();
        let params = Params::new().with("axes", axis).with("keep_dims", kept);
        if !self.last {
            return to.call_first(self.kernel, &[x], &params);
        }
        // The first from behind is the last.
        let back = to.constant(Data::S64((0..size).rev().collect()), &[size as usize]);
        let ty = to.calls.ty(x).clone();
        x = to.call("gather", &[x, back], ty, &Params::new().with("axis", axis))?;
        let found = to.call(self.kernel, &[x], TensorType::new(DType::S64, output.shape.dims()), &params)?;
        let made = to.map("last - x", &[("x", found)], output, &Params::new().with("last", size - 1))?;
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, single};

    #[test]
    fn the_first_or_the_last_of_the_largest_counts() {
        let rows = || vec![floats(&[2, 3], vec![2.0, 2.0, 1.0, 3.0, 4.0, 4.0])];
        let of = |op: &str, attributes| constants(13, op, rows(), attributes);
        assert_eq!(of("ArgMax", vec![int("axis", -1)]), (vec![2, 1], Data::S64(vec![0, 1])));
        let last = vec![int("axis", 1), int("keepdims", 0), int("select_last_index", 1)];
        assert_eq!(of("ArgMax", last), (vec![2], Data::S64(vec![1, 2])));
        assert_eq!(of("ArgMin", vec![]), (vec![1, 3], Data::S64(vec![0, 0, 0])));
        assert_eq!(single(13, "ArgMax", &[-1, 3], vec![], vec![int("axis", 2)]).code(), "bad_value");
    }
}
