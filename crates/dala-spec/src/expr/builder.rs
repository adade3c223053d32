//! Builds programs: equal steps become one, constants are folded, what nobody needs is dropped.

use std::collections::HashMap;

use super::program::{BinaryOp, CompareOp, InputSlot, LogicOp, Op, ParamSlot, ParamSource, Program, Reg, Ty, UnaryOp};
use super::scalar_ops::{self, widen};
use crate::{DType, Scalar};

#[derive(Default)]
pub(super) struct Builder {
    inputs: Vec<InputSlot>,
    params: Vec<ParamSlot>,
    outputs: Vec<DType>,
    /// The output's channels, where the program runs over pixels.
    pixel: Option<usize>,
    ops: Vec<Op>,
    types: Vec<Ty>,
    /// Truth values known while building; they have no constant of their own.
    known: HashMap<Reg, bool>,
    seen: HashMap<Op, Reg>,
}

impl Builder {
    pub(super) fn new(inputs: Vec<InputSlot>) -> Builder {
        Builder { inputs, ..Builder::default() }
    }

    /// A program over pixels of so many elements; the inputs say how many theirs have.
    pub(super) fn over(inputs: Vec<InputSlot>, pixel: Option<usize>) -> Builder {
        Builder { inputs, pixel, ..Builder::default() }
    }

    /// A program whose every step became another of the same type, without what nobody needs any more.
    pub(super) fn rewritten(program: &Program, step: impl Fn(Op) -> Op) -> Program {
        let builder = Builder {
            params: program.params().to_vec(),
            outputs: program.outputs().to_vec(),
            ops: program.ops().iter().copied().map(step).collect(),
            types: program.types().to_vec(),
            ..Builder::over(program.inputs().to_vec(), program.pixel())
        };
        builder.drop_unused()
    }

    pub(super) fn ty(&self, reg: Reg) -> Ty {
        self.types[reg]
    }

    /// The register of `op`: a new one, or that of an equal step.
    fn emit(&mut self, op: Op, ty: Ty) -> Reg {
        if let Some(reg) = self.seen.get(&op) {
            return *reg;
        }
        self.ops.push(op);
        self.types.push(ty);
        self.seen.insert(op, self.ops.len() - 1);
        self.ops.len() - 1
    }

