//! Functions of one number, element by element: `Relu`, `Sigmoid`, `Erf`, `Sin` and their like, and questions about one.

use dala_spec::{DType, ParamValue, Params, SpecError, TensorType};

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

/// The reciprocal.
pub(super) const RECIPROCAL: Operator = function("Reciprocal", |call| floats(call, Each::text("1 / x")));
pub(super) const SOFTSIGN: Operator = function("Softsign", |call| floats(call, Each::text("x / (1 + abs(x))")));

/// `log(1 + exp(x))`, in a form in which no power is too large.
pub(super) const SOFTPLUS: Operator =
    function("Softplus", |call| floats(call, Each::text("max(x, 0) + log1p(exp(-abs(x)))")));

/// `x * tanh(softplus(x))`.
pub(super) const MISH: Operator =
    function("Mish", |call| floats(call, Each::text("x * tanh(max(x, 0) + log1p(exp(-abs(x))))")));

/// `x` where it is not negative, `alpha * (exp(x) - 1)` where it is.
pub(super) const ELU: Operator = function("Elu", |call| {
    let alpha = call.float_attribute("alpha", 1.0)?;
    floats(call, Each::text("select(x < 0, alpha * expm1(x), x)").with("alpha", alpha))
});

/// As `Elu`, with an exponent that `alpha` divides.
pub(super) const CELU: Operator = function("Celu", |call| {
    let alpha = call.float_attribute("alpha", 1.0)?;
    floats(call, Each::text("select(x < 0, alpha * expm1(x / alpha), x)").with("alpha", alpha))
});

/// `Elu`, times `gamma`.
pub(super) const SELU: Operator = function("Selu", |call| {
    let (alpha, gamma) = (call.float_attribute("alpha", 1.673_263_2)?, call.float_attribute("gamma", 1.050_701)?);
    let text = "gamma * select(x < 0, alpha * expm1(x), x)";
    floats(call, Each::text(text).with("alpha", alpha).with("gamma", gamma))
});

/// `x * sigmoid(alpha * x)`.
pub(super) const SWISH: Operator = function("Swish", |call| {
    floats(call, Each::text("x * sigmoid(alpha * x)").with("alpha", call.float_attribute("alpha", 1.0)?))
});

/// `x` where it is above `alpha`, 0 elsewhere.
pub(super) const THRESHOLDED_RELU: Operator = function("ThresholdedRelu", |call| {
    let alpha = call.float_attribute("alpha", 1.0)?;
    floats(call, Each::text("select(x > alpha, x, 0)").with("alpha", alpha))
});

/// Numbers near zero become it, others come nearer by the bias.
pub(super) const SHRINK: Operator = function("Shrink", |call| {
    let (lambd, bias) = (call.float_attribute("lambd", 0.5)?, call.float_attribute("bias", 0.0)?);
    let text = "select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))";
    numbers(call, Each::text(text).with("lambd", lambd).with("bias", bias))
});

/// `x / 2 * (1 + erf(x / sqrt(2)))`, or an approximation of that by `tanh`.
pub(super) const GELU: Operator = function("Gelu", |call| match call.text("approximate", "none")? {
    "none" => floats(call, Each::new("gelu")),
    "tanh" => floats(call, Each::text("0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))")),
    other => Err(call.bad_attribute("approximate", "none or tanh", other)),
});

/// Of integers.
pub(super) const BITWISE_NOT: Operator = function("BitwiseNot", |call| {
    call.integer()?;
    numbers(call, Each::new("bitwise_not"))
});

