//! What every operation means, on single values: used to fold constants and to interpret programs.

use super::program::{BinaryOp, CompareOp, UnaryOp};
use crate::{DType, Scalar};

/// A value as registers hold it: small integers are `s32`, 16-bit floats are `f32`.
pub fn widen(value: Scalar) -> Scalar {
    match value {
        Scalar::U8(value) => Scalar::S32(value.into()),
        Scalar::S8(value) => Scalar::S32(value.into()),
        Scalar::U16(value) => Scalar::S32(value.into()),
        Scalar::S16(value) => Scalar::S32(value.into()),
        Scalar::F16(value) => Scalar::F32(value.into()),
        Scalar::BF16(value) => Scalar::F32(value.into()),
        other => other,
    }
}

/// A function of one value that gives a number. Approximated functions are computed in f64 and rounded once.
pub fn apply_unary(op: UnaryOp, value: Scalar) -> Scalar {
    macro_rules! integer {
        ($variant:ident, $x:ident, $abs:expr) => {
            Scalar::$variant(match op {
                UnaryOp::Neg => $x.wrapping_neg(),
                UnaryOp::Abs => $abs,
                UnaryOp::BitNot => !$x,
                UnaryOp::CountOnes => $x.count_ones() as _,
                UnaryOp::LeadingZeros => $x.leading_zeros() as _,
                _ => $x,
            })
        };
    }
    match widen(value) {
        // In f64 these are exact or, for a root, exact enough to round to the same f32.
        Scalar::F32(x) => Scalar::F32(float_function(op, x.into()) as f32),
        Scalar::F64(x) => Scalar::F64(float_function(op, x)),
        Scalar::S32(x) => integer!(S32, x, x.wrapping_abs()),
        Scalar::S64(x) => integer!(S64, x, x.wrapping_abs()),
        Scalar::U32(x) => integer!(U32, x, x),
        Scalar::U64(x) => integer!(U64, x, x),
        other => other,
    }
}

/// A question about one value.
pub fn answers(op: UnaryOp, value: Scalar) -> bool {
    let value = if value.dtype().is_float() { value.as_f64() } else { 0.0 };
    match op {
        UnaryOp::IsNan => value.is_nan(),
        _ => value.is_infinite(),
    }
}

fn float_function(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::RoundAway => x.round(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Cbrt => x.cbrt(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Asin => x.asin(),
        UnaryOp::Acos => x.acos(),
        UnaryOp::Atan => x.atan(),
        UnaryOp::Sinh => x.sinh(),
        UnaryOp::Cosh => x.cosh(),
        UnaryOp::Tanh => x.tanh(),
        // Those of libm are accurate everywhere; the standard library's lose digits at large and small values.
        UnaryOp::Asinh => libm::asinh(x),
        UnaryOp::Acosh if x < 1.0 => f64::NAN,
        UnaryOp::Acosh => libm::acosh(x),
        UnaryOp::Atanh => libm::atanh(x),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::ErfInv => erf_inv(x),
        // Questions, and operations on bits: not asked of floats here.
        UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::BitNot | UnaryOp::CountOnes | UnaryOp::LeadingZeros => x,
    }
}

/// The inverse of the error function: a start that is right to three digits (Winitzki), then Newton's method on the side where
/// `erf` keeps its digits.
fn erf_inv(x: f64) -> f64 {
    if x.is_nan() || x.abs() >= 1.0 {
        return if x.abs() == 1.0 { x * f64::INFINITY } else { f64::NAN };
    }
    if x.abs() < 1e-9 {
        return x * (std::f64::consts::PI.sqrt() / 2.0);
    }
    let (sign, x) = (x.signum(), x.abs());
    let (a, log) = (0.147, (-x * x).ln_1p());
    let b = 2.0 / (std::f64::consts::PI * a) + log / 2.0;
    let mut y = ((b * b - log / a).sqrt() - b).sqrt();
    for _ in 0..4 {
        // `1 - x` is exact from a half on.
        let error = if x > 0.5 { (1.0 - x) - libm::erfc(y) } else { libm::erf(y) - x };
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
        let step = error / slope;
        y -= step / (1.0 + y * step);
    }
    sign * y
}

/// An operation on two values of one type; the first value's type decides.
pub fn apply_binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    macro_rules! float {
        ($variant:ident, $x:ident, $y:ident) => {
            Scalar::$variant(match op {
                BinaryOp::Add => $x + $y,
                BinaryOp::Sub => $x - $y,
                BinaryOp::Mul => $x * $y,
                BinaryOp::Div => $x / $y,
                BinaryOp::Rem => $x % $y,
                BinaryOp::Min => $x.min($y),
                BinaryOp::Max => $x.max($y),
                BinaryOp::Pow => f64::from($x).powf(f64::from($y)) as _,
                BinaryOp::Atan2 => f64::from($x).atan2(f64::from($y)) as _,
                // The type-checker has these on integers alone.
                BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr => $x,
            })
        };
    }
    macro_rules! int {
        ($variant:ident, $x:ident, $y:ident) => {
            Scalar::$variant(match op {
                BinaryOp::Add => $x.wrapping_add($y),
                BinaryOp::Sub => $x.wrapping_sub($y),
                BinaryOp::Mul => $x.wrapping_mul($y),
                BinaryOp::Div if $y == 0 => 0,
                BinaryOp::Rem if $y == 0 => $x,
                BinaryOp::Div => $x.wrapping_div($y),
                BinaryOp::Rem => $x.wrapping_rem($y),
                BinaryOp::Min => $x.min($y),
                BinaryOp::Max => $x.max($y),
                BinaryOp::BitAnd => $x & $y,
                BinaryOp::BitOr => $x | $y,
                BinaryOp::BitXor => $x ^ $y,
                // The type-checker sees to amounts that are too large.
                BinaryOp::Shl => $x.wrapping_shl($y as u32),
                BinaryOp::Shr => $x.wrapping_shr($y as u32),
                // The type-checker computes these in floats.
                BinaryOp::Pow | BinaryOp::Atan2 => 0,
            })
        };
    }
    match (widen(a), widen(b)) {
        (Scalar::F32(x), Scalar::F32(y)) => float!(F32, x, y),
        (Scalar::F64(x), Scalar::F64(y)) => float!(F64, x, y),
        (Scalar::S32(x), Scalar::S32(y)) => int!(S32, x, y),
        (Scalar::S64(x), Scalar::S64(y)) => int!(S64, x, y),
        (Scalar::U32(x), Scalar::U32(y)) => int!(U32, x, y),
        (Scalar::U64(x), Scalar::U64(y)) => int!(U64, x, y),
        (a, b) => apply_binary(op, a, cast(b, a.dtype())),
    }
}

