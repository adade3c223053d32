//! `Concat`: values one after the other along an axis.

use dala_spec::{Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_NAMES;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const CONCAT: Operator = Operator::new("Concat", Kind::Layout, infer).inputs(1, MAX_NAMES);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let first = call.dims(0)?;
    if call.attribute("axis").is_none() {
        return Err(call.bad_attribute("axis", "there", "nothing"));
    }
    let axis = call.axis(call.int("axis", 0)?, first.len(), "axis")?;
    let mut inputs = Vec::with_capacity(call.inputs.len());
    let mut size = 0usize;
    for place in 0..call.inputs.len() {
        inputs.push(call.input(place)?);
        call.same_dtype(place)?;
        let dims = call.dims(place)?;
        let fits = dims.len() == first.len()
            && dims.iter().zip(first).enumerate().all(|(number, (dim, first))| number == axis || dim == first);
        if !fits {
            return Err(call.shape_mismatch(format!("inputs that differ along axis {axis} only"), dims));
        }
        size = size.saturating_add(dims.get(axis).copied().unwrap_or_default());
    }
    if let [only] = inputs[..] {
        return Ok(Outcome::same(only));
    }
    let mut dims = first.to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = size);
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Concat { axis }, inputs, ty))
}

#[derive(Debug)]
struct Concat {
    axis: usize,
}

impl Compute for Concat {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        /// As many as one call takes.
        const MOST: usize = 32;
        let order = to.common_order();
        let axis = order.axis(self.axis, to.output().shape.rank());
        let mut cells = Vec::new();
        for place in 0..to.inputs() {
            let cell = to.read(place, order)?;
            if !to.calls.ty(cell).shape.is_empty() {
                cells.push(cell);
            }
        }
        let params = Params::new().with("axis", axis as i64);
        // Many are put together in groups.
        while cells.len() > MOST {
            let mut grouped = Vec::new();
            for group in cells.chunks(MOST) {
                grouped.push(match group {
                    [only] => *only,
                    _ => {
                        let mut dims = to.calls.ty(group[0]).shape.dims().to_vec();
                        dims[axis] = group.iter().map(|cell| to.calls.ty(*cell).shape.dims()[axis]).sum();
                        to.call("concat", group, TensorType::new(to.output().dtype, dims), &params)?
                    }
                });
            }
            cells = grouped;
        }
        to.call_in(order, "concat", &cells, &params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int};

    #[test]
    fn values_side_by_side_agree_elsewhere() {
        let concat = |a: &[i64], b: &[i64], axis| {
            let net = Net::new(13).x(a).input("z", 1, b).node("Concat", &["x", "z"], "y", vec![int("axis", axis)]);
            net.output("y").dims()
        };
        assert_eq!(concat(&[-1, 2], &[-1, 3], -1).unwrap(), [2, 5]);
        assert_eq!(concat(&[-1, 2], &[-1, 3], 0).unwrap_err().code(), "shape_mismatch");
        assert_eq!(concat(&[-1, 2], &[-1, 3], 2).unwrap_err().code(), "bad_value");
    }

    #[test]
    fn constants_are_joined() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let joined = constants(13, "Concat", vec![matrix, floats(&[2, 1], vec![7.0, 8.0])], vec![int("axis", 1)]);
        assert_eq!(joined, (vec![2, 4], Data::F32(vec![1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0])));
        let nothing = constants(13, "Concat", vec![floats(&[0], vec![]), floats(&[0], vec![])], vec![int("axis", 0)]);
        assert_eq!(nothing, (vec![0], Data::F32(vec![])));
    }
}
