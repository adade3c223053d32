//! `Gather`: those slices of a value that indices name. Constant indices are checked and made to count from the start.

use dala_spec::{DType, Data, Params, Shape, SpecError};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const GATHER: Operator = Operator::new("Gather", Kind::Layout, infer).inputs(2, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let constant = call.looked_at(1)?;
    let indices = call.value(1)?;
    if !matches!(indices.ty.dtype, DType::S32 | DType::S64) {
        return Err(call.type_mismatch("indices of type s32 or s64", indices.ty.dtype));
    }
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let (outer, rest) = dims.split_at_checked(axis).unwrap_or((dims, &[]));
    let (&size, inner) = rest.split_first().ok_or_else(|| call.shape_mismatch("at least one axis", dims))?;
    let ty = call.output(call.dtype(0)?, [outer, indices.ty.shape.dims(), inner].concat())?;

    let mut index_input = Given::Value(call.input(1)?);
    if let Some(data) = constant {
        let len = size as i64;
        let range = -len..len;
        if let Some(bad) = data.iter().map(|index| index.as_i64()).find(|index| !range.contains(index)) {
            return Err(call.bad_value("the indices", format!("from {} to {}", -len, len - 1), bad));
        }
        if data.iter().any(|index| index.as_i64() < 0) {
            let from_start = |index: i64| if index < 0 { index + len } else { index };
            let data = match data {
                Data::S32(list) => Data::S32(list.iter().map(|&index| from_start(index.into()) as i32).collect()),
                other => Data::S64(other.iter().map(|index| from_start(index.as_i64())).collect()),
            };
            index_input = Given::Constant(Shape::clone(&indices.ty.shape), data);
        }
    }
    let inputs = [("x", Given::Value(call.input(0)?)), ("indices", index_input)];
    Ok(Outcome::layer_of(Gather { axis }, inputs, ty))
}

/// The axes of the indices, the second input, take the place of the axis.
#[derive(Debug)]
struct Gather {
    axis: usize,
}

impl Compute for Gather {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let inputs = [to.first(0)?, to.first(1)?];
        to.call_first("gather", &inputs, &Params::new().with("axis", self.axis as i64))
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, list, single};

    #[test]
    fn indices_count_from_the_start() {
        let gather = |indices: &[i64]| single(13, "Gather", &[-1, 4, 5], vec![list(indices)], vec![int("axis", -2)]);
        let network = gather(&[0, -1, 3]).resolve(2).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 3, 5]);
        let indices = network.values[network.layers[0].inputs[1]].constant.as_deref();
        assert_eq!(indices, Some(&Data::S64(vec![0, 3, 3])));
        assert_eq!(gather(&[4]).code(), "bad_value");
        assert_eq!(gather(&[-5]).code(), "bad_value");
        let floats = Net::new(13).x(&[4]).node("Gather", &["x", "x"], "y", vec![]).output("y");
        assert_eq!(floats.code(), "dtype_mismatch");
    }

    #[test]
    fn constants_are_gathered() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let columns = constants(13, "Gather", vec![matrix, list(&[-1, 0])], vec![int("axis", 1)]);
        assert_eq!(columns, (vec![2, 2], Data::F32(vec![3.0, 1.0, 6.0, 4.0])));
    }
}
