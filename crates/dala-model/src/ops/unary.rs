//! Functions of one number, element by element: `Relu`, `Sigmoid`, `Erf`, `Sin` and their like, and questions about one.

use dala_spec::{DType, Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ABS: Operator = function("Abs", |call| numbers(call, Each::new("abs")));
pub(super) const ACOS: Operator = function("Acos", |call| floats(call, Each::new("acos")));
pub(super) const ACOSH: Operator = function("Acosh", |call| floats(call, Each::new("acosh")));
pub(super) const ASIN: Operator = function("Asin", |call| floats(call, Each::new("asin")));
pub(super) const ASINH: Operator = function("Asinh", |call| floats(call, Each::new("asinh")));
pub(super) const ATAN: Operator = function("Atan", |call| floats(call, Each::new("atan")));
pub(super) const ATANH: Operator = function("Atanh", |call| floats(call, Each::new("atanh")));
pub(super) const CEIL: Operator = function("Ceil", |call| floats(call, Each::new("ceil")));
pub(super) const COS: Operator = function("Cos", |call| floats(call, Each::new("cos")));
pub(super) const COSH: Operator = function("Cosh", |call| floats(call, Each::new("cosh")));
pub(super) const ERF: Operator = function("Erf", |call| floats(call, Each::new("erf")));
pub(super) const EXP: Operator = function("Exp", |call| floats(call, Each::new("exp")));
pub(super) const FLOOR: Operator = function("Floor", |call| floats(call, Each::new("floor")));
pub(super) const HARD_SWISH: Operator = function("HardSwish", |call| floats(call, Each::new("hard_swish")));
pub(super) const LOG: Operator = function("Log", |call| floats(call, Each::new("log")));
pub(super) const NEG: Operator = function("Neg", |call| numbers(call, Each::new("neg")));
pub(super) const ROUND: Operator = function("Round", |call| floats(call, Each::new("round")));
pub(super) const SIGMOID: Operator = function("Sigmoid", |call| floats(call, Each::new("sigmoid")));
pub(super) const SIGN: Operator = function("Sign", |call| numbers(call, Each::new("sign")));
pub(super) const SIN: Operator = function("Sin", |call| floats(call, Each::new("sin")));
pub(super) const SINH: Operator = function("Sinh", |call| floats(call, Each::new("sinh")));
pub(super) const SQRT: Operator = function("Sqrt", |call| floats(call, Each::new("sqrt")));
pub(super) const TAN: Operator = function("Tan", |call| floats(call, Each::new("tan")));
pub(super) const TANH: Operator = function("Tanh", |call| floats(call, Each::new("tanh")));

pub(super) const IS_NAN: Operator = function("IsNaN", |call| question(call, "is_nan"));

/// Of truth values.
pub(super) const NOT: Operator = function("Not", |call| question(call, "logical_not"));

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

/// A layer that gives truth values, which are bytes.
fn question(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    let ty = TensorType { dtype: DType::U8, shape: call.value(0)?.ty.shape.clone() };
    Ok(Outcome::layer(Each::new(kernel), [call.input(0)?], ty))
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

    #[test]
    fn functions_are_those_of_the_format() {
        let of = |op: &str, x: f32| match constants(13, op, vec![floats(&[1], vec![x])], vec![]).1 {
            Data::F32(found) => found[0],
            Data::U8(found) => f32::from(found[0]),
            other => panic!("{op} gives {other:?}"),
        };
        for (op, x, expected) in [
            ("Abs", -1.5, 1.5),
            ("Acos", 1.0, 0.0),
            ("Acosh", 1.0, 0.0),
            ("Asin", 1.0, std::f32::consts::FRAC_PI_2),
            ("Asinh", 1.0, 0.881_373_6),
            ("Atan", 1.0, std::f32::consts::FRAC_PI_4),
            ("Atanh", 0.5, 0.549_306_15),
            ("Ceil", -1.5, -1.0),
            ("Cos", 0.0, 1.0),
            ("Cosh", 1.0, 1.543_080_7),
            ("Erf", 0.5, 0.520_499_9),
            ("Floor", -1.5, -2.0),
            ("IsNaN", f32::NAN, 1.0),
            ("IsNaN", 1.0, 0.0),
            ("Log", std::f32::consts::E, 1.0),
            ("Neg", 1.5, -1.5),
            ("Round", 2.5, 2.0),
            ("Sign", -3.0, -1.0),
            ("Sin", 1.0, 0.841_470_96),
            ("Sinh", 1.0, 1.175_201_2),
            ("Tan", 1.0, 1.557_407_7),
        ] {
            assert!((of(op, x) - expected).abs() <= 1e-6, "{op} of {x} is {}", of(op, x));
        }
        assert_eq!(constants(13, "Neg", vec![list(&[-1, 2])], vec![]).1, Data::S64(vec![1, -2]));
    }
}
