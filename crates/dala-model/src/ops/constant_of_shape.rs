//! `ConstantOfShape`: one number, as often as a constant shape says.

use dala_spec::Scalar;

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;

pub(super) const CONSTANT_OF_SHAPE: Operator = Operator::new("ConstantOfShape", Kind::Others, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let mut dims = Vec::new();
    for dim in call.integers(0, "the shape")? {
        let size = usize::try_from(dim);
        dims.push(size.map_err(|_| call.bad_value("the shape", "numbers of at least 0", dim))?);
    }
    let scalar = match call.attribute("value") {
        None => Some(Scalar::F32(0.0)),
        Some(Attribute::Tensor(tensor)) if tensor.data.len() == 1 => tensor.data.get(0),
        Some(_) => None,
    };
    let scalar = scalar.ok_or_else(|| call.bad_attribute("value", "a tensor of one element", "something else"))?;
    let ty = call.output(scalar.dtype(), dims)?;
    Ok(Outcome::Given(vec![Given::Filled(ty.shape, scalar)]))
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, floats, value};

    #[test]
    fn large_constants_are_refused() {
        let fill = |shape: &[i64]| {
            let net = Net::new(13).x(&[-1]).ints("shape", shape);
            let one = value("value", floats(&[1], vec![1.0]));
            net.node("ConstantOfShape", &["shape"], "y", vec![one]).output("y").code()
        };
        assert_eq!(fill(&[100, 100]), "read");
        assert_eq!(fill(&[1 << 30]), "too_large");
        assert_eq!(fill(&[i64::MAX, i64::MAX]), "too_large");
        assert_eq!(fill(&[-1]), "bad_value");
    }
}