    fn constant_of(&self, reg: Reg) -> Option<Scalar> {
        match self.ops[reg] {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn input(&mut self, slot: usize) -> Reg {
        let ty = Ty::of(self.inputs[slot].dtype);
        self.emit(Op::Input { slot }, ty)
    }

    pub(super) fn channel(&mut self, slot: usize, channel: usize, of: usize) -> Reg {
        if of == 1 || self.inputs[slot].broadcast {
            return self.input(slot);
        }
        let ty = Ty::of(self.inputs[slot].dtype);
        self.emit(Op::Channel { slot, channel, of }, ty)
    }

    pub(super) fn gather(&mut self, slot: usize, index: Reg) -> Reg {
        if self.inputs[slot].broadcast {
            return self.input(slot);
        }
        let ty = Ty::of(self.inputs[slot].dtype);
        self.emit(Op::Gather { slot, index }, ty)
    }

    /// Makes the program run over pixels of `channels` elements, with inputs of so many channels each, if it looks at
    /// channels at all.
    pub(super) fn over_pixels(&mut self, channels: usize, last_axis: Option<usize>, inputs: &[usize]) {
        let looks =
            |op: &Op| matches!(op, Op::Channel { .. }) || matches!(op, Op::Coord(axis) if Some(*axis) == last_axis);
        if !self.ops.iter().any(looks) {
            return;
        }
        self.pixel = Some(channels);
        for (slot, channels) in self.inputs.iter_mut().zip(inputs) {
            slot.channels = *channels;
        }
    }

    pub(super) fn fixed(&mut self, value: Scalar) -> Reg {
        let ty = Ty::of(value.dtype());
        let slot = self.param_slot(ParamSlot { ty, source: ParamSource::Fixed(value) });
        self.emit(Op::Param(slot), ty)
    }

    pub(super) fn constant(&mut self, value: Scalar) -> Reg {
        self.emit(Op::Const(value), Ty::of(value.dtype()))
    }

    pub(super) fn truth(&mut self, value: bool) -> Reg {
        let zero = self.constant(Scalar::S32(0));
        let op = if value { CompareOp::Eq } else { CompareOp::Ne };
        let reg = self.emit(Op::Compare(op, zero, zero), Ty::Bool);
        self.known.insert(reg, value);
        reg
    }

    pub(super) fn param(&mut self, name: &str, ty: Ty) -> Reg {
        let source = ParamSource::Param { stage: 0, name: name.to_owned() };
        let slot = self.param_slot(ParamSlot { ty, source });
        self.emit(Op::Param(slot), ty)
    }

    /// One more run-time value, though it may be equal to another: what is equal now may differ the next time.
    pub(super) fn new_param(&mut self, slot: ParamSlot) -> Reg {
        let ty = slot.ty;
        self.params.push(slot);
        self.emit(Op::Param(self.params.len() - 1), ty)
    }

    fn param_slot(&mut self, slot: ParamSlot) -> usize {
        self.params.iter().position(|own| *own == slot).unwrap_or_else(|| {
            self.params.push(slot);
            self.params.len() - 1
        })
    }

    /// `Index`, `Coord` or `Dim`.
    pub(super) fn position(&mut self, op: Op) -> Reg {
        self.emit(op, Ty::S32)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: Reg) -> Reg {
        let ty = self.ty(a);
        if !ty.is_float() && op.rounds() {
            return a;
        }
        if op.is_question() {
            return match self.constant_of(a) {
                Some(value) => self.truth(scalar_ops::answers(op, value)),
                None if !ty.is_float() => self.truth(false),
                None => self.emit(Op::Unary(op, a), Ty::Bool),
            };
        }
        if !op.is_approximate()
            && let Some(value) = self.constant_of(a)
        {
            return self.constant(scalar_ops::apply_unary(op, value));
        }
        match (op, self.ops[a]) {
            (UnaryOp::Neg, Op::Unary(UnaryOp::Neg, inner)) => inner,
            (UnaryOp::BitNot, Op::Unary(UnaryOp::BitNot, inner)) => inner,
            (UnaryOp::Abs, Op::Unary(UnaryOp::Abs, _)) => a,
            _ => self.emit(Op::Unary(op, a), ty),
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: Reg, b: Reg) -> Reg {
        let ty = self.ty(a);
        if !op.is_approximate()
            && let (Some(x), Some(y)) = (self.constant_of(a), self.constant_of(b))
        {
            return self.constant(scalar_ops::apply_binary(op, x, y));
        }
        let is = |builder: &Self, reg: Reg, value: i64| {
            builder.constant_of(reg).is_some_and(|own| own == Scalar::from_i64(own.dtype(), value))
        };
        // Only what gives the same bits for every value: adding 0.0 would turn -0.0 into 0.0.
        match op {
            BinaryOp::Mul | BinaryOp::Div if is(self, b, 1) => return a,
            BinaryOp::Mul if is(self, a, 1) => return b,
            BinaryOp::Sub if is(self, b, 0) => return a,
            BinaryOp::Add if !ty.is_float() && is(self, b, 0) => return a,
            BinaryOp::Add if !ty.is_float() && is(self, a, 0) => return b,
            BinaryOp::Min | BinaryOp::Max | BinaryOp::BitAnd | BinaryOp::BitOr if a == b => return a,
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitOr | BinaryOp::BitXor if is(self, b, 0) => return a,
            _ => {}
        }
        let (a, b) = if op.commutes() && b < a { (b, a) } else { (a, b) };
        self.emit(Op::Binary(op, a, b), ty)
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: Reg, b: Reg) -> Reg {
        if let (Some(x), Some(y)) = (self.constant_of(a), self.constant_of(b)) {
            return self.truth(scalar_ops::compare(op, x, y));
        }
        self.emit(Op::Compare(op, a, b), Ty::Bool)
    }

    pub(super) fn logic(&mut self, op: LogicOp, a: Reg, b: Reg) -> Reg {
        for (known, other) in [(a, b), (b, a)] {
            match (op, self.known.get(&known)) {
                (LogicOp::And, Some(true)) | (LogicOp::Or, Some(false)) => return other,
                (LogicOp::And, Some(false)) | (LogicOp::Or, Some(true)) => return known,
                _ => {}
            }
        }
        if a == b {
            return a;
        }
        self.emit(Op::Logic(op, a.min(b), a.max(b)), Ty::Bool)
    }

    pub(super) fn not(&mut self, a: Reg) -> Reg {
        if let Some(value) = self.known.get(&a) {
            return self.truth(!value);
        }
        match self.ops[a] {
            Op::Not(inner) => inner,
            _ => self.emit(Op::Not(a), Ty::Bool),
        }
    }

    pub(super) fn select(&mut self, condition: Reg, a: Reg, b: Reg) -> Reg {
        match self.known.get(&condition) {
            Some(true) => a,
            Some(false) => b,
            None if a == b => a,
            None => self.emit(Op::Select(condition, a, b), self.ty(a)),
        }
    }

    pub(super) fn cast(&mut self, a: Reg, dtype: DType) -> Reg {
        let from = self.ty(a);
        if from == Ty::Bool {
            let (one, zero) = (self.constant(one_of(dtype, 1)), self.constant(one_of(dtype, 0)));
            return self.select(a, one, zero);
        }
        if let Some(value) = self.constant_of(a) {
            return self.constant(widen(scalar_ops::cast(value, dtype)));
        }
        if Some(dtype) == from.dtype() || self.was_stored(a, dtype) {
            return a;
        }
        self.emit(Op::Cast(a, dtype), Ty::of(dtype))
    }

    /// Whether a value is one that `dtype` holds already: rounding or saturating again changes nothing.
    fn was_stored(&self, a: Reg, dtype: DType) -> bool {
        match self.ops[a] {
            Op::Cast(_, own) | Op::Stored(_, own) => own == dtype,
            Op::Input { slot } | Op::Channel { slot, .. } | Op::Gather { slot, .. } => self.inputs[slot].dtype == dtype,
            _ => false,
        }
    }

    /// What storing a value as `dtype` and loading it again makes of it.
    pub(super) fn stored(&mut self, a: Reg, dtype: DType) -> Reg {
        if !self.ty(a).is_float() || dtype.is_float() {
            return self.cast(a, dtype);
        }
        match self.constant_of(a) {
            Some(value) => self.constant(widen(scalar_ops::store(value, dtype))),
            None => self.emit(Op::Stored(a, dtype), Ty::of(dtype)),
        }
    }

    pub(super) fn store(&mut self, value: Reg, dtype: DType) {
        let slot = self.outputs.len();
        self.outputs.push(dtype);
        let ty = self.ty(value);
        self.emit(Op::Store { slot, value }, ty);
    }

    pub(super) fn finish(mut self) -> Program {
        self.hide_dangerous_constants();
        self.drop_unused()
    }

    /// Zero divisors and non-finite constants become run-time values: drivers drop stores that depend on the first,
    /// and refuse to compile the second.
    fn hide_dangerous_constants(&mut self) {
        let divisors: Vec<Reg> = self
            .ops
            .iter()
            .filter_map(|op| if let Op::Binary(BinaryOp::Div | BinaryOp::Rem, _, b) = op { Some(*b) } else { None })
            .collect();
        for reg in 0..self.ops.len() {
            if let Op::Const(value @ (Scalar::F32(_) | Scalar::F64(_))) = self.ops[reg] {
                let float = value.as_f64();
                if !float.is_finite() || (float == 0.0 && divisors.contains(&reg)) {
                    let source = ParamSource::Fixed(value);
                    self.ops[reg] = Op::Param(self.param_slot(ParamSlot { ty: self.types[reg], source }));
                }
            }
        }
    }

    /// Keeps the steps a store depends on, renumbered. Inputs stay: they are bound whether or not they are read.
    fn drop_unused(self) -> Program {
        let mut needed = vec![false; self.ops.len()];
        for reg in (0..self.ops.len()).rev() {
            if needed[reg] || matches!(self.ops[reg], Op::Store { .. }) {
                needed[reg] = true;
                self.ops[reg].operands().for_each(|operand| needed[operand] = true);
            }
        }
        let mut numbers = vec![0; self.ops.len()];
        let mut slots: Vec<Option<usize>> = vec![None; self.params.len()];
        let (mut ops, mut types, mut params) = (Vec::new(), Vec::new(), Vec::new());
        for (reg, op) in self.ops.iter().enumerate().filter(|(reg, _)| needed[*reg]) {
            let op = match *op {
                Op::Param(slot) => Op::Param(*slots[slot].get_or_insert_with(|| {
                    params.push(self.params[slot].clone());
                    params.len() - 1
                })),
                other => other.renumbered(|operand| numbers[operand]),
            };
            numbers[reg] = ops.len();
            ops.push(op);
            types.push(self.types[reg]);
        }
        Program::new(self.inputs, self.outputs, params, self.pixel, ops, types)
    }
}

fn one_of(dtype: DType, value: i64) -> Scalar {
    widen(Scalar::from_i64(dtype, value))
}
