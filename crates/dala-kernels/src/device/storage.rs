//! How elements of 8 and 16 bits lie in memory, and what registers make of them.
//!
//! Registers hold `s32` or `f32` for them. In memory they are native, several in one 32-bit word where a device has no such types,
//! or their bits alone, converted here: so every device rounds them in the same way.

use cubecl::ir::UIntKind;
use cubecl::ir::pliron::value::Value;
use cubecl::ir::{FloatKind, IntKind};
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, CompareOp, Ty};
use dala_spec::{DType, Scalar};

use super::args::vector_type;
use super::arithmetic::{Generator, elem};
use super::emit::Layout;

impl Layout {
    /// How many elements of a type share a word, where the kernel takes words apart; 1 elsewhere.
    pub(crate) fn per_word(self, dtype: DType) -> usize {
        if self.packed { dala_plan::per_word(dtype) } else { 1 }
    }

    /// The engine's type of one element, or of one word.
    pub(crate) fn memory_elem(self, dtype: DType) -> ElemType {
        if self.packed && dtype.size() < 4 {
            return UIntKind::U32.into();
        }
        match dtype {
            DType::U8 => UIntKind::U8.into(),
            DType::S8 => IntKind::I8.into(),
            DType::U16 => UIntKind::U16.into(),
            DType::S16 => IntKind::I16.into(),
            DType::F16 if self.converts_f16 => FloatKind::F16.into(),
            DType::F16 | DType::BF16 => UIntKind::U16.into(),
            other => elem(Ty::of(other)),
        }
    }

    /// Whether memory holds the bits of a float, which no instruction converts.
    fn holds_bits(self, dtype: DType) -> bool {
        match dtype {
            DType::F16 => self.packed || !self.converts_f16,
            DType::BF16 => true,
            _ => false,
        }
    }
}

