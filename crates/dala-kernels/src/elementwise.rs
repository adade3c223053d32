//! Kernels that are one operation of expressions, element by element: a line each.

use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Overflow, UnaryOp, answers, apply_binary, apply_unary, compare};
use dala_spec::{
    DType, DTypes, Data, Expr, FLOATS, INTEGERS, KernelSpec, NUMBERS, OutputDType, OutputShape, Scalar, Signature,
    Tolerance,
};

use crate::lower::broadcast::{operand, pair};
use crate::{Kernel, Reference};

/// Truth values, stored as 0 and 1.
const TRUTH: OutputDType = OutputDType::OneOf(&[DType::U8]);

/// All of them.
pub(crate) fn kernels() -> Vec<Kernel> {
    let mut kernels = vec![sign(), choice(), logical_not()];
    kernels.extend(
        [
            ("acos", "Inverse cosine, from 0 to π: `acos(x)`", UnaryOp::Acos),
            ("acosh", "Inverse hyperbolic cosine: `acosh(x)`", UnaryOp::Acosh),
            ("asin", "Inverse sine, from -π/2 to π/2: `asin(x)`", UnaryOp::Asin),
            ("asinh", "Inverse hyperbolic sine: `asinh(x)`", UnaryOp::Asinh),
            ("atan", "Inverse tangent, from -π/2 to π/2: `atan(x)`", UnaryOp::Atan),
            ("atanh", "Inverse hyperbolic tangent: `atanh(x)`", UnaryOp::Atanh),
            ("cbrt", "Cube root: `cbrt(x)`", UnaryOp::Cbrt),
            ("ceil", "The next whole number above: `ceil(x)`", UnaryOp::Ceil),
            ("cos", "Cosine: `cos(x)`", UnaryOp::Cos),
            ("cosh", "Hyperbolic cosine: `cosh(x)`", UnaryOp::Cosh),
            ("erf", "Error function: `erf(x)`", UnaryOp::Erf),
            ("erf_inv", "Inverse error function: `erf_inv(x)`", UnaryOp::ErfInv),
            ("expm1", "`exp(x) - 1`, exact near zero: `expm1(x)`", UnaryOp::Expm1),
            ("floor", "The next whole number below: `floor(x)`", UnaryOp::Floor),
            ("log1p", "`log(1 + x)`, exact near zero: `log1p(x)`", UnaryOp::Log1p),
            ("round", "The nearest whole number, halves to even: `round(x)`", UnaryOp::Round),
            ("round_away", "The nearest whole number, halves away from zero: `round_away(x)`", UnaryOp::RoundAway),
            ("sin", "Sine: `sin(x)`", UnaryOp::Sin),
            ("sinh", "Hyperbolic sine: `sinh(x)`", UnaryOp::Sinh),
            ("tan", "Tangent: `tan(x)`", UnaryOp::Tan),
            ("trunc", "The whole number towards zero: `trunc(x)`", UnaryOp::Trunc),
        ]
        .map(|(name, summary, op)| function(name, summary, op)),
    );
    kernels.extend(
        [
            ("is_inf", "Whether a value is infinite, as 0 or 1: `is_inf(x)`", UnaryOp::IsInf),
            ("is_nan", "Whether a value is no number, as 0 or 1: `is_nan(x)`", UnaryOp::IsNan),
        ]
        .map(|(name, summary, op)| question_of_one(name, summary, op)),
    );
    kernels.extend(
        [
            ("bitwise_not", "Every bit turned: `~x`", UnaryOp::BitNot),
            ("count_ones", "How many bits are set: `count_ones(x)`", UnaryOp::CountOnes),
            ("leading_zeros", "How many bits are zero before the first one: `leading_zeros(x)`", UnaryOp::LeadingZeros),
        ]
        .map(|(name, summary, op)| of_bits(name, summary, op)),
    );
    kernels.extend(
        [
            ("atan2", "The angle of a point, y and x, from -π to π: `atan2(a, b)`", BinaryOp::Atan2, FLOATS),
            ("bitwise_and", "Bits that are set in both: `a & b`", BinaryOp::BitAnd, INTEGERS),
            ("bitwise_or", "Bits that are set in one or both: `a | b`", BinaryOp::BitOr, INTEGERS),
            ("bitwise_xor", "Bits that are set in one of them: `a ^ b`", BinaryOp::BitXor, INTEGERS),
            ("pow", "`a` to the power of `b`: `pow(a, b)`", BinaryOp::Pow, FLOATS),
            ("remainder", "The rest of a division, with the sign of `a`: `rem(a, b)`", BinaryOp::Rem, NUMBERS),
        ]
        .map(|(name, summary, op, dtypes)| {
            let work = move |a: Expr, b: Expr| match op {
                BinaryOp::Atan2 => a.atan2(b),
                BinaryOp::Pow => a.pow(b),
                BinaryOp::Rem => a.remainder(b),
                bits => a.bits(bits, b),
            };
            of_two(name, summary, dtypes, accuracy(op.ulps()), work, move |a, b| apply_binary(op, a, b))
        }),
    );
    kernels.extend(
        [
            ("minimum", "The smaller of two, NaN if one is: `minimum(a, b)`", BinaryOp::Min),
            ("maximum", "The larger of two, NaN if one is: `maximum(a, b)`", BinaryOp::Max),
        ]
        .map(|(name, summary, op)| {
            let work = move |a: Expr, b: Expr| if op == BinaryOp::Min { a.minimum(b) } else { a.maximum(b) };
            let reference = move |a: Scalar, b: Scalar| match [a, b].into_iter().find(|value| value.as_f64().is_nan()) {
                Some(unknown) => unknown,
                None => apply_binary(op, a, b),
            };
            of_two(name, summary, NUMBERS, Tolerance::EXACT, work, reference)
        }),
    );
    let modulo = "The rest of a division, with the sign of `b`: `mod(a, b)`";
    kernels.push(of_two("modulo", modulo, NUMBERS, Tolerance::ulps(1), Expr::modulo, floored));
    kernels.push(shift("shift_left", "Bits moved up: `a << b`", BinaryOp::Shl));
    kernels.push(shift("shift_right", "Bits moved down, with the sign of signed integers: `a >> b`", BinaryOp::Shr));
    kernels.extend(
        [
            ("equal", CompareOp::Eq),
            ("greater", CompareOp::Gt),
            ("greater_equal", CompareOp::Ge),
            ("less", CompareOp::Lt),
            ("less_equal", CompareOp::Le),
            ("not_equal", CompareOp::Ne),
        ]
        .map(|(name, op)| {
            let summary = format!("Whether two values compare so, as 0 or 1: `a {} b`", op.symbol());
            question(name, &summary, move |a, b| a.compare(op, b), move |a, b| compare(op, a, b))
        }),
    );
    kernels.push(question(
        "logical_and",
        "Whether neither is zero, as 0 or 1: `a != 0 && b != 0`",
        |a, b| holds(a).logic(LogicOp::And, holds(b)),
        |a, b| is_set(a) && is_set(b),
    ));
    kernels.push(question(
        "logical_or",
        "Whether one of them is not zero, as 0 or 1: `a != 0 || b != 0`",
        |a, b| holds(a).logic(LogicOp::Or, holds(b)),
        |a, b| is_set(a) || is_set(b),
    ));
    kernels.push(question(
        "logical_xor",
        "Whether just one of them is not zero, as 0 or 1: `(a != 0) != (b != 0)`",
        |a, b| holds(a).compare(CompareOp::Ne, holds(b)),
        |a, b| is_set(a) != is_set(b),
    ));
    kernels
}