/// Of either sign, unless the file asks for one.
pub(super) const IS_INF: Operator = function("IsInf", |call| {
    call.float()?;
    let (below, above) = (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    question(
        call,
        match (below, above) {
            (true, true) => Each::new("is_inf"),
            (true, false) => Each::text("is_inf(x) && x < 0"),
            (false, true) => Each::text("is_inf(x) && x > 0"),
            (false, false) => Each::text("x != x && x == x"),
        },
    )
});

pub(super) const IS_NAN: Operator = function("IsNaN", |call| question(call, Each::new("is_nan")));

/// Of truth values.
pub(super) const NOT: Operator = function("Not", |call| question(call, Each::new("logical_not")));

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
    DType::S8 | DType::S16 | DType::S32 | DType::S64 => numbers(call, Each::new("relu")),
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

pub(super) fn numbers(call: &NodeCall<'_>, each: Each) -> Result<Outcome, ModelError> {
    Ok(Outcome::layer(each, [call.input(0)?], call.value(0)?.ty.clone()))
}

/// A layer that gives truth values, which are bytes.
pub(super) fn question(call: &NodeCall<'_>, each: Each) -> Result<Outcome, ModelError> {
    let ty = TensorType { dtype: DType::U8, shape: call.value(0)?.ty.shape.clone() };
    Ok(Outcome::layer(each, [call.input(0)?], ty))
}

/// A kernel or an expression on each element of one or several inputs, which are repeated to fit; in whatever order they are.
#[derive(Debug, PartialEq)]
pub(super) struct Each {
    what: What,
    params: Params,
}

#[derive(Debug, PartialEq)]
enum What {
    Kernel(&'static str),
    /// The only input is `x`; several are `a`, `b` and `c`.
    Text(&'static str),
}

impl Each {
    pub(super) fn new(kernel: &'static str) -> Each {
        Each { what: What::Kernel(kernel), params: Params::new() }
    }

    /// An expression, in which the only input is `x`, or several are `a`, `b` and `c`.
    pub(super) fn text(text: &'static str) -> Each {
        Each { what: What::Text(text), params: Params::new() }
    }

    pub(super) fn with(self, param: &str, value: f32) -> Each {
        self.with_param(param, f64::from(value))
    }

    pub(super) fn with_param(self, param: &str, value: impl Into<ParamValue>) -> Each {
        Each { params: self.params.with(param, value), ..self }
    }
}

impl Compute for Each {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = if to.inputs() == 1 { to.order(0) } else { to.common_order() };
        let inputs = (0..to.inputs()).map(|place| to.read(place, order)).collect::<Result<Vec<_>, _>>()?;
        match self.what {
            What::Kernel(kernel) => to.call_in(order, kernel, &inputs, &self.params),
            What::Text(text) => {
                let names: &[&str] = if inputs.len() == 1 { &["x"] } else { &["a", "b", "c"] };
                let named: Vec<(&str, usize)> = names.iter().copied().zip(inputs).collect();
                let made = to.map(text, &named, to.output_in(order), &self.params)?;
                to.give(0, order, made);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use super::Each;
    use crate::builder::{constants, floats, int, list, single, text};

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
            ("Celu", -1.0, -0.632_120_6),
            ("Cos", 0.0, 1.0),
            ("Cosh", 1.0, 1.543_080_7),
            ("Elu", -1.0, -0.632_120_6),
            ("Erf", 0.5, 0.520_499_9),
            ("Floor", -1.5, -2.0),
            ("Gelu", 1.0, 0.841_344_7),
            ("IsInf", f32::NEG_INFINITY, 1.0),
            ("IsInf", 1.0, 0.0),
            ("IsNaN", f32::NAN, 1.0),
            ("IsNaN", 1.0, 0.0),
            ("Log", std::f32::consts::E, 1.0),
            ("Mish", 1.0, 0.865_098_4),
            ("Neg", 1.5, -1.5),
            ("Reciprocal", 4.0, 0.25),
            ("Round", 2.5, 2.0),
            ("Selu", -1.0, -1.111_330_7),
            ("Shrink", -2.0, -2.0),
            ("Shrink", 0.25, 0.0),
            ("Sign", -3.0, -1.0),
            ("Sin", 1.0, 0.841_470_96),
            ("Sinh", 1.0, 1.175_201_2),
            ("Softplus", 0.0, std::f32::consts::LN_2),
            ("Softplus", 200.0, 200.0),
            ("Softsign", 3.0, 0.75),
            ("Swish", 1.0, 0.731_058_6),
            ("Tan", 1.0, 1.557_407_7),
            ("ThresholdedRelu", 0.5, 0.0),
        ] {
            assert!((of(op, x) - expected).abs() <= 1e-6, "{op} of {x} is {}", of(op, x));
        }
        assert_eq!(constants(13, "Neg", vec![list(&[-1, 2])], vec![]).1, Data::S64(vec![1, -2]));
        assert_eq!(constants(18, "BitwiseNot", vec![list(&[5])], vec![]).1, Data::S64(vec![-6]));
        assert_eq!(single(13, "BitwiseNot", &[2], vec![], vec![]).code(), "dtype_mismatch");
    }

    #[test]
    fn attributes_choose_what_is_computed() {
        let of =
            |op: &str, x: Vec<f32>, attributes| constants(20, op, vec![floats(&[x.len() as i64], x)], attributes).1;
        let both = || vec![f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(of("IsInf", both(), vec![int("detect_negative", 0)]), Data::U8(vec![1, 0]));
        let none = vec![int("detect_negative", 0), int("detect_positive", 0)];
        assert_eq!(of("IsInf", both(), none), Data::U8(vec![0, 0]));
        let Data::F32(found) = of("Gelu", vec![1.0], vec![text("approximate", "tanh")]) else { panic!("no floats") };
        assert!((found[0] - 0.841_192).abs() < 1e-6);
        assert_eq!(single(20, "Gelu", &[2], vec![], vec![text("approximate", "no")]).code(), "bad_attribute");
    }
}
