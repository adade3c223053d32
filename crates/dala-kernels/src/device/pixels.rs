//! Programs over whole pixels: their channels apart, side by side in lanes of pixels.

use cubecl::ir::pliron::value::Value;
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, CompareOp, InputSlot, Ty};
use dala_spec::{DType, Scalar};

use super::arithmetic::Generator;
use super::emit::{Emitter, InputPlace, is_gathered};

impl Emitter<'_> {
    /// One channel of the pixels of an input; one of a single channel counts for all.
    pub(super) fn pixel_channel(&self, slot: usize, channel: usize) -> Value {
        let input = self.program.inputs()[slot];
        let (buffer, position) = match self.context.inputs[slot] {
            InputPlace::Lanes(value) => return value,
            InputPlace::Pixels(channels) => return channels[channel.min(channels.len() - 1)],
            InputPlace::Buffer { buffer, position } => (buffer, position),
        };
        if input.broadcast {
            return self.single(input, buffer);
        }
        if is_gathered(self.program, slot, self.layout.width) {
            return self.gather(slot, |one, pixel| {
                let of = one.constant(Scalar::U32(input.channels as u32));
                let first = one.binary(BinaryOp::Mul, Ty::U32, pixel, of);
                let own = channel.min(input.channels - 1) as u32;
                one.binary(BinaryOp::Add, Ty::U32, first, one.constant(Scalar::U32(own)))
            });
        }
        let mut pixels = self.pixels.borrow_mut();
        let channels = pixels.entry(slot).or_insert_with(|| self.load_pixels(input, buffer, position));
        channels[channel.min(channels.len() - 1)]
    }

    /// Every channel of a vector of pixels.
    fn load_pixels(&self, input: InputSlot, buffer: Value, position: Value) -> Vec<Value> {
        let (make, channels) = (&self.generator, input.channels);
        if input.dtype == DType::U8 && channels == 4 {
            let words = self.load_vector(buffer, position);
            return (0..4).map(|channel| make.byte_lane(words, channel)).collect();
        }
        if channels == 1 {
            return vec![self.unpacked(self.load_vector(buffer, position), input.dtype)];
        }
        let vectors: Vec<Value> = (0..channels)
            .map(|part| {
                let position = self.part_position(position, channels, part, true);
                self.unpacked(self.load_vector(buffer, position), input.dtype)
            })
            .collect();
        make.apart(&vectors)
    }

    /// The position of one of the vectors that make up a vector of pixels. The last pixels may fill only some of them:
    /// kept inside, the rest is read again.
    fn part_position(&self, position: Value, parts: usize, part: usize, inside: bool) -> Value {
        let one = self.one();
        let first = one.binary(BinaryOp::Mul, Ty::U32, self.as_u32(position), one.constant(Scalar::U32(parts as u32)));
        let further = if self.layout.free { part * self.layout.width } else { part };
        let own = one.binary(BinaryOp::Add, Ty::U32, first, one.constant(Scalar::U32(further as u32)));
        if !inside || part == 0 || self.layout.free {
            return self.as_position(own);
        }
        let last = one.binary(BinaryOp::Sub, Ty::U32, self.parts_filled(parts), one.constant(Scalar::U32(1)));
        self.as_position(one.binary(BinaryOp::Min, Ty::U32, own, last))
    }

    /// How many vectors the elements of all pixels fill.
    fn parts_filled(&self, parts: usize) -> Value {
        let (one, width) = (self.one(), self.layout.width);
        let elements = one.binary(BinaryOp::Mul, Ty::U32, self.context.len, one.constant(Scalar::U32(parts as u32)));
        let rounded = one.binary(BinaryOp::Add, Ty::U32, elements, one.constant(Scalar::U32(width as u32 - 1)));
        let width = one.constant(Scalar::U32(width as u32));
        u32::__expand_native_div(self.scope(), rounded.into(), width.into()).read_value(self.scope())
    }

    /// Stores every channel of a vector of pixels.
    pub(super) fn write_pixels(&self, slot: usize, output: Value, pixel: &[Value]) {
        let (make, width, channels) = (&self.generator, self.layout.width, pixel.len());
        let (dtype, position) = (self.program.outputs()[slot], self.context.position);
        if dtype == DType::U8 && channels == 4 {
            return self.store_at(self.scope(), output, position, make.words_of(pixel));
        }
        if channels == 1 {
            return self.write(slot, output, pixel[0]);
        }
        for part in 0..channels {
            let element = |lane: usize| {
                let index = part * width + lane;
                make.extract(pixel[index % channels], index / channels, width)
            };
            let lanes: Vec<Value> = (0..width).map(element).collect();
            let value = self.packed(make.construct(&lanes), dtype);
            let own = self.part_position(position, channels, part, false);
            if part == 0 || self.layout.free {
                self.store_at(self.scope(), output, own, value);
                continue;
            }
            // Vectors that hold no pixel any more may lie outside the buffer.
            let filled = self.parts_filled(channels);
            let used = self.one().compare(CompareOp::Lt, Ty::U32, self.as_u32(own), filled);
            cubecl::frontend::branch::if_expand(self.scope(), used.into(), |scope| {
                self.store_at(scope, output, own, value);
            });
        }
    }
}

impl Generator<'_> {
    /// The channels of pixels that lie side by side in as many vectors.
    pub(super) fn apart(&self, vectors: &[Value]) -> Vec<Value> {
        let (width, channels) = (self.width, vectors.len());
        let element = |index: usize| self.extract(vectors[index / width], index % width, width);
        (0..channels)
            .map(|channel| {
                let lanes: Vec<Value> = (0..width).map(|pixel| element(pixel * channels + channel)).collect();
                self.construct(&lanes)
            })
            .collect()
    }
}