fn spec(name: &str, summary: &str) -> KernelSpec {
    KernelSpec::pointwise(name).summary(summary)
}

/// As close as an operation says it is; the reference is rounded too.
fn accuracy(ulps: Option<u32>) -> Tolerance {
    ulps.map_or(Tolerance::EXACT, |ulps| Tolerance::ulps(ulps + 1))
}

fn truth(value: bool) -> Scalar {
    Scalar::U8(value.into())
}

fn is_set(value: Scalar) -> bool {
    compare(CompareOp::Ne, value, Scalar::from_i64(value.dtype(), 0))
}

fn holds(value: Expr) -> Expr {
    value.compare(CompareOp::Ne, 0)
}

fn function(name: &str, summary: &str, op: UnaryOp) -> Kernel {
    let spec = spec(name, summary).input("x", FLOATS).tolerance(accuracy(op.ulps()));
    Kernel::pointwise(spec, move |_| Expr::input("x").unary(op))
        .reference(move |call| call.map(|value| apply_unary(op, value)))
}

fn question_of_one(name: &str, summary: &str, op: UnaryOp) -> Kernel {
    let spec = spec(name, summary).input("x", FLOATS).output(OutputShape::Inputs, TRUTH);
    Kernel::pointwise(spec, move |_| Expr::input("x").unary(op))
        .reference(move |call| call.map(|value| truth(answers(op, value))))
}

fn logical_not() -> Kernel {
    let spec = spec("logical_not", "Whether a value is zero, as 0 or 1: `x == 0`");
    let spec = spec.input("x", NUMBERS).output(OutputShape::Inputs, TRUTH);
    Kernel::pointwise(spec, |_| Expr::input("x").compare(CompareOp::Eq, 0))
        .reference(|call| call.map(|value| truth(!is_set(value))))
}

