//! `Softsign`: `x / (1 + |x|)`.

use dala_spec::{Params, SpecError};

use super::operator::{Kind, Operator, Outcome};
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const SOFTSIGN: Operator = Operator::new("Softsign", Kind::Elements, |call| {
    call.float()?;
    Ok(Outcome::layer(Softsign, [call.input(0)?], call.value(0)?.ty.clone()))
});

#[derive(Debug)]
struct Softsign;

impl Compute for Softsign {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.order(0);
        let x = to.read(0, order)?;
        let ty = to.calls.ty(x).clone();
        let size = to.call("abs", &[x], ty.clone(), &Params::new())?;
        let below = to.call("scalar_add", &[size], ty, &Params::new().with("scalar", 1.0))?;
        to.call_in(order, "elementwise_div", &[x, below], &Params::new())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats};
    use crate::proto::element_type;

    #[test]
    fn numbers_come_between_minus_one_and_one() {
        let of = |x: Vec<f32>| constants(13, "Softsign", vec![floats(&[x.len() as i64], x)], vec![]).1;
        assert_eq!(of(vec![-1.0, 0.0, 3.0]), Data::F32(vec![-0.5, 0.0, 0.75]));
        let whole = Net::new(13).input("x", element_type::INT64, &[2]).node("Softsign", &["x"], "y", vec![]);
        assert_eq!(whole.output("y").code(), "dtype_mismatch");
    }
}
