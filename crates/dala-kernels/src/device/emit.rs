//! Turns a program into device code, op by op.

use std::cell::RefCell;
use std::collections::HashMap;

use cubecl::ir::dialect::general::ReinterpretCastOp;
use cubecl::ir::dialect::memory::{IndexOp, StoreOp};
use cubecl::ir::pliron::r#type::Typed;
use cubecl::ir::pliron::value::Value;
use cubecl::ir::types::{PointerType, VectorType};
use cubecl::ir::{self, UIntKind};
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, InputSlot, Op, Ty, UnaryOp};
use dala_spec::{DType, Program, Scalar};

use super::args::vector_type;
use super::arithmetic::{Generator, Lanes, elem};

/// How a program is laid out on a device: part of what makes a compiled kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Layout {
    /// Elements, or pixels, computed at a time.
    pub(crate) width: usize,
    /// Whether elements of 8 and 16 bits travel several to a word.
    pub(crate) packed: bool,
    /// Whether the device converts `f16` itself.
    pub(crate) converts_f16: bool,
    /// Whether float results are hidden from the driver's compiler, which would reorder sums and products.
    pub(crate) shielded: bool,
    /// Whether vectors begin at any element: buffers are bound element by element, and positions count elements or pixels. For
    /// devices whose memory is that of a CPU.
    pub(crate) free: bool,
}

/// How a buffer is bound: the engine's element type, and how many of them make a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    pub(crate) elem: ElemType,
    pub(crate) width: usize,
    /// How many vectors hold the elements of `Layout::width` pixels.
    pub(crate) vectors: usize,
}

impl Layout {
    /// How many elements a position counts.
    pub(crate) fn unit(self) -> usize {
        if self.free { 1 } else { self.width }
    }

    /// Where the vector at a position of a buffer is.
    pub(super) fn pointer(self, scope: &Scope, buffer: Value, position: Value) -> Value {
        vector_pointer(scope, buffer, position, if self.free { self.width } else { 1 })
    }

    /// How many positions so many elements have.
    pub(crate) fn positions(self, elements: usize) -> usize {
        elements / self.unit()
    }

    /// How a buffer is bound whose elements are read one by one.
    pub(crate) fn element_binding(self, dtype: DType) -> Binding {
        Binding { elem: self.memory_elem(dtype), width: 1, vectors: self.width }
    }

    /// How a buffer is bound whose pixels of `channels` elements are read in vectors.
    pub(crate) fn binding(self, dtype: DType, channels: usize) -> Binding {
        match dtype {
            DType::U8 if self.free && channels == 4 => {
                Binding { elem: UIntKind::U32.into(), width: 1, vectors: self.width }
            }
            _ if self.free => Binding { vectors: channels * self.width, ..self.element_binding(dtype) },
            // Four bytes are one word on every device: shifts take them apart, where others need shuffles.
            DType::U8 if channels == 4 => Binding { elem: UIntKind::U32.into(), width: self.width, vectors: 1 },
            _ if self.width < self.per_word(dtype) => self.element_binding(dtype),
            _ => {
                let width = self.width / self.per_word(dtype);
                Binding { width, vectors: channels, ..self.element_binding(dtype) }
            }
        }
    }

    /// How an input of a program is bound.
    pub(crate) fn input(self, program: &Program, slot: usize) -> Binding {
        let input = program.inputs()[slot];
        if input.broadcast || is_gathered(program, slot, self.width) {
            return self.element_binding(input.dtype);
        }
        self.binding(input.dtype, input.channels)
    }

    /// How an output of a program is bound.
    pub(crate) fn output(self, program: &Program, slot: usize) -> Binding {
        self.binding(program.outputs()[slot], program.pixel().unwrap_or(1))
    }
}

/// Where the vector of `width` elements is that begins at an element of a list, be it a vector itself where `width` is 1. Wider
/// ones are only for kernels that are compiled for memory that is aligned to elements.
pub(super) fn vector_pointer(scope: &Scope, list: Value, element: Value, width: usize) -> Value {
    let index = IndexOp::maybe_checked(scope.ctx_mut(), list, element, false);
    let first = scope.register_with_result(&index);
    if width == 1 {
        return first;
    }
    let ty = first.get_type(scope.ctx());
    let own = ty.deref(scope.ctx()).downcast_ref::<PointerType>().copied();
    let Some(PointerType { inner, address_space }) = own else {
        scope.push_error("a list of no elements");
        return first;
    };
    let vector = VectorType::get(scope.ctx(), inner, width).into();
    let pointer = PointerType::get(scope.ctx_mut(), vector, address_space).into();
    scope.register_with_result(&ReinterpretCastOp::new(scope.ctx_mut(), pointer, first))
}

