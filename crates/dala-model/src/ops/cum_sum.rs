//! `CumSum`: the sum of each element and all before it along an axis, which is a constant input.

use dala_spec::{Params, SpecError};

use super::operator::{Kind, Operator, Outcome};
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const CUM_SUM: Operator = Operator::new("CumSum", Kind::Axes, |call| {
    let dims = call.dims(0)?;
    let axis = match call.integers(1, "axis")?[..] {
        [axis] => call.axis(axis, dims.len(), "axis")?,
        ref list => return Err(call.bad_value("axis", "one number", format!("{list:?}"))),
    };
    let params = Params::new()
        .with("axis", axis as i64)
        .with("exclusive", call.flag("exclusive", false)?)
        .with("reverse", call.flag("reverse", false)?);
    Ok(Outcome::layer(CumSum { params }, [call.input(0)?], call.value(0)?.ty.clone()))
})
.inputs(2, 2);

#[derive(Debug)]
struct CumSum {
    params: Params,
}

impl Compute for CumSum {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let x = to.first(0)?;
        to.call_first("cumulative_sum", &[x], &self.params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, int, list, single};

    #[test]
    fn sums_go_either_way() {
        let of = |attributes| constants(14, "CumSum", vec![list(&[1, 2, 3]), list(&[0])], attributes).1;
        assert_eq!(of(vec![]), Data::S64(vec![1, 3, 6]));
        assert_eq!(of(vec![int("exclusive", 1)]), Data::S64(vec![0, 1, 3]));
        assert_eq!(of(vec![int("reverse", 1)]), Data::S64(vec![6, 5, 3]));
        assert_eq!(of(vec![int("exclusive", 1), int("reverse", 1)]), Data::S64(vec![5, 3, 0]));
        assert_eq!(single(14, "CumSum", &[2], vec![list(&[1])], vec![]).code(), "bad_value");
    }
}