impl Generator<'_> {
    /// What was loaded from memory, as lanes of the register type.
    pub(super) fn loaded(&self, loaded: Value, dtype: DType, layout: Layout) -> Value {
        if dtype.size() >= 4 {
            return loaded;
        }
        if layout.packed {
            return self.unpack(loaded, dtype);
        }
        if layout.holds_bits(dtype) {
            let bits = cast_value(self.scope, loaded, self.vector(Ty::U32));
            return self.float_of_bits(bits, dtype);
        }
        cast_value(self.scope, loaded, self.vector(Ty::of(dtype)))
    }

    /// Lanes of the register type, saturated already, as memory holds them.
    pub(super) fn stored(&self, value: Value, dtype: DType, layout: Layout) -> Value {
        if dtype.size() >= 4 {
            return value;
        }
        if layout.packed {
            return self.pack(value, dtype);
        }
        let memory = vector_type(self.scope, layout.memory_elem(dtype), self.width);
        let value = if layout.holds_bits(dtype) { self.bits_of_float(value, dtype) } else { value };
        cast_value(self.scope, value, memory)
    }

    /// A float as it is after it was stored as `dtype`.
    pub(super) fn rounded(&self, value: Value, dtype: DType, layout: Layout) -> Value {
        if layout.holds_bits(dtype) {
            return self.float_of_bits(self.bits_of_float(value, dtype), dtype);
        }
        let memory = vector_type(self.scope, layout.memory_elem(dtype), self.width);
        cast_value(self.scope, cast_value(self.scope, value, memory), self.vector(Ty::F32))
    }

    /// The lowest bits of words, as lanes of the register type; others may be set too.
    fn part(&self, word: Value, dtype: DType) -> Value {
        let bits = 8 * dtype.size() as u32;
        if dtype.is_signed() {
            // Up to the sign, and back with it.
            let amount = self.constant(Scalar::S32(32 - bits as i32));
            let up = self.binary(BinaryOp::Shl, Ty::S32, self.change_sign(word, Ty::S32), amount);
            return self.binary(BinaryOp::Shr, Ty::S32, up, amount);
        }
        let mask = self.constant(Scalar::U32((1 << bits) - 1));
        let low = self.binary(BinaryOp::BitAnd, Ty::U32, word, mask);
        if dtype.is_float() { self.float_of_bits(low, dtype) } else { self.change_sign(low, Ty::S32) }
    }

    /// Lanes of the register type as bits of words: the lowest ones, and no others.
    fn bits_of(&self, value: Value, dtype: DType) -> Value {
        if dtype.is_float() {
            return self.bits_of_float(value, dtype);
        }
        let word = self.change_sign(value, Ty::U32);
        if !dtype.is_signed() {
            return word;
        }
        let mask = self.constant(Scalar::U32((1 << (8 * dtype.size())) - 1));
        self.binary(BinaryOp::BitAnd, Ty::U32, word, mask)
    }

    /// Where each lane begins in its word.
    fn word_shifts(&self, dtype: DType) -> Value {
        let (one, per_word) = (Generator { scope: self.scope, width: 1 }, dala_plan::per_word(dtype));
        let shift = |part: usize| one.constant(Scalar::U32((8 * dtype.size() * part) as u32));
        let shifts: Vec<Value> = (0..per_word).map(shift).collect();
        let lanes: Vec<Value> = (0..self.width).map(|lane| shifts[lane % per_word]).collect();
        self.construct(&lanes)
    }

    /// Words to as many lanes as they hold elements.
    pub(super) fn unpack(&self, words: Value, dtype: DType) -> Value {
        let per_word = dala_plan::per_word(dtype);
        let count = self.width / per_word;
        let each: Vec<Value> = (0..count).map(|word| self.extract(words, word, count)).collect();
        let lanes: Vec<Value> = (0..self.width).map(|lane| each[lane / per_word]).collect();
        let spread = self.construct(&lanes);
        self.part(self.binary(BinaryOp::Shr, Ty::U32, spread, self.word_shifts(dtype)), dtype)
    }

    /// Lanes to as many words as they fill.
    pub(super) fn pack(&self, value: Value, dtype: DType) -> Value {
        let per_word = dala_plan::per_word(dtype);
        let one = Generator { scope: self.scope, width: 1 };
        let shifted = self.binary(BinaryOp::Shl, Ty::U32, self.bits_of(value, dtype), self.word_shifts(dtype));
        let word = |index: usize| {
            let mut parts: Vec<Value> =
                (0..per_word).map(|part| self.extract(shifted, per_word * index + part, self.width)).collect();
            while parts.len() > 1 {
                parts = parts.chunks(2).map(|pair| one.binary(BinaryOp::BitOr, Ty::U32, pair[0], pair[1])).collect();
            }
            parts[0]
        };
        let words: Vec<Value> = (0..self.width / per_word).map(word).collect();
        self.construct(&words)
    }

    /// One element of a word, in a single lane; `index` counts elements from the buffer's start.
    pub(super) fn part_of(&self, word: Value, index: Value, dtype: DType) -> Value {
        let one = Generator { scope: self.scope, width: 1 };
        let number = |value: usize| one.constant(Scalar::U32(value as u32));
        let part = one.binary(BinaryOp::BitAnd, Ty::U32, index, number(dala_plan::per_word(dtype) - 1));
        let shift = one.binary(BinaryOp::Mul, Ty::U32, part, number(8 * dtype.size()));
        one.part(one.binary(BinaryOp::Shr, Ty::U32, word, shift), dtype)
    }

    /// One byte of each word, as numbers in s32 lanes.
    pub(super) fn byte_lane(&self, words: Value, byte: usize) -> Value {
        let shift = self.constant(Scalar::U32(8 * byte as u32));
        let shifted = if byte == 0 { words } else { self.binary(BinaryOp::Shr, Ty::U32, words, shift) };
        self.part(shifted, DType::U8)
    }

    /// Words of four numbers from 0 to 255 each, the first one lowest.
    pub(super) fn words_of(&self, bytes: &[Value]) -> Value {
        let shifted = bytes.iter().enumerate().map(|(byte, value)| {
            let unsigned = self.change_sign(*value, Ty::U32);
            let shift = self.constant(Scalar::U32(8 * byte as u32));
            if byte == 0 { unsigned } else { self.binary(BinaryOp::Shl, Ty::U32, unsigned, shift) }
        });
        let joined = shifted.reduce(|a, b| self.binary(BinaryOp::BitOr, Ty::U32, a, b));
        joined.unwrap_or_else(|| self.constant(Scalar::U32(0)))
    }

    fn reinterpret(&self, value: Value, ty: Ty) -> Value {
        reinterpret_value(self.scope, value, self.vector(ty))
    }

    /// The value of the bits of a 16-bit float, the lowest of words.
    fn float_of_bits(&self, bits: Value, dtype: DType) -> Value {
        let operate = |op, a, b| self.binary(op, Ty::U32, a, b);
        let number = |value: u32| self.constant(Scalar::U32(value));
        if dtype == DType::BF16 {
            return self.reinterpret(operate(BinaryOp::Shl, bits, number(16)), Ty::F32);
        }
        let sign = operate(BinaryOp::Shl, operate(BinaryOp::BitAnd, bits, number(0x8000)), number(16));
        let magnitude = operate(BinaryOp::BitAnd, bits, number(0x7FFF));
        // The exponent's bias is 127 instead of 15; infinity and NaN have the largest exponent here too.
        let shifted = operate(BinaryOp::Shl, magnitude, number(13));
        let normal = operate(BinaryOp::Add, shifted, number(112 << 23));
        let special = operate(BinaryOp::Add, shifted, number(224 << 23));
        let is_special = self.compare(CompareOp::Ge, Ty::U32, magnitude, number(0x7C00));
        let normal = self.select(is_special, special, normal);
        // Below the smallest normal number they are whole multiples of 2^-24. Devices may flush f32 that small, not these.
        let whole = cast_value(self.scope, magnitude, self.vector(Ty::F32));
        let small = self.binary(BinaryOp::Mul, Ty::F32, whole, self.constant(Scalar::F32(f32::from_bits(103 << 23))));
        let is_small = self.compare(CompareOp::Lt, Ty::U32, magnitude, number(0x0400));
        let magnitude = self.select(is_small, self.reinterpret(small, Ty::U32), normal);
        self.reinterpret(operate(BinaryOp::BitOr, magnitude, sign), Ty::F32)
    }

    /// The bits of an f32 rounded half to even to a 16-bit float, the lowest of words.
    fn bits_of_float(&self, value: Value, dtype: DType) -> Value {
        let operate = |op, a, b| self.binary(op, Ty::U32, a, b);
        let number = |value: u32| self.constant(Scalar::U32(value));
        let bits = self.reinterpret(value, Ty::U32);
        let magnitude = operate(BinaryOp::BitAnd, bits, number(0x7FFF_FFFF));
        let is_nan = self.compare(CompareOp::Gt, Ty::U32, magnitude, number(0x7F80_0000));
        // The bits that go are rounded by a sum: half of the last one that stays, less one where that is even.
        let shortened = |from: Value, drop: u32| {
            let last = operate(BinaryOp::BitAnd, operate(BinaryOp::Shr, from, number(drop)), number(1));
            let half = operate(BinaryOp::Add, last, number((1 << (drop - 1)) - 1));
            operate(BinaryOp::Shr, operate(BinaryOp::Add, from, half), number(drop))
        };
        if dtype == DType::BF16 {
            let sign = operate(BinaryOp::Shr, operate(BinaryOp::BitAnd, bits, number(0x8000_0000)), number(16));
            let rounded = self.select(is_nan, number(0x7FC0), shortened(magnitude, 16));
            return operate(BinaryOp::BitOr, rounded, sign);
        }
        let sign = operate(BinaryOp::Shr, operate(BinaryOp::BitAnd, bits, number(0x8000_0000)), number(16));
        // From 2^-14 on with another bias, and infinite from 65,520 on.
        let normal = shortened(operate(BinaryOp::Sub, magnitude, number(112 << 23)), 13);
        let infinite = self.compare(CompareOp::Ge, Ty::U32, magnitude, number(0x477F_F000));
        let normal = self.select(infinite, number(0x7C00), normal);
        // Below, a sum with a half, whose last bit is worth 2^-24, is rounded where it has to be.
        let tiny =
            self.binary(BinaryOp::Add, Ty::F32, self.reinterpret(magnitude, Ty::F32), self.constant(Scalar::F32(0.5)));
        let small = operate(BinaryOp::Sub, self.reinterpret(tiny, Ty::U32), number(0.5_f32.to_bits()));
        let is_small = self.compare(CompareOp::Lt, Ty::U32, magnitude, number(113 << 23));
        let magnitude = self.select(is_small, small, normal);
        operate(BinaryOp::BitOr, self.select(is_nan, number(0x7E00), magnitude), sign)
    }
}
