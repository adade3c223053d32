//! Floats and their bits as values that formulas can be written with.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Shl, Shr, Sub};

use cubecl::ir::pliron::value::Value;
use cubecl::prelude::*;
use dala_spec::Scalar;
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Ty, UnaryOp};

use super::arithmetic::{Generator, Lanes};

/// Lanes of `f32` or `f64`.
#[derive(Clone, Copy)]
pub(super) struct Float<'g> {
    make: &'g Generator<'g>,
    ty: Ty,
    pub(super) value: Value,
    /// A zero of the bits' type that only the running program knows.
    nothing: Value,
}

/// The bits of floats, as unsigned integers of the same size.
#[derive(Clone, Copy)]
pub(super) struct Bits<'g> {
    like: Float<'g>,
    pub(super) value: Value,
}

/// Lanes of truth values.
#[derive(Clone, Copy)]
pub(super) struct Truth<'g> {
    make: &'g Generator<'g>,
    pub(super) value: Value,
}

/// What stands on the right of an operator: lanes, or a number.
pub(super) trait Operand<T> {
    fn beside(self, other: T) -> Value;
}

impl<'g> Operand<Float<'g>> for Float<'g> {
    fn beside(self, _: Float<'g>) -> Value {
        self.value
    }
}

impl<'g> Operand<Float<'g>> for f64 {
    fn beside(self, other: Float<'g>) -> Value {
        other.make.number(other.ty, self)
    }
}

impl<'g> Operand<Bits<'g>> for Bits<'g> {
    fn beside(self, _: Bits<'g>) -> Value {
        self.value
    }
}

impl<'g> Operand<Bits<'g>> for u64 {
    fn beside(self, other: Bits<'g>) -> Value {
        other.like.make.constant(match other.ty() {
            Ty::U64 => Scalar::U64(self),
            _ => Scalar::U32(self as u32),
        })
    }
}

macro_rules! operators {
    ($type:ident: $($trait:ident $method:ident $op:ident),+) => {
        $(impl<'g, O: Operand<$type<'g>>> $trait<O> for $type<'g> {
            type Output = $type<'g>;

            fn $method(self, other: O) -> $type<'g> {
                self.binary(BinaryOp::$op, other.beside(self))
            }
        })+
    };
}

operators!(Float: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);
operators!(Bits: Add add Add, Sub sub Sub, Mul mul Mul, BitAnd bitand BitAnd, BitOr bitor BitOr, BitXor bitxor BitXor,
    Shl shl Shl, Shr shr Shr);

impl<'g> Sub<Float<'g>> for f64 {
    type Output = Float<'g>;

    fn sub(self, other: Float<'g>) -> Float<'g> {
        other.number(self) - other
    }
}

impl<'g> Div<Float<'g>> for f64 {
    type Output = Float<'g>;

    fn div(self, other: Float<'g>) -> Float<'g> {
        other.number(self) / other
    }
}

impl<'g> Neg for Float<'g> {
    type Output = Float<'g>;

    fn neg(self) -> Float<'g> {
        self.unary(UnaryOp::Neg)
    }
}

macro_rules! comparisons {
    ($type:ident: $($method:ident $op:ident),+) => {
        impl<'g> $type<'g> {
            $(pub(super) fn $method(self, other: impl Operand<$type<'g>>) -> Truth<'g> {
                self.compare(CompareOp::$op, other.beside(self))
            })+
        }
    };
}

comparisons!(Float: below Lt, above Gt, at_least Ge, equals Eq);
comparisons!(Bits: below Lt, above Gt, at_least Ge, equals Eq);

impl<'g> Float<'g> {
    pub(super) fn new(make: &'g Generator<'g>, ty: Ty, value: Value) -> Float<'g> {
        let bits = if ty == Ty::F64 { Ty::U64 } else { Ty::U32 };
        let one = make.constant(if ty == Ty::F64 { Scalar::U64(1) } else { Scalar::U32(1) });
        let own = reinterpret_value(make.scope, value, make.vector(bits));
        // A number is odd where its square is.
        let square = make.binary(BinaryOp::Mul, bits, own, own);
        let nothing = make.binary(BinaryOp::BitAnd, bits, make.binary(BinaryOp::BitXor, bits, square, own), one);
        Float { make, ty, value, nothing }
    }

    /// Other lanes of the same type.
    pub(super) fn with(self, value: Value) -> Float<'g> {
        Float { value, ..self }
    }

