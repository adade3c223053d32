//! Device code for single operations, with the same meaning on every device.

use cubecl::ir::dialect::general::{BoolAndOp, BoolNotOp, BoolOrOp, SelectOp};
use cubecl::ir::dialect::math::IsNanOp;
use cubecl::ir::dialect::vector::{CompositeExtractOp, CompositeInsertOp};
use cubecl::ir::pliron::value::Value;
use cubecl::ir::{ConstantValue, ExpandValue, FloatKind, IntKind, UIntKind};
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Ty, UnaryOp};
use dala_spec::{DType, Scalar};

use super::args::vector_type;

/// A value in device code: `width` lanes of a type.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) value: Value,
    pub(crate) ty: Ty,
}

/// The engine's element type.
pub(crate) fn elem(ty: Ty) -> ElemType {
    match ty {
        Ty::F32 => FloatKind::F32.into(),
        Ty::F64 => FloatKind::F64.into(),
        Ty::S32 => IntKind::I32.into(),
        Ty::S64 => IntKind::I64.into(),
        Ty::U32 => UIntKind::U32.into(),
        Ty::U64 => UIntKind::U64.into(),
        Ty::Bool => ElemType::Bool,
    }
}

/// Calls the engine's expansion of an operation for the value's type. A type without the operation is a mistake of the
/// type-checker; the panic ends as a compile error on the outputs.
macro_rules! numeric {
    ($ty:expr, $method:ident($scope:expr, $($arg:expr),*)) => {
        match $ty {
            Ty::F32 => f32::$method($scope, $($arg),*),
            Ty::F64 => f64::$method($scope, $($arg),*),
            Ty::S32 => i32::$method($scope, $($arg),*),
            Ty::S64 => i64::$method($scope, $($arg),*),
            Ty::U32 => u32::$method($scope, $($arg),*),
            Ty::U64 => u64::$method($scope, $($arg),*),
            Ty::Bool => panic!("no {} on truth values", stringify!($method)),
        }
    };
}
macro_rules! integer {
    ($ty:expr, $method:ident($scope:expr, $($arg:expr),*)) => {
        match $ty {
            Ty::S32 => i32::$method($scope, $($arg),*),
            Ty::S64 => i64::$method($scope, $($arg),*),
            Ty::U32 => u32::$method($scope, $($arg),*),
            Ty::U64 => u64::$method($scope, $($arg),*),
            ty => panic!("no {} on {ty}", stringify!($method)),
        }
    };
}
macro_rules! float {
    ($ty:expr, $method:ident($scope:expr, $($arg:expr),*)) => {
        match $ty {
            Ty::F32 => f32::$method($scope, $($arg),*),
            Ty::F64 => f64::$method($scope, $($arg),*),
            ty => panic!("no {} on {ty}", stringify!($method)),
        }
    };
}

/// Code generation for lanes of one width.
pub(crate) struct Generator<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) width: usize,
}