/// Whether `slot` is read at other places than an element's own, in a way that vectors of `width` do not cover.
pub(super) fn is_gathered(program: &Program, slot: usize, width: usize) -> bool {
    program.ops().iter().any(|op| match op {
        Op::Gather { slot: own, .. } => *own == slot,
        Op::Channel { slot: own, of, .. } => *own == slot && program.pixel().is_none() && !width.is_multiple_of(*of),
        _ => false,
    })
}

/// Where a program finds one of its inputs inside a kernel.
#[derive(Clone, Copy)]
pub(crate) enum InputPlace {
    /// In a buffer, at this vector; pixels of several vectors are counted in pixels.
    Buffer { buffer: Value, position: Value },
    /// In registers: lanes of the input's type.
    Lanes(Value),
    /// In registers: the channels of pixels, each in lanes of the input's type.
    Pixels([Value; 4]),
}

/// What the code of a program refers to inside a kernel.
pub(crate) struct Context<'a> {
    pub(crate) inputs: &'a [InputPlace],
    pub(crate) params: &'a [Value],
    /// The output's dimensions, as u32.
    pub(crate) dims: &'a [Value],
    /// How many elements each input has, as u32, for those that are gathered from.
    pub(crate) lens: &'a [Value],
    /// The number of elements or pixels that are computed, as u32.
    pub(crate) len: Value,
    /// Which vector of elements or pixels is computed.
    pub(crate) position: Value,
}

/// Emits the code for one vector of elements or pixels, and stores its results in `outputs`.
pub(crate) fn emit(scope: &Scope, program: &Program, layout: Layout, context: &Context, outputs: &[Value]) {
    let emitter = Emitter::new(scope, program, layout, context);
    match program.pixel() {
        None => {
            let values = emitter.run(0);
            for (slot, value) in values.into_iter().enumerate() {
                emitter.write(slot, outputs[slot], value);
            }
        }
        Some(channels) => {
            let values: Vec<Vec<Value>> = (0..channels).map(|channel| emitter.run(channel)).collect();
            for (slot, output) in outputs.iter().enumerate() {
                let pixel: Vec<Value> = values.iter().map(|values| values[slot]).collect();
                emitter.write_pixels(slot, *output, &pixel);
            }
        }
    }
}

/// Emits the code of a program with one output, and gives its value in the register type of that output.
pub(crate) fn emit_value(scope: &Scope, program: &Program, layout: Layout, context: &Context) -> Value {
    Emitter::new(scope, program, layout, context).run(0)[0]
}

pub(super) struct Emitter<'a> {
    pub(super) generator: Generator<'a>,
    pub(super) program: &'a Program,
    pub(super) layout: Layout,
    pub(super) context: &'a Context<'a>,
    /// The channels of inputs that were loaded.
    pub(super) pixels: RefCell<HashMap<usize, Vec<Value>>>,
}

