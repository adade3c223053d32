//! `ReverseSequence`: each sequence of a batch from its last element to its first, with lengths that are constants or values.

use dala_spec::{Params, SpecError};

use super::gather_elements::indices_at;
use super::operator::{Kind, Operator, Outcome};
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const REVERSE_SEQUENCE: Operator = Operator::new("ReverseSequence", Kind::Layout, |call| {
    let dims = call.dims(0)?;
    indices_at(call, 1)?;
    let batch = call.axis(call.int("batch_axis", 1)?, dims.len(), "batch_axis")?;
    let time = call.axis(call.int("time_axis", 0)?, dims.len(), "time_axis")?;
    if batch == time {
        return Err(call.bad_attribute("time_axis", "another axis than batch_axis", time));
    }
    let count = dims.get(batch).copied().unwrap_or_default();
    if call.dims(1)? != [count] {
        return Err(call.shape_mismatch(format!("lengths of shape {{{count}}}"), call.dims(1)?));
    }
    let params = Params::new().with("batch_axis", batch as i64).with("time_axis", time as i64);
    Ok(Outcome::layer(Reversed { params }, [call.input(0)?, call.input(1)?], call.value(0)?.ty.clone()))
})
.inputs(2, 2);

#[derive(Debug)]
struct Reversed {
    params: Params,
}

impl Compute for Reversed {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let inputs = [to.first(0)?, to.first(1)?];
        to.call_first("reverse_sequence", &inputs, &self.params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, int, integers, list, single};

    #[test]
    fn sequences_have_lengths_of_their_own() {
        let x = integers(&[3, 2], &[1, 2, 3, 4, 5, 6]);
        let turned = constants(13, "ReverseSequence", vec![x, list(&[3, 2])], vec![]);
        assert_eq!(turned, (vec![3, 2], Data::S64(vec![5, 4, 3, 2, 1, 6])));
        let code = |lengths: &[i64], attributes| {
            single(13, "ReverseSequence", &[2, 3], vec![list(lengths)], attributes).code()
        };
        assert_eq!(code(&[1, 1], vec![int("batch_axis", 0), int("time_axis", 1)]), "read");
        assert_eq!(code(&[1, 1], vec![int("batch_axis", 1), int("time_axis", 1)]), "bad_attribute");
        assert_eq!(code(&[1, 1], vec![]), "shape_mismatch");
    }
}