/// The unsigned type of the same size.
fn unsigned(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// An operation on the bits that an element has, which may be fewer than those of its register.
fn of_bits(name: &str, summary: &str, op: UnaryOp) -> Kernel {
    let work = move |call: &Signature| {
        let dtype = call.output.dtype;
        let own = Expr::input("x").cast_with(Overflow::Wrap, unsigned(dtype)).unary(op);
        match op {
            UnaryOp::LeadingZeros if dtype.size() < 4 => own - (32 - 8 * dtype.size() as i32),
            UnaryOp::BitNot => own.cast_with(Overflow::Wrap, dtype),
            _ => own.cast(dtype),
        }
    };
    Kernel::pointwise(spec(name, summary).input("x", INTEGERS), work).reference(move |call: &Reference| {
        let (dtype, bits) = (call.dtype(), 8 * call.dtype().size() as i64);
        let element = |index: usize| {
            // The lowest bits are the element's; above them are zeros.
            let own = call.at(0, index).bits();
            match op {
                UnaryOp::CountOnes => Scalar::from_i64(dtype, own.count_ones().into()),
                UnaryOp::LeadingZeros => Scalar::from_i64(dtype, i64::from(own.leading_zeros()) + bits - 64),
                _ => Scalar::wrapping(dtype, (!own).into()),
            }
        };
        Data::collect(dtype, (0..call.len()).map(element))
    })
}

fn pairs(name: &str, summary: &str, dtypes: DTypes) -> KernelSpec {
    spec(name, summary).input("a", dtypes).input("b", dtypes)
}

/// The expression of a call of two inputs, which broadcast.
fn on_pair(work: impl Fn(Expr, Expr) -> Expr + Send + Sync + 'static) -> impl Fn(&Signature) -> Expr + Send + Sync {
    move |call| {
        let (a, b) = pair(call);
        work(a, b)
    }
}

fn of_two(
    name: &str,
    summary: &str,
    dtypes: DTypes,
    tolerance: Tolerance,
    work: impl Fn(Expr, Expr) -> Expr + Send + Sync + 'static,
    reference: impl Fn(Scalar, Scalar) -> Scalar + Send + Sync + 'static,
) -> Kernel {
    let spec = pairs(name, summary, dtypes).output(OutputShape::Broadcast, OutputDType::Inputs).tolerance(tolerance);
    Kernel::pointwise(spec, on_pair(work)).reference(move |call| call.zip(&reference))
}

fn question(
    name: &str,
    summary: &str,
    work: impl Fn(Expr, Expr) -> Expr + Send + Sync + 'static,
    reference: impl Fn(Scalar, Scalar) -> bool + Send + Sync + 'static,
) -> Kernel {
    let spec = pairs(name, summary, NUMBERS).output(OutputShape::Broadcast, TRUTH);
    Kernel::pointwise(spec, on_pair(work)).reference(move |call| call.zip(|a, b| truth(reference(a, b))))
}

/// A shift keeps the bits that an element has: what leaves it upwards is gone, also where its register is wider.
fn shift(name: &str, summary: &str, op: BinaryOp) -> Kernel {
    let spec = pairs(name, summary, INTEGERS).output(OutputShape::Broadcast, OutputDType::Inputs);
    let work = move |call: &Signature| {
        let (a, b) = pair(call);
        a.bits(op, b).cast_with(Overflow::Wrap, call.output.dtype)
    };
    Kernel::pointwise(spec, work).reference(move |call: &Reference| {
        let bits = if call.dtype().size() == 8 { 64 } else { 32 };
        let element = |index: usize| {
            let value = call.at(0, index).as_integer().unwrap_or_default();
            let amount = call.at(1, index).as_integer().unwrap_or_default();
            let inside = (0..bits).contains(&amount);
            let shifted = match op {
                BinaryOp::Shl if inside => value << amount,
                BinaryOp::Shl => 0,
                // The sign alone is left.
                _ => value >> if inside { amount } else { bits - 1 + i128::from(value >= 0) },
            };
            Scalar::wrapping(call.dtype(), shifted)
        };
        Data::collect(call.dtype(), (0..call.len()).map(element))
    })
}

/// The remainder of a division that rounds down.
fn floored(a: Scalar, b: Scalar) -> Scalar {
    let rest = apply_binary(BinaryOp::Rem, a, b);
    let zero = Scalar::from_i64(rest.dtype(), 0);
    let below = |value: Scalar| compare(CompareOp::Lt, value, zero);
    if compare(CompareOp::Ne, rest, zero) && below(rest) != below(b) {
        return apply_binary(BinaryOp::Add, rest, b);
    }
    rest
}

fn sign() -> Kernel {
    let spec = spec("sign", "-1, 0 or 1, as a value is below, at or above zero: `sign(x)`").input("x", NUMBERS);
    Kernel::pointwise(spec, |_| Expr::input("x").sign()).reference(|call| {
        call.map(|value| {
            let zero = Scalar::from_i64(value.dtype(), 0);
            match (compare(CompareOp::Gt, value, zero), compare(CompareOp::Lt, value, zero)) {
                (true, _) => Scalar::from_i64(value.dtype(), 1),
                (_, true) => Scalar::from_i64(value.dtype(), -1),
                _ => value,
            }
        })
    })
}

fn choice() -> Kernel {
    let spec = spec("where", "Elements of `a` where the condition is not zero, of `b` elsewhere")
        .alias("select")
        .input("condition", &[DType::U8])
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Rest);
    let work = |call: &Signature| {
        let condition = operand(call, 0, "condition").compare(CompareOp::Ne, 0);
        Expr::select(condition, operand(call, 1, "a"), operand(call, 2, "b"))
    };
    Kernel::pointwise(spec, work).reference(|call: &Reference| {
        let element = |index: usize| call.at(if is_set(call.at(0, index)) { 1 } else { 2 }, index);
        Data::collect(call.dtype(), (0..call.len()).map(element))
    })
}
