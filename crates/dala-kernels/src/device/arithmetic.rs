//! Device code for single operations, with the same meaning on every device.

use cubecl::ir::dialect::general::{BoolAndOp, BoolNotOp, BoolOrOp, SelectOp};
use cubecl::ir::dialect::math::IsNanOp;
use cubecl::ir::dialect::vector::{CompositeExtractOp, CompositeInsertOp};
use cubecl::ir::pliron::value::Value;
use cubecl::ir::{ConstantValue, ExpandValue, FloatKind, IntKind, UIntKind};
use cubecl::prelude::*;
use dala_spec::Scalar;
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Ty, UnaryOp};

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
            Ty::Bool => panic!("no {} on truth values", stringify!($method)),
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
    fn vector(&self, ty: Ty) -> cubecl::ir::pliron::r#type::TypeHandle {
        vector_type(self.scope, elem(ty), self.width)
    }

    pub(crate) fn constant(&self, value: Scalar) -> Value {
        let (constant, ty) = match value {
            Scalar::F32(v) => (ConstantValue::Float(v.into()), Ty::F32),
            Scalar::F64(v) => (ConstantValue::Float(v), Ty::F64),
            Scalar::S32(v) => (ConstantValue::Int(v.into()), Ty::S32),
            Scalar::S64(v) => (ConstantValue::Int(v), Ty::S64),
            Scalar::U32(v) => (ConstantValue::UInt(v.into()), Ty::U32),
            Scalar::U8(v) => (ConstantValue::Int(v.into()), Ty::S32),
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
        })
    }

    /// `a` to the power of `b`. Devices take the logarithm of `a`, so signs, zero and one are seen to here.
    fn power(&self, ty: Ty, a: Value, b: Value) -> Value {
        let (zero, one) = (self.number(ty, 0.0), self.number(ty, 1.0));
        let magnitude = self.unary(UnaryOp::Abs, ty, a);
        let power = self.read(float!(ty, __expand_native_powf(self.scope, magnitude.into(), b.into())));
        let equal = |x, y| self.compare(CompareOp::Eq, ty, x, y);
        let whole = |x| equal(self.unary(UnaryOp::Floor, ty, x), x);
        // Zero: 0 for positive exponents, infinity (one over zero) for negative ones.
        let infinite = self.binary(BinaryOp::Div, ty, one, magnitude);
        let of_zero = self.select(self.compare(CompareOp::Gt, ty, b, zero), zero, infinite);
        let power = self.select(equal(magnitude, zero), of_zero, power);
        let is_one = self.logic(LogicOp::Or, equal(b, zero), equal(magnitude, one));
        let power = self.select(is_one, one, power);
        // Below zero only whole exponents have a result, and odd ones keep the sign; the root of a negative value is NaN.
        let half = self.binary(BinaryOp::Mul, ty, b, self.number(ty, 0.5));
        let negated = self.unary(UnaryOp::Neg, ty, power);
        let signed = self.select(whole(half), power, negated);
        let below = self.select(whole(b), signed, self.unary(UnaryOp::Sqrt, ty, a));
        let negative = self.compare(CompareOp::Lt, ty, a, zero);
        self.select(negative, below, power)
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

    /// Division that cannot trap: `x / 0` is 0 and `MIN / -1` is `MIN`.
    fn divide_integers(&self, ty: Ty, a: Value, b: Value) -> Value {
        let (zero, one) = (self.number(ty, 0.0), self.number(ty, 1.0));
        let by_zero = self.compare(CompareOp::Eq, ty, b, zero);
        let mut divisor = self.select(by_zero, one, b);
        let divide =
            |divisor: Value| self.read(numeric!(ty, __expand_native_div(self.scope, a.into(), divisor.into())));
        let result = if ty == Ty::U32 {
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
            UnaryOp::Abs if ty == Ty::U32 => return a,
            UnaryOp::Abs => numeric!(ty, __expand_native_abs(scope, x)),
            UnaryOp::Floor => float!(ty, __expand_native_floor(scope, x)),
            UnaryOp::Ceil => float!(ty, __expand_native_ceil(scope, x)),
            UnaryOp::Round => float!(ty, __expand_native_round(scope, x)),
            UnaryOp::Sqrt => float!(ty, __expand_native_sqrt(scope, x)),
            UnaryOp::Exp => float!(ty, __expand_native_exp(scope, x)),
            UnaryOp::Log => float!(ty, __expand_native_ln(scope, x)),
            UnaryOp::Sin => float!(ty, __expand_native_sin(scope, x)),
            UnaryOp::Cos => float!(ty, __expand_native_cos(scope, x)),
            UnaryOp::Tanh => {
                // Drivers clamp the argument first, which loses NaN.
                let tanh = self.read(float!(ty, __expand_native_tanh(scope, x)));
                return self.select(self.is_nan(a), a, tanh);
            }
            UnaryOp::Erf => return self.erf(ty, a),
        })
    }

    /// The error function as a quotient of polynomials in x², good to a few units in the last place of f32.
    fn erf(&self, ty: Ty, x: Value) -> Value {
        const TOP: [f64; 7] = [
            -2.72614225801306e-10,
            2.77068142495902e-8,
            -2.10102402082508e-6,
            -5.69250639462346e-5,
            -7.34990630326855e-4,
            -2.95459980854025e-3,
            -1.60960333262415e-2,
        ];
        const BOTTOM: [f64; 5] = [
            -1.45660718464996e-5,
            -2.13374055278905e-4,
            -1.68282697438203e-3,
            -7.37332916720468e-3,
            -1.42647390514189e-2,
        ];
        let operate = |op, a, b| self.binary(op, ty, a, b);
        // Beyond 4 the result is 1 in f32. NaN is put back at the end: min and max drop it.
        let low = operate(BinaryOp::Max, x, self.number(ty, -4.0));
        let near = operate(BinaryOp::Min, low, self.number(ty, 4.0));
        let square = operate(BinaryOp::Mul, near, near);
        let polynomial = |coefficients: &[f64]| {
            coefficients.iter().skip(1).fold(self.number(ty, coefficients[0]), |sum, next| {
                operate(BinaryOp::Add, operate(BinaryOp::Mul, sum, square), self.number(ty, *next))
            })
        };
        let top = operate(BinaryOp::Mul, near, polynomial(&TOP));
        let result = operate(BinaryOp::Div, top, polynomial(&BOTTOM));
        self.select(self.is_nan(x), x, result)
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
        if matches!((from.ty, to), (Ty::S32, Ty::U32) | (Ty::U32, Ty::S32)) {
            return self.change_sign(from.value, to);
        }
        cast_value(self.scope, from.value, self.vector(to))
    }

    /// The same 32 bits as the other of `S32` and `U32`. The engine's cast would return the value itself, and from then
    /// on take it for the new type wherever it is used: so a value that nobody else has is cast, and then restored.
    pub(crate) fn change_sign(&self, value: Value, to: Ty) -> Value {
        let flip = |ty: Ty, value: Value| {
            let (scope, one) = (self.scope, self.number(ty, 1.0));
            self.read(match ty {
                Ty::U32 => u32::__expand_native_bitxor(scope, value.into(), one.into()),
                _ => i32::__expand_native_bitxor(scope, value.into(), one.into()),
            })
        };
        let from = if to == Ty::U32 { Ty::S32 } else { Ty::U32 };
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

    /// A value as a number from 0 to 255 in s32 lanes; a float loses its fraction.
    pub(crate) fn saturate_to_byte(&self, from: Lanes) -> Value {
        let (ty, value) = (from.ty, from.value);
        let full = self.number(ty, 255.0);
        if !ty.is_float() {
            let value = if ty == Ty::U32 { value } else { self.binary(BinaryOp::Max, ty, value, self.number(ty, 0.0)) };
            let value = self.binary(BinaryOp::Min, ty, value, full);
            return if ty == Ty::U32 {
                self.change_sign(value, Ty::S32)
            } else {
                self.cast(Lanes { value, ty }, Ty::S32)
            };
        }
        cast_value(self.scope, self.clamp_to_byte(ty, value), self.vector(Ty::S32))
    }

    /// A float kept between 0 and 255 while it still is one, so that its conversion is cheap; NaN becomes 0.
    fn clamp_to_byte(&self, ty: Ty, value: Value) -> Value {
        // Comparisons, which NaN fails: minimum and maximum would see to NaN with instructions of their own.
        let (zero, full) = (self.number(ty, 0.0), self.number(ty, 255.0));
        let value = self.select(self.compare(CompareOp::Gt, ty, value, zero), value, zero);
        self.select(self.compare(CompareOp::Lt, ty, value, full), value, full)
    }

    /// An f32 rounded half to even, as a number from 0 to 255 in s32 lanes. Added to a float whose last bit is worth 1, the
    /// value is rounded by the sum itself, and stands in its lowest bits: for devices that round sums to nearest.
    pub(crate) fn round_to_byte(&self, value: Value) -> Value {
        const ONES: f32 = 12_582_912.0;
        let value = self.clamp_to_byte(Ty::F32, value);
        let sum = self.binary(BinaryOp::Add, Ty::F32, value, self.constant(Scalar::F32(ONES)));
        let bits = reinterpret_value(self.scope, sum, self.vector(Ty::S32));
        self.binary(BinaryOp::Sub, Ty::S32, bits, self.constant(Scalar::S32(ONES.to_bits() as i32)))
    }
}