impl<'a> Emitter<'a> {
    fn new(scope: &'a Scope, program: &'a Program, layout: Layout, context: &'a Context<'a>) -> Emitter<'a> {
        let generator = Generator { scope, width: layout.width };
        Emitter { generator, program, layout, context, pixels: RefCell::default() }
    }

    /// Runs the program, for one channel of the output's pixels; gives the value of each output.
    fn run(&self, channel: usize) -> Vec<Value> {
        let program = self.program;
        let mut registers: Vec<Lanes> = Vec::with_capacity(program.ops().len());
        let mut results: Vec<Option<Value>> = vec![None; program.outputs().len()];
        for (register, (op, ty)) in program.ops().iter().zip(program.types()).enumerate() {
            let value = match *op {
                Op::Store { slot, value } => {
                    results[slot] = Some(self.convert(registers[value], program.outputs()[slot]));
                    registers[value].value
                }
                _ => self.op(op, &registers, channel),
            };
            let value = if self.needs_shield(register) { self.shield(value, *ty) } else { value };
            registers.push(Lanes { value, ty: *ty });
        }
        results.into_iter().flatten().collect()
    }

    fn op(&self, op: &Op, registers: &[Lanes], own_channel: usize) -> Value {
        let make = &self.generator;
        let over_pixels = self.program.pixel().is_some();
        match *op {
            Op::Input { slot } if over_pixels => self.pixel_channel(slot, own_channel),
            Op::Input { slot } => self.input(slot),
            Op::Channel { slot, channel, .. } if over_pixels => self.pixel_channel(slot, channel),
            Op::Channel { slot, channel, of } => self.channel(slot, channel, of),
            Op::Gather { slot, index } => self.gather_at(slot, registers[index].value),
            Op::Const(value) => make.constant(value),
            Op::Param(slot) => make.broadcast(self.context.params[slot]),
            Op::Index => {
                let of = self.program.pixel().unwrap_or(1);
                let scaled = self.generator.binary(
                    BinaryOp::Mul,
                    Ty::U32,
                    self.indices(),
                    make.constant(Scalar::U32(of as u32)),
                );
                let own = make.constant(Scalar::U32(own_channel as u32));
                self.to_s32(if of == 1 { self.indices() } else { make.binary(BinaryOp::Add, Ty::U32, scaled, own) })
            }
            // Inside of another kernel, where sizes are not known, programs ask for nothing else.
            Op::Coord(axis)
                if over_pixels
                    && axis >= 2
                    && (axis + 1 == self.context.dims.len() || self.context.dims.is_empty()) =>
            {
                make.constant(Scalar::S32(own_channel as i32))
            }
            Op::Coord(axis) => self.coordinate(axis),
            Op::Dim(axis) => self.to_s32(make.broadcast(self.context.dims[axis])),
            Op::Unary(op, a) => make.unary(op, registers[a].ty, registers[a].value),
            Op::Binary(op, a, b) => make.binary(op, registers[a].ty, registers[a].value, registers[b].value),
            Op::Compare(op, a, b) => make.compare(op, registers[a].ty, registers[a].value, registers[b].value),
            Op::Logic(op, a, b) => make.logic(op, registers[a].value, registers[b].value),
            Op::Not(a) => make.not(registers[a].value),
            Op::Select(c, a, b) => make.select(registers[c].value, registers[a].value, registers[b].value),
            Op::Cast(a, dtype) if dtype.narrow_range().is_some() => make.saturate(registers[a], dtype),
            Op::Cast(a, dtype @ (DType::F16 | DType::BF16)) => {
                make.rounded(make.cast(registers[a], Ty::F32), dtype, self.layout)
            }
            Op::Cast(a, dtype) => make.cast(registers[a], Ty::of(dtype)),
            Op::Stored(a, dtype) => self.convert(registers[a], dtype),
            Op::Store { value, .. } => registers[value].value,
        }
    }

    pub(super) fn scope(&self) -> &Scope {
        self.generator.scope
    }

    pub(super) fn one(&self) -> Generator<'_> {
        Generator { scope: self.scope(), width: 1 }
    }

    fn load_at(&self, buffer: Value, position: Value) -> Value {
        ir::read_value(self.scope(), vector_pointer(self.scope(), buffer, position, 1))
    }

    /// The vector of elements or words at a position.
    pub(super) fn load_vector(&self, buffer: Value, position: Value) -> Value {
        ir::read_value(self.scope(), self.layout.pointer(self.scope(), buffer, position))
    }

    /// The only element of an input, in all lanes.
    pub(super) fn single(&self, input: InputSlot, buffer: Value) -> Value {
        let zero = self.one().constant(Scalar::U32(0));
        self.generator.broadcast(self.element(buffer, input.dtype, zero))
    }

    /// This element of an input, as lanes of its register type.
    fn input(&self, slot: usize) -> Value {
        let input = self.program.inputs()[slot];
        let (buffer, position) = match self.context.inputs[slot] {
            InputPlace::Lanes(value) | InputPlace::Pixels([value, ..]) => return value,
            InputPlace::Buffer { buffer, position } => (buffer, position),
        };
        if input.broadcast {
            return self.single(input, buffer);
        }
        if is_gathered(self.program, slot, self.layout.width) {
            return self.gather(slot, |_, index| index);
        }
        if self.layout.width < self.layout.per_word(input.dtype) {
            // Not even a word: one element of it.
            if self.layout.width > 1 {
                self.scope().push_error("parts of a word are loaded one by one");
            }
            return self.element(buffer, input.dtype, self.as_u32(position));
        }
        self.unpacked(self.load_vector(buffer, position), input.dtype)
    }

    /// What was loaded, as lanes of its register type.
    pub(super) fn unpacked(&self, loaded: Value, dtype: DType) -> Value {
        self.generator.loaded(loaded, dtype, self.layout)
    }

    pub(super) fn as_u32(&self, position: Value) -> Value {
        cast_value(self.scope(), position, vector_type(self.scope(), elem(Ty::U32), 1))
    }

    pub(super) fn as_position(&self, index: Value) -> Value {
        cast_value(self.scope(), index, ElemType::Index.to_type(self.scope().ctx()))
    }

    /// Whether a rounded result could be merged with the operation that uses it: a sum with a sum, a product with a
    /// comparison, a conversion to f32 with one to f64. What is only stored is safe.
    fn needs_shield(&self, register: usize) -> bool {
        let ops = self.program.ops();
        let has_f64 = self.program.types().contains(&Ty::F64) || self.program.outputs().contains(&DType::F64);
        let is_used = || ops.iter().any(|op| !matches!(op, Op::Store { .. }) && op.operands().any(|a| a == register));
        self.layout.shielded
            && self.program.types()[register].is_float()
            && match ops[register] {
                Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, ..) => is_used(),
                // Any way to f64, be it the store, may skip this rounding.
                Op::Cast(_, DType::F32) => has_f64,
                _ => false,
            }
    }

    /// The same value, through bits that no compiler can see through: there is at least one element, but only at run
    /// time is that known.
    fn shield(&self, value: Value, ty: Ty) -> Value {
        let (scope, width) = (self.scope(), self.layout.width);
        let one = Generator { scope, width: 1 };
        let at_least_one = one.binary(BinaryOp::Min, Ty::U32, self.context.len, one.constant(Scalar::U32(1)));
        let nothing = one.binary(BinaryOp::Sub, Ty::U32, one.constant(Scalar::U32(1)), at_least_one);
        let float = vector_type(scope, elem(ty), width);
        if ty == Ty::F64 {
            let bits = reinterpret_value(scope, value, vector_type(scope, elem(Ty::S64), width));
            let nothing = cast_value(scope, nothing, vector_type(scope, elem(Ty::S64), 1));
            let bits = i64::__expand_native_bitxor(scope, bits.into(), self.generator.broadcast(nothing).into());
            return reinterpret_value(scope, bits.read_value(scope), float);
        }
        let bits = reinterpret_value(scope, value, vector_type(scope, elem(Ty::U32), width));
        let bits = u32::__expand_native_bitxor(scope, bits.into(), self.generator.broadcast(nothing).into());
        reinterpret_value(scope, bits.read_value(scope), float)
    }

    /// One element of a buffer bound element by element; `index` is a single u32.
    fn element(&self, buffer: Value, dtype: DType, index: Value) -> Value {
        let scope = self.scope();
        let position = |index: Value| cast_value(scope, index, ElemType::Index.to_type(scope.ctx()));
        let (one, per_word) = (self.one(), self.layout.per_word(dtype));
        if per_word == 1 {
            return one.loaded(self.load_at(buffer, position(index)), dtype, self.layout);
        }
        let shift = one.constant(Scalar::U32(per_word.trailing_zeros()));
        let word = self.load_at(buffer, position(one.binary(BinaryOp::Shr, Ty::U32, index, shift)));
        one.part_of(word, index, dtype)
    }

    /// Elements of an input lane by lane, at the index that `place` makes of each lane's own. Indices are kept inside the
    /// buffer: lanes past the end compute on rubbish, but must not read beyond it.
    pub(super) fn gather(&self, slot: usize, place: impl Fn(&Generator, Value) -> Value) -> Value {
        let one = self.one();
        self.gather_lanes(slot, self.indices(), |index| place(&one, index))
    }

    /// Elements of an input at indices of type s32.
    fn gather_at(&self, slot: usize, indices: Value) -> Value {
        let zero = self.generator.constant(Scalar::S32(0));
        let inside = self.generator.binary(BinaryOp::Max, Ty::S32, indices, zero);
        self.gather_lanes(slot, self.generator.change_sign(inside, Ty::U32), |index| index)
    }

    fn gather_lanes(&self, slot: usize, indices: Value, place: impl Fn(Value) -> Value) -> Value {
        let (one, width) = (self.one(), self.layout.width);
        let buffer = match self.context.inputs[slot] {
            InputPlace::Buffer { buffer, .. } => buffer,
            // Values in registers have no other place.
            InputPlace::Lanes(value) | InputPlace::Pixels([value, ..]) => return value,
        };
        let last = one.binary(BinaryOp::Sub, Ty::U32, self.context.lens[slot], one.constant(Scalar::U32(1)));
        let lanes: Vec<Value> = (0..width)
            .map(|lane| {
                let index = self.generator.extract(indices, lane, width);
                let index = one.binary(BinaryOp::Min, Ty::U32, place(index), last);
                self.element(buffer, self.program.inputs()[slot].dtype, index)
            })
            .collect();
        if width == 1 { lanes[0] } else { self.generator.construct(&lanes) }
    }

    fn channel(&self, slot: usize, channel: usize, of: usize) -> Value {
        let (make, width) = (&self.generator, self.layout.width);
        if !is_gathered(self.program, slot, width) {
            // Whole pixels lie in one vector: repeat the channel over the lanes of its pixel.
            let value = self.input(slot);
            let pixels: Vec<Value> =
                (0..width / of).map(|pixel| make.extract(value, pixel * of + channel, width)).collect();
            let lanes: Vec<Value> = (0..width).map(|lane| pixels[lane / of]).collect();
            return make.construct(&lanes);
        }
        self.gather(slot, |one, index| {
            let of = one.constant(Scalar::U32(of as u32));
            let scope = one.scope;
            let pixel = u32::__expand_native_div(scope, index.into(), of.into());
            let base = u32::__expand_native_mul(scope, pixel, of.into()).read_value(scope);
            one.binary(BinaryOp::Add, Ty::U32, base, one.constant(Scalar::U32(channel as u32)))
        })
    }

    /// The index of each lane's element or pixel, as u32.
    fn indices(&self) -> Value {
        let (one, width) = (self.one(), self.layout.width);
        let position = self.as_u32(self.context.position);
        let first = match self.layout.free {
            true => position,
            false => one.binary(BinaryOp::Mul, Ty::U32, position, one.constant(Scalar::U32(width as u32))),
        };
        if width == 1 {
            return first;
        }
        let lanes: Vec<Value> = (0..width).map(|lane| one.constant(Scalar::U32(lane as u32))).collect();
        let lanes = self.generator.construct(&lanes);
        self.generator.binary(BinaryOp::Add, Ty::U32, self.generator.broadcast(first), lanes)
    }

    /// `index / (product of the inner dimensions) % dimension`. No dimension is zero where there are elements.
    fn coordinate(&self, axis: usize) -> Value {
        let (scope, make, one) = (self.scope(), &self.generator, self.one());
        // Pixels are counted as one: their channels are no axis then.
        let axes = match self.program.pixel() {
            Some(_) => self.context.dims.len().min(self.context.dims.len().saturating_sub(1).max(2)),
            None => self.context.dims.len(),
        };
        let inner = self.context.dims[axis + 1..axes]
            .iter()
            .fold(one.constant(Scalar::U32(1)), |product, dim| one.binary(BinaryOp::Mul, Ty::U32, product, *dim));
        let outer = u32::__expand_native_div(scope, self.indices().into(), make.broadcast(inner).into());
        let outer = outer.read_value(scope);
        if axis == 0 {
            return self.to_s32(outer);
        }
        let dim = make.broadcast(self.context.dims[axis]);
        let quotient = u32::__expand_native_div(scope, outer.into(), dim.into()).read_value(scope);
        let product = make.binary(BinaryOp::Mul, Ty::U32, quotient, dim);
        self.to_s32(make.binary(BinaryOp::Sub, Ty::U32, outer, product))
    }

    fn to_s32(&self, value: Value) -> Value {
        self.generator.cast(Lanes { value, ty: Ty::U32 }, Ty::S32)
    }

    /// A value as an output's register type: rounded and saturated where it is stored as an integer.
    fn convert(&self, from: Lanes, dtype: DType) -> Value {
        let make = &self.generator;
        // Graphics drivers may round sums as they like.
        if let (Some(range), Ty::F32, false) = (dtype.narrow_range(), from.ty, self.layout.shielded) {
            return make.round_into(from.value, range);
        }
        let from = match from.ty {
            Ty::Bool => Lanes { value: make.cast(from, Ty::S32), ty: Ty::S32 },
            _ if from.ty.is_float() && !dtype.is_float() => {
                Lanes { value: make.unary(UnaryOp::Round, from.ty, from.value), ty: from.ty }
            }
            _ => from,
        };
        match dtype.narrow_range() {
            Some(_) => make.saturate(from, dtype),
            None => make.cast(from, Ty::of(dtype)),
        }
    }

    /// Lanes of an output's register type, as they lie in memory.
    pub(super) fn packed(&self, value: Value, dtype: DType) -> Value {
        self.generator.stored(value, dtype, self.layout)
    }

    pub(super) fn store_at(&self, scope: &Scope, output: Value, position: Value, value: Value) {
        let pointer = self.layout.pointer(scope, output, position);
        scope.register(&StoreOp::new(scope.ctx_mut(), pointer, value));
    }

    pub(super) fn write(&self, slot: usize, output: Value, value: Value) {
        let value = self.packed(value, self.program.outputs()[slot]);
        self.store_at(self.scope(), output, self.context.position, value);
    }
}
