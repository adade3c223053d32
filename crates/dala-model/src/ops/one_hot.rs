//! `OneHot`: for each index a line with one number that is on, along a new axis of constant size; and `Hardmax`, which is on where
//! the largest number is.

use dala_spec::{DType, Data, Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ONE_HOT: Operator = Operator::new("OneHot", Kind::Layout, infer).inputs(3, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let mut dims = call.dims(0)?.to_vec();
    let depth = call.scalar(1, "depth")?.map_or(0.0, |depth| depth.as_f64());
    if !(1.0..=MAX_ELEMENTS as f64).contains(&depth) {
        return Err(call.bad_value("depth", "at least 1", depth));
    }
    if call.dims(2)? != [2] {
        return Err(call.shape_mismatch("two values, off and on", call.dims(2)?));
    }
    let axis = call.axis(call.int("axis", -1)?, dims.len() + 1, "axis")?;
    dims.insert(axis, depth as usize);
    let ty = call.output(call.dtype(2)?, dims)?;
    Ok(Outcome::layer(OneHot { axis }, [call.input(0)?, call.input(2)?], ty))
}

/// Over indices, which count from the end if negative, and the values off and on.
#[derive(Debug)]
struct OneHot {
    axis: usize,
}

impl Compute for OneHot {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (indices, values) = (to.first(0)?, to.first(1)?);
        let ty = to.calls.ty(indices).clone();
        let none = Params::new();
        let indices =
            to.map("saturate_s32(x)", &[("x", indices)], TensorType::new(DType::S32, ty.shape.dims()), &none)?;
        let made = one_hot(to, indices, values, self.axis, to.output().clone())?;
        to.give_first(0, made);
        Ok(())
    }
}

/// The elements of `ty` that are on where indices of type s32 say so along an axis that they do not have, and off elsewhere.
pub(super) fn one_hot(
    to: &mut Lowerer<'_>,
    indices: usize,
    values: usize,
    axis: usize,
    ty: TensorType,
) -> Result<usize, SpecError> {
    let mut dims = ty.shape.dims().to_vec();
    let depth = std::mem::replace(&mut dims[axis], 1);
    let indices = to.calls.view(indices, TensorType::new(DType::S32, dims.clone()));
    dims.fill(1);
    dims[axis] = depth;
    let places = to.constant(Data::S32((0..depth as i32).collect()), &dims);
    let text = "gather(values, s32(select(i < 0, i + depth, i) == place))";
    let inputs = [("i", indices), ("place", places), ("values", values)];
    to.map(text, &inputs, ty, &Params::new().with("depth", depth as i64))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, integers, list, single};

    #[test]
    fn one_is_on_for_each_index() {
        let inputs = || vec![list(&[0, -1, 7]), integers(&[], &[3]), floats(&[2], vec![0.0, 5.0])];
        let rows = constants(11, "OneHot", inputs(), vec![]);
        assert_eq!(rows, (vec![3, 3], Data::F32(vec![5.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0])));
        let columns = constants(11, "OneHot", inputs(), vec![int("axis", 0)]);
        assert_eq!(columns.1, Data::F32(vec![5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0]));
        let code = |depth: i64, values: &[i64]| {
            single(11, "OneHot", &[2], vec![integers(&[], &[depth]), list(values)], vec![]).code()
        };
        assert_eq!(code(3, &[0, 1]), "read");
        assert_eq!(code(0, &[0, 1]), "bad_value");
        assert_eq!(code(3, &[0]), "shape_mismatch");
    }
}
