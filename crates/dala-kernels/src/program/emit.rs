//! Turns a program into device code, op by op.

use cubecl::ir::dialect::memory::{IndexOp, StoreOp};
use cubecl::ir::pliron::value::Value;
use cubecl::ir::{self, UIntKind};
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, Op, Ty, UnaryOp};
use dala_spec::{DType, Program, Scalar};

use super::args::vector_type;
use super::arithmetic::{Generator, Lanes, elem};
use super::is_gathered;

/// How a program is laid out on a device: part of what makes a compiled kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Layout {
    /// Elements computed at a time.
    pub(super) width: usize,
    /// Whether 8-bit elements travel four to a word.
    pub(super) packed: bool,
    /// Whether float results are hidden from the driver's compiler, which would reorder sums and products.
    pub(super) shielded: bool,
}

impl Layout {
    /// The engine's element type and vector width under which a buffer of `dtype` is bound.
    pub(super) fn binding(self, dtype: DType, single: bool) -> (ElemType, usize) {
        match dtype {
            DType::U8 if self.packed => (UIntKind::U32.into(), if single { 1 } else { self.width / 4 }),
            DType::U8 => (UIntKind::U8.into(), if single { 1 } else { self.width }),
            other => (elem(Ty::of(other)), if single { 1 } else { self.width }),
        }
    }
}

/// What the code of a program refers to inside a kernel.
pub(super) struct Context<'a> {
    pub(super) inputs: &'a [Value],
    pub(super) outputs: &'a [Value],
    pub(super) params: &'a [Value],
    /// The output's dimensions, as u32.
    pub(super) dims: &'a [Value],
    /// The number of elements, as u32.
    pub(super) len: Value,
    /// Which vector of elements is computed.
    pub(super) position: Value,
}

/// Emits the code for one vector of elements.
pub(super) fn emit(scope: &Scope, program: &Program, layout: Layout, context: &Context) {
    let emitter = Emitter { generator: Generator { scope, width: layout.width }, program, layout, context };
    let mut registers: Vec<Lanes> = Vec::with_capacity(program.ops().len());
    for (register, (op, ty)) in program.ops().iter().zip(program.types()).enumerate() {
        let value = emitter.op(op, &registers);
        let value = if emitter.needs_shield(register) { emitter.shield(value, *ty) } else { value };
        registers.push(Lanes { value, ty: *ty });
    }
}

struct Emitter<'a> {
    generator: Generator<'a>,
    program: &'a Program,
    layout: Layout,
    context: &'a Context<'a>,
}

