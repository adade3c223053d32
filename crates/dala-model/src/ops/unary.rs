//! Functions of one number, element by element: `Relu`, `LeakyRelu`, `Sigmoid`, `HardSigmoid`, `HardSwish`, `Tanh`, `Exp`, `Sqrt`.

use dala_spec::{DType, Params, SpecError};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const EXP: Operator = function("Exp", |call| floats(call, Each::new("exp")));
pub(super) const HARD_SWISH: Operator = function("HardSwish", |call| floats(call, Each::new("hard_swish")));
pub(super) const SIGMOID: Operator = function("Sigmoid", |call| floats(call, Each::new("sigmoid")));
pub(super) const SQRT: Operator = function("Sqrt", |call| floats(call, Each::new("sqrt")));
pub(super) const TANH: Operator = function("Tanh", |call| floats(call, Each::new("tanh")));

/// `clamp(alpha * x + beta, 0, 1)`.
pub(super) const HARD_SIGMOID: Operator = function("HardSigmoid", |call| {
    let (alpha, beta) = (call.float_attribute("alpha", 0.2)?, call.float_attribute("beta", 0.5)?);
    floats(call, Each::new("hard_sigmoid").with("alpha", alpha).with("beta", beta))
});

/// `x` where it is not negative, `alpha * x` where it is.
pub(super) const LEAKY_RELU: Operator = function("LeakyRelu", |call| {
    let alpha = call.float_attribute("alpha", 0.01)?;
    floats(call, Each::new("relu").with("slope", alpha))
});

pub(super) const RELU: Operator = function("Relu", |call| match call.dtype(0)? {
    DType::S32 | DType::S64 => numbers(call, Each::new("relu")),
    _ => floats(call, Each::new("relu")),
});

const fn function(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Elements, infer)
}

/// A layer over elements that must be floats.
pub(super) fn floats(call: &NodeCall<'_>, each: Each) -> Result<Outcome, ModelError> {
    call.float()?;
    numbers(call, each)
}

fn numbers(call: &NodeCall<'_>, each: Each) -> Result<Outcome, ModelError> {
    Ok(Outcome::layer(each, [call.input(0)?], call.value(0)?.ty.clone()))
}

/// A kernel on each element, in whatever order they are.
#[derive(Debug, PartialEq)]
pub(super) struct Each {
    kernel: &'static str,
    params: Params,
}

impl Each {
    pub(super) fn new(kernel: &'static str) -> Each {
        Each { kernel, params: Params::new() }
    }

    pub(super) fn with(self, param: &str, value: f32) -> Each {
        Each { params: self.params.with(param, f64::from(value)), ..self }
    }
}

impl Compute for Each {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.order(0);
        let x = to.read(0, order)?;
        to.call_in(order, self.kernel, &[x], &self.params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::Each;
    use crate::builder::{constants, floats, list, single};

    #[test]
    fn defaults_are_those_of_the_format() {
        let network = |op: &str| single(13, op, &[2], vec![], vec![]).resolve(2).unwrap();
        let leaky = Each::new("relu").with("slope", 0.01);
        assert_eq!(network("LeakyRelu").layers[0].op.downcast(), Some(&leaky));
        let hard = Each::new("hard_sigmoid").with("alpha", 0.2).with("beta", 0.5);
        assert_eq!(network("HardSigmoid").layers[0].op.downcast(), Some(&hard));
    }

    #[test]
    fn constants_are_computed() {
        let positive = constants(13, "Relu", vec![floats(&[3], vec![-1.0, 0.0, 2.0])], vec![]);
        assert_eq!(positive.1, Data::F32(vec![0.0, 0.0, 2.0]));
        assert_eq!(constants(13, "Relu", vec![list(&[-1, 2])], vec![]).1, Data::S64(vec![0, 2]));
    }
}
