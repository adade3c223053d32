//! `Trilu`: the part of matrices above or below a diagonal, and zeros elsewhere.

use dala_spec::{Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const TRILU: Operator = Operator::new("Trilu", Kind::Layout, infer).inputs(1, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    if dims.len() < 2 {
        return Err(call.shape_mismatch("matrices", dims));
    }
    let upper = call.flag("upper", true)?;
    // Beyond any matrix it makes no difference how far.
    let diagonal = call.scalar(1, "k")?.map_or(0, |k| k.as_i64()).clamp(-(1 << 30), 1 << 30);
    Ok(Outcome::layer(Trilu { upper, diagonal }, [call.input(0)?], call.value(0)?.ty.clone()))
}

#[derive(Debug)]
struct Trilu {
    upper: bool,
    /// How many columns to the right of the first element the diagonal starts.
    diagonal: i64,
}

impl Compute for Trilu {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let [stack @ .., rows, columns] = output.shape.dims() else { return Ok(()) };
        let seen = TensorType::new(output.dtype, [stack.iter().product::<usize>(), *rows, *columns]);
        let x = to.calls.view(x, seen.clone());
        let text = match self.upper {
            true => "select(coord(2) - coord(1) >= k, x, 0)",
            false => "select(coord(2) - coord(1) <= k, x, 0)",
        };
        let made = to.map(text, &[("x", x)], seen, &Params::new().with("k", self.diagonal))?;
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, int, integers, single};

    #[test]
    fn triangles_lie_on_either_side() {
        let matrix = || integers(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let upper = constants(14, "Trilu", vec![matrix()], vec![]);
        assert_eq!(upper.1, Data::S64(vec![1, 2, 3, 0, 5, 6]));
        let lower = constants(14, "Trilu", vec![matrix(), integers(&[], &[1])], vec![int("upper", 0)]);
        assert_eq!(lower.1, Data::S64(vec![1, 2, 0, 4, 5, 6]));
        assert_eq!(single(14, "Trilu", &[3], vec![], vec![]).code(), "shape_mismatch");
    }
}