impl Emitter<'_> {
    fn op(&self, op: &Op, registers: &[Lanes]) -> Value {
        let make = &self.generator;
        match *op {
            Op::Input { slot } => self.input(slot),
            Op::Channel { slot, channel, of } => self.channel(slot, channel, of),
            Op::Const(value) => make.constant(value),
            Op::Param(slot) => make.broadcast(self.context.params[slot]),
            Op::Index => self.to_s32(self.indices()),
            Op::Coord(axis) => self.coordinate(axis),
            Op::Dim(axis) => self.to_s32(make.broadcast(self.context.dims[axis])),
            Op::Unary(op, a) => make.unary(op, registers[a].ty, registers[a].value),
            Op::Binary(op, a, b) => make.binary(op, registers[a].ty, registers[a].value, registers[b].value),
            Op::Compare(op, a, b) => make.compare(op, registers[a].ty, registers[a].value, registers[b].value),
            Op::Logic(op, a, b) => make.logic(op, registers[a].value, registers[b].value),
            Op::Not(a) => make.not(registers[a].value),
            Op::Select(c, a, b) => make.select(registers[c].value, registers[a].value, registers[b].value),
            Op::Cast(a, DType::U8) => make.saturate_to_byte(registers[a]),
            Op::Cast(a, dtype) => make.cast(registers[a], Ty::of(dtype)),
            Op::Store { slot, value } => {
                self.store(slot, registers[value]);
                registers[value].value
            }
        }
    }

    fn scope(&self) -> &Scope {
        self.generator.scope
    }

    fn load_at(&self, buffer: Value, position: Value) -> Value {
        let index = IndexOp::maybe_checked(self.scope().ctx_mut(), buffer, position, false);
        let pointer = self.scope().register_with_result(&index);
        ir::read_value(self.scope(), pointer)
    }

    /// This element of an input; `u8` data as s32.
    fn input(&self, slot: usize) -> Value {
        let (input, buffer) = (self.program.inputs()[slot], self.context.inputs[slot]);
        let make = &self.generator;
        if input.broadcast {
            let zero = Generator { scope: self.scope(), width: 1 }.constant(Scalar::U32(0));
            return make.broadcast(self.element(buffer, input.dtype, zero));
        }
        if is_gathered(self.program, slot, self.layout.width) {
            return self.gather(slot, |_, index| index);
        }
        let value = self.load_at(buffer, self.context.position);
        match input.dtype {
            DType::U8 if self.layout.packed => make.unpack(value),
            DType::U8 => cast_value(self.scope(), value, vector_type(self.scope(), elem(Ty::S32), self.layout.width)),
            _ => value,
        }
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
        match dtype {
            DType::U8 if self.layout.packed => {
                let two = Generator { scope, width: 1 }.constant(Scalar::U32(2));
                let word = u32::__expand_native_shr(scope, index.into(), two.into()).read_value(scope);
                let word = self.load_at(buffer, position(word));
                self.generator.byte_of(word, index)
            }
            DType::U8 => {
                let value = self.load_at(buffer, position(index));
                cast_value(scope, value, vector_type(scope, elem(Ty::S32), 1))
            }
            _ => self.load_at(buffer, position(index)),
        }
    }

    /// Elements of an input lane by lane, at the index that `place` makes of each lane's own. Indices are kept inside the
    /// buffer: lanes past the end compute on rubbish, but must not read beyond it.
    fn gather(&self, slot: usize, place: impl Fn(&Generator, Value) -> Value) -> Value {
        let (scope, width) = (self.scope(), self.layout.width);
        let one = Generator { scope, width: 1 };
        let last = one.binary(BinaryOp::Sub, Ty::U32, self.context.len, one.constant(Scalar::U32(1)));
        let indices = self.indices();
        let lanes: Vec<Value> = (0..width)
            .map(|lane| {
                let index = self.generator.extract(indices, lane, width);
                let index = one.binary(BinaryOp::Min, Ty::U32, place(&one, index), last);
                self.element(self.context.inputs[slot], self.program.inputs()[slot].dtype, index)
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

    /// The index of each lane's element, as u32.
    fn indices(&self) -> Value {
        let (scope, width) = (self.scope(), self.layout.width);
        let one = Generator { scope, width: 1 };
        let position = cast_value(scope, self.context.position, vector_type(scope, elem(Ty::U32), 1));
        let first = one.binary(BinaryOp::Mul, Ty::U32, position, one.constant(Scalar::U32(width as u32)));
        if width == 1 {
            return first;
        }
        let lanes: Vec<Value> = (0..width).map(|lane| one.constant(Scalar::U32(lane as u32))).collect();
        let lanes = self.generator.construct(&lanes);
        self.generator.binary(BinaryOp::Add, Ty::U32, self.generator.broadcast(first), lanes)
    }

    /// `index / (product of the inner dimensions) % dimension`. No dimension is zero where there are elements.
    fn coordinate(&self, axis: usize) -> Value {
        let (scope, make) = (self.scope(), &self.generator);
        let one = Generator { scope, width: 1 };
        let inner = self.context.dims[axis + 1..]
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

    fn store(&self, slot: usize, from: Lanes) {
        let (scope, make, dtype) = (self.scope(), &self.generator, self.program.outputs()[slot]);
        let from = match from.ty {
            Ty::Bool => Lanes { value: make.cast(from, Ty::S32), ty: Ty::S32 },
            _ if from.ty.is_float() && !dtype.is_float() => {
                Lanes { value: make.unary(UnaryOp::Round, from.ty, from.value), ty: from.ty }
            }
            _ => from,
        };
        let value = match dtype {
            DType::U8 => {
                let bytes = make.saturate_to_byte(from);
                if self.layout.packed {
                    make.pack(bytes)
                } else {
                    cast_value(scope, bytes, vector_type(scope, UIntKind::U8.into(), self.layout.width))
                }
            }
            other => make.cast(from, Ty::of(other)),
        };
        let index = IndexOp::maybe_checked(scope.ctx_mut(), self.context.outputs[slot], self.context.position, false);
        let pointer = scope.register_with_result(&index);
        scope.register(&StoreOp::new(scope.ctx_mut(), pointer, value));
    }
}