    pub(super) fn number(self, value: f64) -> Float<'g> {
        self.with(self.make.number(self.ty, value))
    }

    /// What belongs to `f32`, or what belongs to `f64`.
    pub(super) fn pick<T>(self, single: T, double: T) -> T {
        if self.ty == Ty::F64 { double } else { single }
    }

    /// How many bits of a float are its fraction.
    pub(super) fn fraction_bits(self) -> u64 {
        self.pick(23, 52)
    }

    /// What is added to exponents in bits.
    pub(super) fn bias(self) -> u64 {
        self.pick(127, 1023)
    }

    /// The bits of infinity; those of NaN are larger.
    pub(super) fn infinite_bits(self) -> u64 {
        (2 * self.bias() + 1) << self.fraction_bits()
    }

    pub(super) fn sign_bit(self) -> u64 {
        self.pick(1 << 31, 1 << 63)
    }

    /// The bits of a number.
    pub(super) fn bits_of(self, value: f64) -> u64 {
        self.pick(u64::from((value as f32).to_bits()), value.to_bits())
    }

    fn binary(self, op: BinaryOp, other: Value) -> Float<'g> {
        self.with(self.make.binary(op, self.ty, self.value, other))
    }

    fn unary(self, op: UnaryOp) -> Float<'g> {
        self.with(self.make.unary(op, self.ty, self.value))
    }

    fn compare(self, op: CompareOp, other: Value) -> Truth<'g> {
        Truth { make: self.make, value: self.make.compare(op, self.ty, self.value, other) }
    }

    pub(super) fn min(self, other: impl Operand<Float<'g>>) -> Float<'g> {
        self.binary(BinaryOp::Min, other.beside(self))
    }

    pub(super) fn max(self, other: impl Operand<Float<'g>>) -> Float<'g> {
        self.binary(BinaryOp::Max, other.beside(self))
    }

    pub(super) fn floor(self) -> Float<'g> {
        self.unary(UnaryOp::Floor)
    }

    pub(super) fn sqrt(self) -> Float<'g> {
        self.unary(UnaryOp::Sqrt)
    }

    pub(super) fn is_nan(self) -> Truth<'g> {
        Truth { make: self.make, value: self.make.is_nan(self.value) }
    }

    pub(super) fn bits(self) -> Bits<'g> {
        let like = Bits { like: self, value: self.value };
        let value = reinterpret_value(self.make.scope, self.value, self.make.vector(like.ty()));
        Bits { value, ..like }
    }

    /// The float of these bits: the only way to infinities and NaN, which drivers do not take as constants.
    pub(super) fn of_bits(self, bits: u64) -> Float<'g> {
        let like = self.bits();
        Bits { value: bits.beside(like), ..like }.float()
    }

    pub(super) fn infinity(self) -> Float<'g> {
        self.of_bits(self.infinite_bits())
    }

    pub(super) fn nan(self) -> Float<'g> {
        self.of_bits(self.infinite_bits() | self.infinite_bits() >> 1)
    }

    /// The bits without the sign.
    pub(super) fn magnitude(self) -> Bits<'g> {
        self.bits() & (self.sign_bit() - 1)
    }

    pub(super) fn abs(self) -> Float<'g> {
        self.magnitude().float()
    }

    /// This magnitude with the sign of another value.
    pub(super) fn signed_as(self, other: Float<'g>) -> Float<'g> {
        (self.bits() | other.bits() & self.sign_bit()).float()
    }

    /// This value where the argument is a number, and NaN where it is NaN.
    pub(super) fn unless_nan(self, argument: Float<'g>) -> Float<'g> {
        argument.is_nan().select(argument, self)
    }

    /// The same value, but a compiler does not see which: what is computed with it is not merged with what it was computed from.
    pub(super) fn held(self) -> Float<'g> {
        let bits = self.bits();
        (bits ^ Bits { value: self.nothing, ..bits }).float()
    }

    /// A polynomial in this value, highest power first.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Float<'g> {
        let first = self.number(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, next| sum * self + *next)
    }

    /// Two to the power of a whole number: the low bits of a float whose last bit is worth 1 become an exponent.
    pub(super) fn power_of_two(self) -> Float<'g> {
        let ones = (1_u64 << self.fraction_bits()) as f64;
        ((self + (ones + self.bias() as f64)).bits() << self.fraction_bits()).float()
    }

    /// This times two to the power of `n`, which may go beyond the exponents of normal numbers.
    pub(super) fn scaled(self, n: Float<'g>) -> Float<'g> {
        let half = (n * 0.5).floor();
        self * half.power_of_two() * (n - half).power_of_two()
    }

    /// A positive number as two to the power of a whole number, and a factor from `least` up to below twice that. Works on bits
    /// alone, so that small numbers count also on devices that take them for zero.
    pub(super) fn apart(self, least: f64) -> (Float<'g>, Float<'g>) {
        let (fraction, bits) = (self.fraction_bits(), self.bits());
        let smallest = (self.bias() + fraction - 1) as f64;
        let is_small = bits.below(1 << fraction);
        let bits = is_small.select(bits.whole().bits(), bits);
        let moved = bits + (self.bits_of(1.0) - self.bits_of(least));
        let exponent = (moved >> fraction).whole() - self.bias() as f64;
        let exponent = is_small.select(exponent - smallest, exponent);
        (exponent, ((moved & ((1 << fraction) - 1)) + self.bits_of(least)).float())
    }

    /// A sum and its rounding error, where this is at least as large as the other, or zero.
    pub(super) fn add_exactly(self, other: Float<'g>) -> (Float<'g>, Float<'g>) {
        let sum = (self + other).held();
        (sum, other - (sum - self).held())
    }

    /// A product and its rounding error.
    pub(super) fn multiply_exactly(self, other: Float<'g>) -> (Float<'g>, Float<'g>) {
        let product = (self * other).held();
        let ((a, b), (c, d)) = (self.halves(), other.halves());
        (product, ((a * c - product) + a * d + b * c) + b * d)
    }

    /// The upper and the lower half of the digits, so that products of them are exact.
    pub(super) fn halves(self) -> (Float<'g>, Float<'g>) {
        let low: u64 = self.pick((1 << 12) - 1, (1 << 27) - 1);
        let high = (self.bits() & (self.sign_bit() | (self.sign_bit() - 1) & !low)).float();
        (high, self - high)
    }
}

