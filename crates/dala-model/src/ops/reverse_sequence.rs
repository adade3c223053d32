//! `ReverseSequence`: the first elements of each sequence of a batch backwards, as many as its length says.

use dala_spec::{Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const REVERSE_SEQUENCE: Operator = Operator::new("ReverseSequence", Kind::Layout, infer).inputs(2, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let (time, batch) = (call.int("time_axis", 0)?, call.int("batch_axis", 1)?);
    if !matches!((time, batch), (0, 1) | (1, 0)) || dims.len() < 2 {
        return Err(call.bad_attribute("time_axis", "0 or 1, and the batch axis the other", time));
    }
    let lengths = call.value(1)?;
    if lengths.ty.dtype.is_float() {
        return Err(call.type_mismatch("integers for lengths", lengths.ty.dtype));
    }
    if dims.get(batch as usize).map(std::slice::from_ref) != Some(lengths.ty.shape.dims()) {
        return Err(call.shape_mismatch("a length for each of the batch", lengths.ty.shape.dims()));
    }
    let compute = ReverseSequence { batch_first: batch == 0 };
    Ok(Outcome::layer(compute, [call.input(0)?, call.input(1)?], call.value(0)?.ty.clone()))
}

#[derive(Debug)]
struct ReverseSequence {
    batch_first: bool,
}

impl Compute for ReverseSequence {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, lengths, output) = (to.first(0)?, to.first(1)?, to.output().clone());
        let [outer, size, rest @ ..] = output.shape.dims() else { return Ok(()) };
        let inner: usize = rest.iter().product();
        let text = match self.batch_first {
            true => {
                "let n = s32(gather(lengths, coord(0))); let at = select(coord(1) < n, n - 1 - coord(1), coord(1));
                gather(x, (coord(0) * size + at) * inner + coord(2))"
            }
            false => {
                "let n = s32(gather(lengths, coord(1))); let at = select(coord(0) < n, n - 1 - coord(0), coord(0));
                gather(x, (at * size + coord(1)) * inner + coord(2))"
            }
        };
        let params = Params::new().with("size", *size as i64).with("inner", inner as i64);
        let seen = TensorType::new(output.dtype, [*outer, *size, inner]);
        let made = to.map(text, &[("x", x), ("lengths", lengths)], seen, &params)?;
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, int, integers, list, single};

    #[test]
    fn each_sequence_has_its_own_length() {
        let x = || integers(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let rows = vec![int("time_axis", 1), int("batch_axis", 0)];
        let reversed = constants(10, "ReverseSequence", vec![x(), list(&[3, 2])], rows);
        assert_eq!(reversed.1, Data::S64(vec![3, 2, 1, 5, 4, 6]));
        let reversed = constants(10, "ReverseSequence", vec![x(), list(&[1, 2, 1])], vec![]);
        assert_eq!(reversed.1, Data::S64(vec![1, 5, 3, 4, 2, 6]));
        assert_eq!(single(10, "ReverseSequence", &[2, 3], vec![list(&[1, 2])], vec![]).code(), "shape_mismatch");
        let same = vec![int("time_axis", 1)];
        assert_eq!(single(10, "ReverseSequence", &[2, 3], vec![list(&[1, 2])], same).code(), "bad_attribute");
    }
}
