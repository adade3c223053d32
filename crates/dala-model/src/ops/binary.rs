//! Arithmetic on two values, each repeated along axes where it has size one: `Add`, `Sub`, `Mul`, `Div`.

use dala_spec::{Params, Shape, SpecError};

use super::call::{NodeCall, broadcast};
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ADD: Operator = arithmetic("Add", |call| infer(call, "elementwise_add"));
pub(super) const MUL: Operator = arithmetic("Mul", |call| infer(call, "elementwise_mul"));
pub(super) const SUB: Operator = arithmetic("Sub", |call| infer(call, "elementwise_sub"));

/// Of integers, towards zero.
pub(super) const DIV: Operator = arithmetic("Div", |call| {
    let outcome = infer(call, "elementwise_div")?;
    let (a, b) = (call.value(0)?, call.value(1)?);
    if let (false, Some(_), Some(data)) = (b.ty.dtype.is_float(), &a.constant, &b.constant)
        && call.budget.take(data.len())
        && data.iter().any(|value| value.as_i64() == 0)
    {
        return Err(call.bad_value("the second input", "other than 0", 0));
    }
    Ok(outcome)
});

const fn arithmetic(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Elements, infer).inputs(2, 2)
}

fn infer(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    call.same_dtype(1)?;
    let (a, b) = (call.dims(0)?, call.dims(1)?);
    let expected = || format!("a second input that can be repeated to fit {}", Shape::from(a));
    let dims = broadcast(a, b).ok_or_else(|| call.shape_mismatch(expected(), &b))?;
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Binary { kernel }, [call.input(0)?, call.input(1)?], ty))
}

#[derive(Debug)]
struct Binary {
    kernel: &'static str,
}

impl Compute for Binary {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.common_order();
        let inputs = [to.read(0, order)?, to.read(1, order)?];
        to.call_in(order, self.kernel, &inputs, &Params::new())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, list, single};

    #[test]
    fn shapes_are_repeated_to_fit() {
        let dims = |x: &[i64], c: &[i64]| {
            let c = floats(c, vec![1.0; c.iter().product::<i64>() as usize]);
            let network = single(13, "Mul", x, vec![c], vec![]).resolve(1);
            network.map(|network| network.values[network.outputs[0]].ty.shape.dims().to_vec())
        };
        assert_eq!(dims(&[1, 3, 1, 5], &[4, 1]).unwrap(), [1, 3, 4, 5]);
        assert_eq!(dims(&[1], &[]).unwrap(), [1]);
        assert_eq!(dims(&[1, 3], &[2]).unwrap_err().code(), "shape_mismatch");
    }

    #[test]
    fn constants_are_computed() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let sum = constants(13, "Add", vec![matrix, floats(&[2, 1], vec![10.0, 20.0])], vec![]);
        assert_eq!(sum, (vec![2, 3], Data::F32(vec![11.0, 12.0, 13.0, 24.0, 25.0, 26.0])));
        let quotient = constants(13, "Div", vec![list(&[7, -7, i64::MIN]), list(&[2, 2, -1])], vec![]);
        assert_eq!(quotient, (vec![3], Data::S64(vec![3, -3, i64::MIN])));
        let zero = Net::new(13).x(&[-1]).ints("a", &[1]).ints("b", &[0]).node("Div", &["a", "b"], "y", vec![]);
        assert_eq!(zero.output("y").code(), "bad_value");
    }
}
