//! What every operation means, on single values: used to fold constants and to interpret programs.

use super::program::{BinaryOp, CompareOp, UnaryOp};
use crate::{DType, Scalar};

/// A function of one value. Approximated functions are computed in f64 and rounded once.
pub fn apply_unary(op: UnaryOp, value: Scalar) -> Scalar {
    match value {
        // In f64 these are exact or, for a root, exact enough to round to the same f32.
        Scalar::F32(x) => Scalar::F32(float_function(op, f64::from(x)) as f32),
        Scalar::F64(x) => Scalar::F64(float_function(op, x)),
        Scalar::S32(x) => Scalar::S32(match op {
            UnaryOp::Neg => x.wrapping_neg(),
            UnaryOp::Abs => x.wrapping_abs(),
            _ => x,
        }),
        Scalar::S64(x) => Scalar::S64(match op {
            UnaryOp::Neg => x.wrapping_neg(),
            UnaryOp::Abs => x.wrapping_abs(),
            _ => x,
        }),
        Scalar::U32(x) => Scalar::U32(if op == UnaryOp::Neg { x.wrapping_neg() } else { x }),
        Scalar::U8(x) => Scalar::U8(x),
    }
}

fn float_function(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Erf => libm::erf(x),
    }
}

/// An operation on two values of one type; the first value's type decides.
pub fn apply_binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    macro_rules! float {
        ($variant:ident, $x:ident, $y:ident, $pow:expr) => {
            Scalar::$variant(match op {
                BinaryOp::Add => $x + $y,
                BinaryOp::Sub => $x - $y,
                BinaryOp::Mul => $x * $y,
                BinaryOp::Div => $x / $y,
                BinaryOp::Min => $x.min($y),
                BinaryOp::Max => $x.max($y),
                BinaryOp::Pow => $pow,
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
                BinaryOp::Div => $x.wrapping_div($y),
                BinaryOp::Min => $x.min($y),
                BinaryOp::Max => $x.max($y),
                // The type-checker computes powers in floats.
                BinaryOp::Pow => 0,
            })
        };
    }
    match (a, b) {
        (Scalar::F32(x), Scalar::F32(y)) => float!(F32, x, y, f64::from(x).powf(f64::from(y)) as f32),
        (Scalar::F64(x), Scalar::F64(y)) => float!(F64, x, y, x.powf(y)),
        (Scalar::S32(x), Scalar::S32(y)) => int!(S32, x, y),
        (Scalar::S64(x), Scalar::S64(y)) => int!(S64, x, y),
        (Scalar::U32(x), Scalar::U32(y)) => int!(U32, x, y),
        (Scalar::U8(x), Scalar::U8(y)) => int!(U8, x, y),
        (a, b) => apply_binary(op, a, cast(b, a.dtype())),
    }
}

/// A comparison of two values of one type.
pub fn compare(op: CompareOp, a: Scalar, b: Scalar) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (a, b) {
        (Scalar::F32(x), Scalar::F32(y)) => x.partial_cmp(&y),
        (Scalar::F64(x), Scalar::F64(y)) => x.partial_cmp(&y),
        (Scalar::S32(x), Scalar::S32(y)) => Some(x.cmp(&y)),
        (Scalar::S64(x), Scalar::S64(y)) => Some(x.cmp(&y)),
        (Scalar::U32(x), Scalar::U32(y)) => Some(x.cmp(&y)),
        (Scalar::U8(x), Scalar::U8(y)) => Some(x.cmp(&y)),
        (a, b) => a.as_f64().partial_cmp(&b.as_f64()),
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

/// A cast: floats lose their fraction and saturate, NaN is 0; integers wrap, except that u8 saturates.
pub fn cast(value: Scalar, to: DType) -> Scalar {
    macro_rules! from_float {
        ($x:ident) => {
            match to {
                DType::F32 => Scalar::F32($x as f32),
                DType::F64 => Scalar::F64($x as f64),
                DType::S32 => Scalar::S32($x as i32),
                DType::S64 => Scalar::S64($x as i64),
                DType::U32 => Scalar::U32($x as u32),
                DType::U8 => Scalar::U8($x as u8),
            }
        };
    }
    match value {
        Scalar::F32(x) => from_float!(x),
        Scalar::F64(x) => from_float!(x),
        Scalar::S32(x) => from_int(i64::from(x), to),
        Scalar::S64(x) => from_int(x, to),
        Scalar::U32(x) => from_int(i64::from(x), to),
        Scalar::U8(x) => from_int(i64::from(x), to),
    }
}

fn from_int(value: i64, to: DType) -> Scalar {
    match to {
        DType::U8 => Scalar::U8(value.clamp(0, 255) as u8),
        other => Scalar::from_i64(other, value),
    }
}

/// What storing to an element type does: a cast, but floats round half to even on their way to integers.
pub fn store(value: Scalar, to: DType) -> Scalar {
    match value {
        Scalar::F32(x) if !to.is_float() => cast(Scalar::F32(x.round_ties_even()), to),
        Scalar::F64(x) if !to.is_float() => cast(Scalar::F64(x.round_ties_even()), to),
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
