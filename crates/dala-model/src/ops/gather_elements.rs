//! `GatherElements`: elements picked one by one along an axis, and `GatherND`: parts picked by their place along the first axes.

use dala_spec::{DType, Params, SpecError};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const GATHER_ELEMENTS: Operator = Operator::new("GatherElements", Kind::Layout, |call| {
    let (dims, indices) = (call.dims(0)?, call.dims(1)?);
    indices_at(call, 1)?;
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let fits = |(own, (size, count)): (usize, (&usize, &usize))| own == axis || count <= size;
    if indices.len() != dims.len() || !dims.iter().zip(indices).enumerate().all(fits) {
        return Err(call.shape_mismatch(format!("indices no larger than the value, but for axis {axis}"), indices));
    }
    let picked = Picked { kernel: "gather_elements", params: Params::new().with("axis", axis as i64) };
    let ty = call.output(call.dtype(0)?, indices.to_vec())?;
    from_some(call, dims.get(axis..=axis).unwrap_or_default(), &ty)?;
    Ok(Outcome::layer(picked, [call.input(0)?, call.input(1)?], ty))
})
.inputs(2, 2);

pub(super) const GATHER_ND: Operator = Operator::new("GatherND", Kind::Layout, |call| {
    let (dims, indices) = (call.dims(0)?, call.dims(1)?);
    indices_at(call, 1)?;
    let given = call.int("batch_dims", 0)?;
    let least = dims.len().min(indices.len());
    let batch = usize::try_from(given).ok().filter(|&batch| batch < least.max(1));
    let batch = batch.ok_or_else(|| call.bad_attribute("batch_dims", format!("from 0 to below {least}"), given))?;
    let bad = || call.shape_mismatch(format!("{batch} axes of the value and a last axis for places in it"), indices);
    let (&depth, lead) = indices.split_last().ok_or_else(bad)?;
    let (same, rest) = dims.split_at_checked(batch).ok_or_else(bad)?;
    let (axes, run) = rest.split_at_checked(depth).ok_or_else(bad)?;
    if lead.get(..batch) != Some(same) {
        return Err(bad());
    }
    let ty = call.output(call.dtype(0)?, [lead, run].concat())?;
    from_some(call, axes, &ty)?;
    let picked = Picked { kernel: "gather_nd", params: Params::new().with("batch_dims", batch as i64) };
    Ok(Outcome::layer(picked, [call.input(0)?, call.input(1)?], ty))
})
.inputs(2, 2);

/// An error unless an input holds indices.
pub(super) fn indices_at(call: &NodeCall<'_>, place: usize) -> Result<(), ModelError> {
    match call.dtype(place)? {
        DType::S32 | DType::S64 => Ok(()),
        other => Err(call.type_mismatch("indices of type s32 or s64", other)),
    }
}

/// An error if there is nothing along the axes to pick from.
fn from_some(call: &NodeCall<'_>, axes: &[usize], ty: &dala_spec::TensorType) -> Result<(), ModelError> {
    match axes.contains(&0) && !ty.shape.is_empty() {
        true => Err(call.shape_mismatch("something to pick from", call.dims(0)?)),
        false => Ok(()),
    }
}

#[derive(Debug)]
struct Picked {
    kernel: &'static str,
    params: Params,
}

impl Compute for Picked {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let inputs = [to.first(0)?, to.first(1)?];
        to.call_first(self.kernel, &inputs, &self.params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, integers};

    #[test]
    fn constants_are_picked() {
        let matrix = || floats(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let picked = constants(13, "GatherElements", vec![matrix(), integers(&[1, 2], &[-1, 0])], vec![int("axis", 0)]);
        assert_eq!(picked, (vec![1, 2], Data::F32(vec![3.0, 2.0])));
        let picked = constants(13, "GatherND", vec![matrix(), integers(&[2, 2], &[0, 0, 1, -1])], vec![]);
        assert_eq!(picked, (vec![2], Data::F32(vec![1.0, 4.0])));
        let rows = constants(13, "GatherND", vec![matrix(), integers(&[2, 1], &[1, 0])], vec![int("batch_dims", 1)]);
        assert_eq!(rows, (vec![2], Data::F32(vec![2.0, 3.0])));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |op: &str, indices: &[i64], attributes| {
            let net = Net::new(13).x(&[2, 3]).input("i", 7, indices);
            net.node(op, &["x", "i"], "y", attributes).output("y").code()
        };
        assert_eq!(code("GatherElements", &[2, 9], vec![int("axis", 1)]), "read");
        assert_eq!(code("GatherElements", &[3, 3], vec![int("axis", 1)]), "shape_mismatch");
        assert_eq!(code("GatherElements", &[2], vec![int("axis", 1)]), "shape_mismatch");
        assert_eq!(code("GatherND", &[5, 2], vec![]), "read");
        assert_eq!(code("GatherND", &[5, 3], vec![]), "shape_mismatch");
        assert_eq!(code("GatherND", &[3, 1], vec![int("batch_dims", 1)]), "shape_mismatch");
        assert_eq!(code("GatherND", &[2, 1], vec![int("batch_dims", -1)]), "bad_attribute");
    }
}