/// A comparison of two values of one type.
pub fn compare(op: CompareOp, a: Scalar, b: Scalar) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (a.as_integer(), b.as_integer()) {
        (Some(x), Some(y)) => Some(x.cmp(&y)),
        _ => a.as_f64().partial_cmp(&b.as_f64()),
    };
    match op {
        CompareOp::Lt => order == Some(Less),
        CompareOp::Le => matches!(order, Some(Less | Equal)),
        CompareOp::Gt => order == Some(Greater),
        CompareOp::Ge => matches!(order, Some(Greater | Equal)),
        CompareOp::Eq => order == Some(Equal),
        CompareOp::Ne => order != Some(Equal),
    }
}

/// A cast: floats lose their fraction and saturate, NaN is 0; integers saturate where registers are wider than the type, and
/// wrap elsewhere.
pub fn cast(value: Scalar, to: DType) -> Scalar {
    match value.as_integer() {
        Some(value) if to.narrow_range().is_some() => Scalar::saturating(to, value),
        Some(value) => Scalar::wrapping(to, value),
        None => Scalar::from_f64(to, value.as_f64()),
    }
}

/// What storing to an element type does: a cast, but floats round half to even on their way to integers.
pub fn store(value: Scalar, to: DType) -> Scalar {
    match value {
        float if float.dtype().is_float() && !to.is_float() => cast(Scalar::F64(float.as_f64().round_ties_even()), to),
        other => cast(other, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_never_trap() {
        use BinaryOp::Div;
        assert_eq!(apply_binary(Div, Scalar::S32(7), Scalar::S32(0)), Scalar::S32(0));
        assert_eq!(apply_binary(Div, Scalar::S32(i32::MIN), Scalar::S32(-1)), Scalar::S32(i32::MIN));
        assert_eq!(apply_binary(Div, Scalar::S64(-7), Scalar::S64(2)), Scalar::S64(-3));
        assert_eq!(apply_binary(BinaryOp::Add, Scalar::U32(u32::MAX), Scalar::U32(1)), Scalar::U32(0));
    }

    #[test]
    fn floats_saturate_into_integers() {
        assert_eq!(cast(Scalar::F32(-1.5), DType::S32), Scalar::S32(-1));
        assert_eq!(cast(Scalar::F32(f32::NAN), DType::S64), Scalar::S64(0));
        assert_eq!(cast(Scalar::F64(1e300), DType::U32), Scalar::U32(u32::MAX));
        assert_eq!(store(Scalar::F32(2.5), DType::U8), Scalar::U8(2));
        assert_eq!(store(Scalar::F32(3.5), DType::U8), Scalar::U8(4));
        assert_eq!(store(Scalar::F32(-3.0), DType::U8), Scalar::U8(0));
        assert_eq!(store(Scalar::S32(300), DType::U8), Scalar::U8(255));
        assert_eq!(store(Scalar::S64(-1), DType::U32), Scalar::U32(u32::MAX));
    }

    #[test]
    fn min_and_max_drop_nan() {
        assert_eq!(apply_binary(BinaryOp::Min, Scalar::F32(f32::NAN), Scalar::F32(1.0)), Scalar::F32(1.0));
        assert_eq!(apply_binary(BinaryOp::Max, Scalar::F32(1.0), Scalar::F32(f32::NAN)), Scalar::F32(1.0));
    }
}
