//! Four 8-bit elements in one 32-bit word, for devices without an 8-bit type.

use cubecl::ir::pliron::value::Value;
use cubecl::prelude::*;
use dala_spec::Scalar;
use dala_spec::expr::Ty;

use super::arithmetic::Generator;

impl Generator<'_> {
    /// The shifts 0, 8, 16, 24 over the lanes.
    fn byte_shifts(&self) -> Value {
        let one = Generator { scope: self.scope, width: 1 };
        let shifts: Vec<Value> = (0..4).map(|byte| one.constant(Scalar::U32(8 * byte))).collect();
        let lanes: Vec<Value> = (0..self.width).map(|lane| shifts[lane % 4]).collect();
        self.construct(&lanes)
    }

    /// `width / 4` words to `width` numbers in s32 lanes.
    pub(super) fn unpack(&self, words: Value) -> Value {
        let count = self.width / 4;
        let each: Vec<Value> = (0..count).map(|word| self.extract(words, word, count)).collect();
        let lanes: Vec<Value> = (0..self.width).map(|lane| each[lane / 4]).collect();
        let spread = self.construct(&lanes);
        let shifted = u32::__expand_native_shr(self.scope, spread.into(), self.byte_shifts().into());
        let mask = self.constant(Scalar::U32(255));
        let bytes = u32::__expand_native_bitand(self.scope, shifted, mask.into()).read_value(self.scope);
        self.change_sign(bytes, Ty::S32)
    }

    /// One byte of each word, as numbers in s32 lanes.
    pub(super) fn byte_lane(&self, words: Value, byte: usize) -> Value {
        let (scope, shift) = (self.scope, self.constant(Scalar::U32(8 * byte as u32)));
        let shifted =
            if byte == 0 { words.into() } else { u32::__expand_native_shr(scope, words.into(), shift.into()) };
        let mask = self.constant(Scalar::U32(255));
        let bytes = u32::__expand_native_bitand(scope, shifted, mask.into()).read_value(scope);
        self.change_sign(bytes, Ty::S32)
    }

    /// Words of four numbers from 0 to 255 each, the first one lowest.
    pub(super) fn words_of(&self, bytes: &[Value]) -> Value {
        let scope = self.scope;
        let shifted = bytes.iter().enumerate().map(|(byte, value)| {
            let unsigned = self.change_sign(*value, Ty::U32);
            let shift = self.constant(Scalar::U32(8 * byte as u32));
            if byte == 0 {
                unsigned
            } else {
                u32::__expand_native_shl(scope, unsigned.into(), shift.into()).read_value(scope)
            }
        });
        let joined = shifted.reduce(|a, b| u32::__expand_native_bitor(scope, a.into(), b.into()).read_value(scope));
        joined.unwrap_or_else(|| self.constant(Scalar::U32(0)))
    }

    /// One byte of a word as a number in a single s32 lane; `index` counts bytes from the buffer's start.
    pub(super) fn byte_of(&self, word: Value, index: Value) -> Value {
        let one = Generator { scope: self.scope, width: 1 };
        let (scope, three, eight) = (self.scope, one.constant(Scalar::U32(3)), one.constant(Scalar::U32(8)));
        let byte = u32::__expand_native_bitand(scope, index.into(), three.into());
        let shift = u32::__expand_native_mul(scope, byte, eight.into());
        let shifted = u32::__expand_native_shr(scope, word.into(), shift);
        let mask = one.constant(Scalar::U32(255));
        let byte = u32::__expand_native_bitand(scope, shifted, mask.into()).read_value(scope);
        one.change_sign(byte, Ty::S32)
    }

    /// `width` numbers from 0 to 255 in s32 lanes to `width / 4` words.
    pub(super) fn pack(&self, bytes: Value) -> Value {
        let scope = self.scope;
        let unsigned = self.change_sign(bytes, Ty::U32);
        let shifted = u32::__expand_native_shl(scope, unsigned.into(), self.byte_shifts().into()).read_value(scope);
        let word = |index: usize| {
            let byte = |byte: usize| self.extract(shifted, 4 * index + byte, self.width).into();
            let low = u32::__expand_native_bitor(scope, byte(0), byte(1));
            let high = u32::__expand_native_bitor(scope, byte(2), byte(3));
            u32::__expand_native_bitor(scope, low, high).read_value(scope)
        };
        let words: Vec<Value> = (0..self.width / 4).map(word).collect();
        self.construct(&words)
    }
}