impl Generator<'_> {
    pub(super) fn vector(&self, ty: Ty) -> cubecl::ir::pliron::r#type::TypeHandle {
        vector_type(self.scope, elem(ty), self.width)
    }

    pub(crate) fn constant(&self, value: Scalar) -> Value {
        let value = dala_spec::expr::widen(value);
        let ty = Ty::of(value.dtype());
        let constant = match value {
            Scalar::U32(v) => ConstantValue::UInt(v.into()),
            Scalar::U64(v) => ConstantValue::UInt(v),
            float if ty.is_float() => ConstantValue::Float(float.as_f64()),
            integer => ConstantValue::Int(integer.as_i64()),
        };
        let scalar = ExpandValue::constant(constant, elem(ty)).read_value(self.scope);
        self.broadcast(scalar)
    }

    /// A number of type `ty`.
    pub(crate) fn number(&self, ty: Ty, value: f64) -> Value {
        self.constant(Scalar::from_f64(ty.dtype().unwrap_or(dala_spec::DType::F32), value))
    }

    pub(crate) fn broadcast(&self, scalar: Value) -> Value {
        broadcast_value(self.scope, scalar, self.width)
    }

    /// One lane of a vector of `width` lanes.
    pub(crate) fn extract(&self, vector: Value, lane: usize, width: usize) -> Value {
        if width == 1 {
            return vector;
        }
        self.scope.register_with_result(&CompositeExtractOp::new(self.scope.ctx_mut(), vector, lane))
    }

    /// A vector of these lanes. The engine's own way to construct one does not survive its CPU lowering.
    pub(crate) fn construct(&self, lanes: &[Value]) -> Value {
        let mut vector = broadcast_value(self.scope, lanes[0], lanes.len());
        for (index, lane) in lanes.iter().enumerate().skip(1).filter(|(_, lane)| **lane != lanes[0]) {
            let insert = CompositeInsertOp::new(self.scope.ctx_mut(), vector, *lane, index);
            vector = self.scope.register_with_result(&insert);
        }
        vector
    }

    pub(crate) fn select(&self, condition: Value, then: Value, other: Value) -> Value {
        self.scope.register_with_result(&SelectOp::new(self.scope.ctx_mut(), condition, then, other))
    }

    pub(crate) fn not(&self, value: Value) -> Value {
        self.scope.register_with_result(&BoolNotOp::new(self.scope.ctx_mut(), value))
    }

    pub(crate) fn logic(&self, op: LogicOp, a: Value, b: Value) -> Value {
        match op {
            LogicOp::And => self.scope.register_with_result(&BoolAndOp::new(self.scope.ctx_mut(), a, b)),
            LogicOp::Or => self.scope.register_with_result(&BoolOrOp::new(self.scope.ctx_mut(), a, b)),
        }
    }

    fn read(&self, value: ExpandValue) -> Value {
        value.read_value(self.scope)
    }

    pub(crate) fn compare(&self, op: CompareOp, ty: Ty, a: Value, b: Value) -> Value {
        let (scope, x, y) = (self.scope, a.into(), b.into());
        self.read(match op {
            CompareOp::Lt => numeric!(ty, __expand_native_lt(scope, x, y)),
            CompareOp::Le => numeric!(ty, __expand_native_le(scope, x, y)),
            CompareOp::Gt => numeric!(ty, __expand_native_gt(scope, x, y)),
            CompareOp::Ge => numeric!(ty, __expand_native_ge(scope, x, y)),
            CompareOp::Eq => numeric!(ty, __expand_native_eq(scope, x, y)),
            CompareOp::Ne => {
                let equal = self.compare(CompareOp::Eq, ty, a, b);
                return self.not(equal);
            }
        })
    }

    pub(crate) fn binary(&self, op: BinaryOp, ty: Ty, a: Value, b: Value) -> Value {
        let (scope, x, y) = (self.scope, a.into(), b.into());
        self.read(match op {
            BinaryOp::Add => numeric!(ty, __expand_native_add(scope, x, y)),
            BinaryOp::Sub => numeric!(ty, __expand_native_sub(scope, x, y)),
            BinaryOp::Mul => return self.multiply(ty, a, b),
            BinaryOp::Div if ty.is_float() => float!(ty, __expand_native_div(scope, x, y)),
            BinaryOp::Div => return self.divide_integers(ty, a, b),
            BinaryOp::Min => numeric!(ty, __expand_native_min(scope, x, y)),
            BinaryOp::Max => numeric!(ty, __expand_native_max(scope, x, y)),
            BinaryOp::Pow => return self.power(ty, a, b),
            BinaryOp::Atan2 => return self.atan2(ty, a, b),
            // Integers have their remainder from a quotient.
            BinaryOp::Rem => return self.remainder(ty, a, b),
            BinaryOp::BitAnd => integer!(ty, __expand_native_bitand(scope, x, y)),
            BinaryOp::BitOr => integer!(ty, __expand_native_bitor(scope, x, y)),
            BinaryOp::BitXor => integer!(ty, __expand_native_bitxor(scope, x, y)),
            BinaryOp::Shl => integer!(ty, __expand_native_shl(scope, x, y)),
            BinaryOp::Shr if ty.is_unsigned() => integer!(ty, __expand_native_shr(scope, x, y)),
            BinaryOp::Shr => return self.shift_with_sign(ty, a, b),
        })
    }

    /// A product that is rounded by itself: hidden behind a bit cast, it cannot be contracted with a sum.
    fn multiply(&self, ty: Ty, a: Value, b: Value) -> Value {
        let product = self.read(numeric!(ty, __expand_native_mul(self.scope, a.into(), b.into())));
        let bits = match ty {
            Ty::F32 => UIntKind::U32,
            Ty::F64 => UIntKind::U64,
            _ => return product,
        };
        let hidden = reinterpret_value(self.scope, product, vector_type(self.scope, bits.into(), self.width));
        reinterpret_value(self.scope, hidden, self.vector(ty))
    }

    /// A shift down that keeps the sign. The engine's forgets it on vectors of its CPU runtime: so nothing below zero is shifted.
    fn shift_with_sign(&self, ty: Ty, a: Value, b: Value) -> Value {
        let zero = self.number(ty, 0.0);
        let sign = self.select(self.compare(CompareOp::Lt, ty, a, zero), self.number(ty, -1.0), zero);
        let above = self.binary(BinaryOp::BitXor, ty, a, sign);
        let shifted = self.read(integer!(ty, __expand_native_shr(self.scope, above.into(), b.into())));
        self.binary(BinaryOp::BitXor, ty, shifted, sign)
    }

    /// Division that cannot trap: `x / 0` is 0 and `MIN / -1` is `MIN`.
    fn divide_integers(&self, ty: Ty, a: Value, b: Value) -> Value {
        let (zero, one) = (self.number(ty, 0.0), self.number(ty, 1.0));
        let by_zero = self.compare(CompareOp::Eq, ty, b, zero);
        let mut divisor = self.select(by_zero, one, b);
        let divide =
            |divisor: Value| self.read(numeric!(ty, __expand_native_div(self.scope, a.into(), divisor.into())));
        let result = if ty.is_unsigned() {
            divide(divisor)
        } else {
            let by_minus_one = self.compare(CompareOp::Eq, ty, b, self.number(ty, -1.0));
            divisor = self.select(by_minus_one, one, divisor);
            let negated = self.binary(BinaryOp::Sub, ty, zero, a);
            self.select(by_minus_one, negated, divide(divisor))
        };
        self.select(by_zero, zero, result)
    }

    pub(crate) fn unary(&self, op: UnaryOp, ty: Ty, a: Value) -> Value {
        let (scope, x) = (self.scope, a.into());
        self.read(match op {
            UnaryOp::Neg => match ty {
                Ty::F32 => f32::__expand_native_neg(scope, x),
                Ty::F64 => f64::__expand_native_neg(scope, x),
                Ty::S32 => i32::__expand_native_neg(scope, x),
                Ty::S64 => i64::__expand_native_neg(scope, x),
                _ => return self.binary(BinaryOp::Sub, ty, self.number(ty, 0.0), a),
            },
            UnaryOp::Abs if ty.is_unsigned() => return a,
            UnaryOp::Abs => numeric!(ty, __expand_native_abs(scope, x)),
            UnaryOp::Floor => float!(ty, __expand_native_floor(scope, x)),
            UnaryOp::Ceil => float!(ty, __expand_native_ceil(scope, x)),
            UnaryOp::Round => float!(ty, __expand_native_round(scope, x)),
            UnaryOp::Sqrt => float!(ty, __expand_native_sqrt(scope, x)),
            UnaryOp::IsNan => return self.is_nan(a),
            UnaryOp::BitNot => return self.binary(BinaryOp::BitXor, ty, a, self.constant(all_ones(ty))),
            UnaryOp::CountOnes | UnaryOp::LeadingZeros => return self.count_bits(op, ty, a),
            other => return self.function(other, ty, a),
        })
    }

    pub(crate) fn is_nan(&self, value: Value) -> Value {
        self.scope.register_with_result(&IsNanOp::new(self.scope.ctx_mut(), value))
    }

    /// A cast as the expression rules say: floats lose their fraction and saturate, NaN becomes 0, integers wrap.
    pub(crate) fn cast(&self, from: Lanes, to: Ty) -> Value {
        if from.ty == to {
            return from.value;
        }
        if from.ty == Ty::Bool {
            return self.select(from.value, self.number(to, 1.0), self.number(to, 0.0));
        }
        if from.ty.is_float() && !to.is_float() {
            return self.float_to_integer(from, to);
        }
        // Through the type of the same size, so that only signs or only sizes change at a time.
        match (from.ty, to) {
            (Ty::S32, Ty::U32) | (Ty::U32, Ty::S32) | (Ty::S64, Ty::U64) | (Ty::U64, Ty::S64) => {
                return self.change_sign(from.value, to);
            }
            (Ty::S32, Ty::U64) => return self.change_sign(self.cast(from, Ty::S64), Ty::U64),
            (Ty::U32, Ty::S64) => return self.change_sign(self.cast(from, Ty::U64), Ty::S64),
            (Ty::U64, Ty::S32) => return self.change_sign(self.cast(from, Ty::U32), Ty::S32),
            (Ty::S64, Ty::U32) => return self.change_sign(self.cast(from, Ty::S32), Ty::U32),
            _ => {}
        }
        cast_value(self.scope, from.value, self.vector(to))
    }

    /// The same bits as the other of `S32` and `U32`, or of `S64` and `U64`. The engine's cast would return the value itself, and from then
    /// on take it for the new type wherever it is used: so a value that nobody else has is cast, and then restored.
    pub(crate) fn change_sign(&self, value: Value, to: Ty) -> Value {
        let flip = |ty: Ty, value: Value| self.binary(BinaryOp::BitXor, ty, value, self.number(ty, 1.0));
        let from = match to {
            Ty::U32 => Ty::S32,
            Ty::U64 => Ty::S64,
            Ty::S64 => Ty::U64,
            _ => Ty::U32,
        };
        let copy = flip(from, value);
        flip(to, cast_value(self.scope, copy, self.vector(to)))
    }

    fn float_to_integer(&self, from: Lanes, to: Ty) -> Value {
        // `inside` is the largest value of the float's type that the integer type holds.
        let (low, largest, inside) = match (to, from.ty) {
            (Ty::S32, Ty::F64) => (i32::MIN as f64, Scalar::S32(i32::MAX), i32::MAX as f64),
            (Ty::S32, _) => (i32::MIN as f64, Scalar::S32(i32::MAX), 2147483520.0),
            (Ty::U32, Ty::F64) => (0.0, Scalar::U32(u32::MAX), u32::MAX as f64),
            (Ty::U32, _) => (0.0, Scalar::U32(u32::MAX), 4294967040.0),
            (Ty::U64, Ty::F64) => (0.0, Scalar::U64(u64::MAX), 18446744073709549568.0),
            (Ty::U64, _) => (0.0, Scalar::U64(u64::MAX), 18446742974197923840.0),
            (_, Ty::F64) => (i64::MIN as f64, Scalar::S64(i64::MAX), 9223372036854774784.0),
            _ => (i64::MIN as f64, Scalar::S64(i64::MAX), 9223371487098961920.0),
        };
        let ty = from.ty;
        let value = self.select(self.is_nan(from.value), self.number(ty, 0.0), from.value);
        let value = self.binary(BinaryOp::Max, ty, value, self.number(ty, low));
        let value = self.binary(BinaryOp::Min, ty, value, self.number(ty, inside));
        let integer = cast_value(self.scope, value, self.vector(to));
        let above = self.compare(CompareOp::Gt, ty, from.value, self.number(ty, inside));
        self.select(above, self.constant(largest), integer)
    }

    /// A value as one that a type narrower than a register holds, in s32 lanes; a float loses its fraction.
    pub(crate) fn saturate(&self, from: Lanes, dtype: DType) -> Value {
        let (ty, value) = (from.ty, from.value);
        let range = dtype.narrow_range().unwrap_or((i32::MIN, i32::MAX));
        if ty.is_float() {
            return cast_value(self.scope, self.clamp_into(ty, value, range), self.vector(Ty::S32));
        }
        let number = |value: i32| self.number(ty, value.into());
        let value = if ty.is_unsigned() { value } else { self.binary(BinaryOp::Max, ty, value, number(range.0)) };
        let value = self.binary(BinaryOp::Min, ty, value, number(range.1));
        self.cast(Lanes { value, ty }, Ty::S32)
    }

    /// A float kept inside of a range while it still is one, so that its conversion is cheap; NaN becomes 0.
    fn clamp_into(&self, ty: Ty, value: Value, range: (i32, i32)) -> Value {
        let (low, high) = (self.number(ty, range.0.into()), self.number(ty, range.1.into()));
        // Comparisons, which NaN fails: minimum and maximum would see to NaN with instructions of their own.
        let zero = self.number(ty, 0.0);
        let above = self.compare(CompareOp::Gt, ty, value, low);
        let value = match range.0 {
            0 => self.select(above, value, zero),
            _ => self.select(self.is_nan(value), zero, self.select(above, value, low)),
        };
        self.select(self.compare(CompareOp::Lt, ty, value, high), value, high)
    }

    /// An f32 rounded half to even and kept inside of a range of less than 22 bits, in s32 lanes. Added to a float whose last bit
    /// is worth 1, the value is rounded by the sum itself, and stands in its lowest bits: for devices that round sums to nearest.
    pub(crate) fn round_into(&self, value: Value, range: (i32, i32)) -> Value {
        const ONES: f32 = 12_582_912.0;
        let value = self.clamp_into(Ty::F32, value, range);
        let sum = self.binary(BinaryOp::Add, Ty::F32, value, self.constant(Scalar::F32(ONES)));
        let bits = reinterpret_value(self.scope, sum, self.vector(Ty::S32));
        self.binary(BinaryOp::Sub, Ty::S32, bits, self.constant(Scalar::S32(ONES.to_bits() as i32)))
    }
}

/// The integer whose bits are all set.
fn all_ones(ty: Ty) -> Scalar {
    match ty {
        Ty::U32 => Scalar::U32(u32::MAX),
        Ty::U64 => Scalar::U64(u64::MAX),
        Ty::S64 => Scalar::S64(-1),
        _ => Scalar::S32(-1),
    }
}