impl<'g> Bits<'g> {
    fn ty(self) -> Ty {
        if self.like.ty == Ty::F64 { Ty::U64 } else { Ty::U32 }
    }

    fn binary(self, op: BinaryOp, other: Value) -> Bits<'g> {
        Bits { value: self.like.make.binary(op, self.ty(), self.value, other), ..self }
    }

    fn compare(self, op: CompareOp, other: Value) -> Truth<'g> {
        let make = self.like.make;
        Truth { make, value: make.compare(op, self.ty(), self.value, other) }
    }

    pub(super) fn number(self, value: u64) -> Bits<'g> {
        Bits { value: value.beside(self), ..self }
    }

    /// The float that has these bits.
    pub(super) fn float(self) -> Float<'g> {
        let make = self.like.make;
        self.like.with(reinterpret_value(make.scope, self.value, make.vector(self.like.ty)))
    }

    /// A number of fewer bits than a float's fraction, as a float.
    pub(super) fn whole(self) -> Float<'g> {
        let ones = (1_u64 << self.like.fraction_bits()) as f64;
        (self | self.like.bits_of(ones)).float() - ones
    }

    /// These bits as a number with or without a sign, rounded to a float.
    pub(super) fn rounded(self, signed: bool) -> Float<'g> {
        let (make, unsigned) = (self.like.make, self.ty());
        let from = match (signed, unsigned) {
            (false, ty) => ty,
            (true, Ty::U64) => Ty::S64,
            (true, _) => Ty::S32,
        };
        let value = if signed { make.change_sign(self.value, from) } else { self.value };
        self.like.with(make.cast(Lanes { value, ty: from }, self.like.ty))
    }
}

/// Lanes that a truth value chooses between.
pub(super) trait Choice {
    fn lanes(self) -> Value;
    fn chosen(self, value: Value) -> Self;
}

impl Choice for Float<'_> {
    fn lanes(self) -> Value {
        self.value
    }

    fn chosen(self, value: Value) -> Self {
        self.with(value)
    }
}

impl Choice for Bits<'_> {
    fn lanes(self) -> Value {
        self.value
    }

    fn chosen(self, value: Value) -> Self {
        Bits { value, ..self }
    }
}

impl Truth<'_> {
    pub(super) fn select<T: Choice + Copy>(self, then: T, other: T) -> T {
        then.chosen(self.make.select(self.value, then.lanes(), other.lanes()))
    }
}

impl<'g> BitAnd for Truth<'g> {
    type Output = Truth<'g>;

    fn bitand(self, other: Truth<'g>) -> Truth<'g> {
        Truth { value: self.make.logic(LogicOp::And, self.value, other.value), ..self }
    }
}

impl<'g> BitOr for Truth<'g> {
    type Output = Truth<'g>;

    fn bitor(self, other: Truth<'g>) -> Truth<'g> {
        Truth { value: self.make.logic(LogicOp::Or, self.value, other.value), ..self }
    }
}

impl<'g> Not for Truth<'g> {
    type Output = Truth<'g>;

    fn not(self) -> Truth<'g> {
        Truth { value: self.make.not(self.value), ..self }
    }
}
