//! Type-checks an expression for the element types of a call, and lowers it to a program.

use super::builder::Builder;
use super::program::{
    BinaryOp, CompareOp, InputSlot, LogicOp, Op, ParamSlot, ParamSource, Program, Reg, Takes, Ty, UnaryOp,
};
use super::{Expr, ExprError, Function, Infix, Location, Node, Overflow};
use crate::{DType, ParamKind, ParamValue, Scalar, Signature, SpecError};

impl Program {
    /// Type-checks `expr`, whose inputs are called `names` in order, for a call of these types.
    ///
    /// # Errors
    ///
    /// The first place where types do not fit.
    pub fn build(expr: &Expr, names: &[&str], signature: &Signature) -> Result<Program, ExprError> {
        let inputs = signature.inputs.iter().enumerate().map(|(index, input)| InputSlot {
            broadcast: signature.is_broadcast(index),
            ..InputSlot::elements(input.dtype)
        });
        let output = signature.output.dtype;
        let has_f64 = signature.inputs.iter().any(|input| input.dtype == DType::F64) || output == DType::F64;
        let mut checker = Checker {
            builder: Builder::new(inputs.collect()),
            names,
            signature,
            locals: Vec::new(),
            float: if has_f64 { Ty::F64 } else { Ty::F32 },
        };
        let value = checker.value(expr)?;
        let wanted = checker.meet_type(&value, Ty::of(output));
        let reg = checker.register(&value, wanted, expr)?;
        checker.builder.store(reg, output);
        let channels = channels(&signature.output.shape);
        if channels <= MAX_PIXEL {
            let last_axis = signature.output.shape.rank().checked_sub(1).filter(|axis| *axis >= 2);
            let inputs: Vec<usize> = signature.inputs.iter().map(|input| self::channels(&input.shape)).collect();
            checker.builder.over_pixels(channels, last_axis, &inputs);
        }
        Ok(checker.builder.finish())
    }

    /// The values of the program's run-time params for a call of `kernel`.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn param_values(&self, kernel: &str, signature: &Signature) -> Result<Vec<Scalar>, SpecError> {
        self.params().iter().map(|slot| slot.value(kernel, signature)).collect()
    }
}

impl ParamSlot {
    /// Its value in a call of `kernel`.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn value(&self, kernel: &str, signature: &Signature) -> Result<Scalar, SpecError> {
        let name = match &self.source {
            ParamSource::Param { name, .. } => name,
            ParamSource::Fixed(value) => return Ok(*value),
        };
        let (ty, dtype) = (self.ty, self.ty.dtype().unwrap_or(DType::U32));
        let value = match signature.params.get(name) {
            Some(ParamValue::Int(value)) => *value,
            Some(ParamValue::Float(value)) if ty.is_float() => return Ok(Scalar::from_f64(dtype, *value)),
            Some(ParamValue::Float(value)) => *value as i64,
            Some(ParamValue::Bool(value)) => i64::from(*value),
            _ => 0,
        };
        if fits(value, ty) {
            return Ok(Scalar::from_i64(dtype, value));
        }
        let (min, max) = dtype.integer_range().map_or((0.0, 0.0), |(min, max)| (min as f64, max as f64));
        let (kernel, param) = (kernel.to_owned(), name.clone());
        Err(SpecError::ParamRange { kernel, param, min, max, actual: value.to_string() })
    }
}

/// The most elements of a pixel that a program computes side by side.
const MAX_PIXEL: usize = 4;

/// How many elements belong to one pixel: the last dimension of an image, 1 elsewhere.
fn channels(shape: &crate::Shape) -> usize {
    match shape.dims() {
        [.., last] if shape.rank() >= 3 && *last > 0 => *last,
        _ => 1,
    }
}

/// A value whose type is settled, or that still takes the type of what it meets.
#[derive(Clone, Debug)]
enum Typed {
    Reg(Reg),
    Int(i64),
    Float(f64),
    /// A param that computes as an integer on integers.
    WholeParam(String),
    FloatParam(String),
}

struct Checker<'a> {
    builder: Builder,
    names: &'a [&'a str],
    signature: &'a Signature,
    /// Values that have names, the innermost last.
    locals: Vec<(String, Typed)>,
    /// The float type of values that meet no float: f64 where any argument is f64.
    float: Ty,
}

impl Checker<'_> {
    fn value(&mut self, expr: &Expr) -> Result<Typed, ExprError> {
        let error = |message: String| Err(ExprError::new(message, &expr.at));
        let value = match &*expr.node {
            Node::Int(value) => Typed::Int(*value),
            Node::Float(value) => Typed::Float(*value),
            Node::Bool(value) => Typed::Reg(self.builder.truth(*value)),
            Node::Input(_) => {
                let slot = self.slot(expr)?;
                Typed::Reg(self.builder.input(slot))
            }
            Node::Let(name, value, rest) => {
                let value = self.value(value)?;
                self.locals.push((name.clone(), value));
                let result = self.value(rest);
                self.locals.pop();
                return result;
            }
            Node::Local(name) => match self.locals.iter().rev().find(|(own, _)| own == name) {
                Some((_, value)) => value.clone(),
                None => return error(format!("there is no value `{name}`")),
            },
            Node::ChannelOf(of, channel) => return self.channel_of(expr, of, *channel),
            Node::Param(name) => return self.param(expr, name),
            Node::Size(value) => Typed::Reg(self.builder.fixed(Scalar::S32(*value))),
            Node::Number(value) => {
                let dtype = self.float.dtype().unwrap_or(DType::F32);
                Typed::Reg(self.builder.fixed(Scalar::from_f64(dtype, *value)))
            }
            Node::Gather(of, index) => {
                let slot = self.slot(of)?;
                let value = self.value(index)?;
                let reg = self.number(&value, index)?;
                if self.builder.ty(reg).is_float() {
                    return Err(ExprError::new("an index is an integer: round it, then cast it with `s32`", &index.at));
                }
                let reg = self.builder.cast(reg, DType::S32);
                Typed::Reg(self.builder.gather(slot, reg))
            }
            Node::Index => Typed::Reg(self.builder.position(Op::Index)),
            Node::Channel => match self.signature.output.shape.rank() {
                rank @ 3.. => Typed::Reg(self.builder.position(Op::Coord(rank - 1))),
                _ => Typed::Reg(self.builder.constant(Scalar::S32(0))),
            },
            Node::Coord(axis) | Node::Dim(axis) => {
                let rank = self.signature.output.shape.rank();
                if *axis >= rank {
                    return error(format!("there is no axis {axis}: the output has rank {rank}"));
                }
                let is_coord = matches!(&*expr.node, Node::Coord(_));
                Typed::Reg(self.builder.position(if is_coord { Op::Coord(*axis) } else { Op::Dim(*axis) }))
            }
            Node::Negate(of) => match self.value(of)? {
                Typed::Int(value) => Typed::Int(value.wrapping_neg()),
                Typed::Float(value) => Typed::Float(-value),
                value => {
                    let reg = self.number(&value, of)?;
                    Typed::Reg(self.builder.unary(UnaryOp::Neg, reg))
                }
            },
            Node::Not(of) => {
                let reg = self.truth(of)?;
                Typed::Reg(self.builder.not(reg))
            }
            Node::BitNot(of) => {
                let reg = self.integer(of, "~")?;
                Typed::Reg(self.builder.unary(UnaryOp::BitNot, reg))
            }
            Node::Cast(overflow, dtype, of) => {
                let value = self.value(of)?;
                let reg = match value {
                    // A literal is converted without passing through another type.
                    Typed::Int(value) => self.builder.constant(Scalar::S64(value)),
                    Typed::Float(value) => self.builder.constant(Scalar::F64(value)),
                    ref other => {
                        let ty = if self.is_whole(other) { Ty::of(*dtype) } else { self.own_type(other) };
                        self.register(other, ty, of)?
                    }
                };
                Typed::Reg(match overflow {
                    Overflow::Usual => self.builder.cast(reg, *dtype),
                    Overflow::Wrap => self.wrap(reg, *dtype),
                    Overflow::Saturate => self.saturate(reg, *dtype),
                })
            }
            Node::Infix(op, a, b) => return self.infix(*op, a, b),
            Node::Call(function, arguments) => return self.call(*function, arguments),
        };
        Ok(value)
    }

    fn slot(&self, expr: &Expr) -> Result<usize, ExprError> {
        let Node::Input(name) = &*expr.node else {
            return Err(ExprError::new("only inputs have channels and positions: write `x.r`", &expr.at));
        };
        match self.names.iter().position(|own| own == name) {
            Some(slot) if slot < self.signature.inputs.len() => Ok(slot),
            _ => Err(ExprError::new(format!("there is no input `{name}`"), &expr.at)),
        }
    }

    fn channel_of(&mut self, expr: &Expr, of: &Expr, channel: usize) -> Result<Typed, ExprError> {
        let slot = self.slot(of)?;
        let channels = channels(&self.signature.inputs[slot].shape);
        if channel >= channels && !self.signature.output.shape.is_empty() {
            let message = format!("there is no channel {channel}: the input has {channels}");
            return Err(ExprError::new(message, &expr.at));
        }
        Ok(Typed::Reg(self.builder.channel(slot, channel, channels.max(1))))
    }

    fn param(&mut self, expr: &Expr, name: &str) -> Result<Typed, ExprError> {
        let params = &self.signature.params;
        let Some((_, kind, value)) = params.iter().find(|(own, _, _)| *own == name) else {
            return Err(ExprError::new(format!("there is no param `{name}`"), &expr.at));
        };
        match (kind, value) {
            (ParamKind::Int | ParamKind::Number, ParamValue::Int(_)) => Ok(Typed::WholeParam(name.to_owned())),
            (ParamKind::Number, value) if value.is_whole() => Ok(Typed::WholeParam(name.to_owned())),
            (ParamKind::Float | ParamKind::Number, _) => Ok(Typed::FloatParam(name.to_owned())),
            (ParamKind::Bool, _) => {
                let (reg, zero) = (self.builder.param(name, Ty::U32), self.builder.constant(Scalar::U32(0)));
                Ok(Typed::Reg(self.builder.compare(CompareOp::Ne, reg, zero)))
            }
            (kind, _) => {
                let message = format!("`{name}` is a {kind}, and expressions compute with numbers");
                Err(ExprError::new(message, &expr.at))
            }
        }
    }

    fn is_whole(&self, value: &Typed) -> bool {
        matches!(value, Typed::Int(_) | Typed::WholeParam(_))
    }

    /// The type of a value by itself.
    fn own_type(&self, value: &Typed) -> Ty {
        match value {
            Typed::Reg(reg) => self.builder.ty(*reg),
            Typed::Int(_) | Typed::WholeParam(_) => Ty::S32,
            Typed::Float(_) | Typed::FloatParam(_) => self.float,
        }
    }

    /// The type a value takes when it meets `ty`: its own if it is settled, a float if it needs one.
    fn meet_type(&self, value: &Typed, ty: Ty) -> Ty {
        match value {
            Typed::Reg(reg) => self.builder.ty(*reg),
            _ if ty.is_float() => ty,
            Typed::Int(_) | Typed::WholeParam(_) => ty,
            Typed::Float(_) | Typed::FloatParam(_) => self.float,
        }
    }

    /// The type in which two values meet.
    fn common(&self, a: &Typed, b: &Typed, a_expr: &Expr, b_expr: &Expr) -> Result<Ty, ExprError> {
        let (x, y) = match (a, b) {
            (Typed::Reg(a), Typed::Reg(b)) => (self.builder.ty(*a), self.builder.ty(*b)),
            (Typed::Reg(reg), other) | (other, Typed::Reg(reg)) => {
                let ty = self.builder.ty(*reg);
                return if ty == Ty::Bool { Ok(ty) } else { Ok(self.meet_type(other, ty)) };
            }
            _ if self.is_whole(a) && self.is_whole(b) => return Ok(Ty::S32),
            _ => return Ok(self.float),
        };
        let order = |ty| match ty {
            Ty::Bool => 0,
            Ty::U32 => 1,
            Ty::S32 => 2,
            Ty::U64 => 3,
            Ty::S64 => 4,
            Ty::F32 => 5,
            Ty::F64 => 6,
        };
        let (low, high) = if order(x) <= order(y) { (x, y) } else { (y, x) };
        match (low, high) {
            (low, high) if low == high => Ok(high),
            (Ty::Bool, _) => {
                let (at, ty) = if x == Ty::Bool { (a_expr, y) } else { (b_expr, x) };
                Err(ExprError::new(format!("a condition where {ty} is needed: use `select` or a cast"), &at.at))
            }
            (Ty::U32, Ty::S32) | (Ty::S32, Ty::U64) | (Ty::U64, Ty::S64) | (Ty::S64 | Ty::U64, Ty::F32) => {
                Err(ExprError::new(format!("{x} and {y} do not mix: cast one of them"), &join(a_expr, b_expr)))
            }
            (_, high) => Ok(high),
        }
    }

    /// The register of a value as `ty`.
    fn register(&mut self, value: &Typed, ty: Ty, expr: &Expr) -> Result<Reg, ExprError> {
        let wrong = |what: String| Err(ExprError::new(what, &expr.at));
        let Some(dtype) = ty.dtype() else {
            return match value {
                Typed::Reg(reg) if self.builder.ty(*reg) == Ty::Bool => Ok(*reg),
                _ => wrong("a number where a condition is needed".to_owned()),
            };
        };
        match value {
            Typed::Reg(reg) if self.builder.ty(*reg) == ty => Ok(*reg),
            Typed::Reg(reg) => Ok(self.builder.cast(*reg, dtype)),
            Typed::Int(value) => match fits(*value, ty) {
                true => Ok(self.builder.constant(Scalar::from_i64(dtype, *value))),
                false => wrong(format!("{value} does not fit {dtype}")),
            },
            // Whether its value fits is checked where values are: at every call.
            Typed::WholeParam(name) => Ok(self.builder.param(name, ty)),
            Typed::Float(value) => Ok(self.builder.constant(Scalar::from_f64(dtype, *value))),
            Typed::FloatParam(name) => Ok(self.builder.param(name, ty)),
        }
    }

    /// The register of a value that must be a number.
    fn number(&mut self, value: &Typed, expr: &Expr) -> Result<Reg, ExprError> {
        let ty = self.own_type(value);
        if ty == Ty::Bool {
            let message = "a condition where a number is needed: use `select` or a cast";
            return Err(ExprError::new(message, &expr.at));
        }
        self.register(value, ty, expr)
    }

    fn truth(&mut self, expr: &Expr) -> Result<Reg, ExprError> {
        let value = self.value(expr)?;
        match value {
            Typed::Reg(reg) if self.builder.ty(reg) == Ty::Bool => Ok(reg),
            _ => Err(ExprError::new("a number where a condition is needed: compare it, as in `x != 0`", &expr.at)),
        }
    }

    /// Both operands in their common type.
    fn pair(&mut self, a: &Expr, b: &Expr) -> Result<(Reg, Reg), ExprError> {
        let (x, y) = (self.value(a)?, self.value(b)?);
        self.pair_of(&x, &y, a, b)
    }

    fn pair_of(&mut self, x: &Typed, y: &Typed, a: &Expr, b: &Expr) -> Result<(Reg, Reg), ExprError> {
        let ty = self.common(x, y, a, b)?;
        Ok((self.register(x, ty, a)?, self.register(y, ty, b)?))
    }

    /// Both operands as numbers in their common type.
    fn numbers(&mut self, a: &Expr, b: &Expr) -> Result<(Reg, Reg), ExprError> {
        let (x, y) = (self.value(a)?, self.value(b)?);
        for (value, expr) in [(&x, a), (&y, b)] {
            if self.own_type(value) == Ty::Bool {
                self.number(value, expr)?;
            }
        }
        self.pair_of(&x, &y, a, b)
    }

    fn infix(&mut self, op: Infix, a: &Expr, b: &Expr) -> Result<Typed, ExprError> {
        let op = match op {
            Infix::Logic(op) => {
                let (a, b) = (self.truth(a)?, self.truth(b)?);
                return Ok(Typed::Reg(self.builder.logic(op, a, b)));
            }
            Infix::Compare(op) => {
                let (x, y) = self.pair(a, b)?;
                return Ok(Typed::Reg(self.compare(op, x, y)));
            }
            Infix::Rem => {
                let (x, y) = self.numbers(a, b)?;
                return Ok(Typed::Reg(self.remainder(x, y)));
            }
            Infix::Bits(op) => return self.bits(op, a, b),
            Infix::Add => BinaryOp::Add,
            Infix::Sub => BinaryOp::Sub,
            Infix::Mul => BinaryOp::Mul,
            Infix::Div => BinaryOp::Div,
        };
        if let Some(value) = fold_literals(op, &self.literal(a), &self.literal(b)) {
            return Ok(value);
        }
        let (x, y) = self.numbers(a, b)?;
        Ok(Typed::Reg(self.builder.binary(op, x, y)))
    }

    /// An expression made of literals only, as one.
    fn literal(&self, expr: &Expr) -> Option<Typed> {
        match &*expr.node {
            Node::Int(value) => Some(Typed::Int(*value)),
            Node::Float(value) => Some(Typed::Float(*value)),
            Node::Negate(of) => match self.literal(of)? {
                Typed::Int(value) => Some(Typed::Int(value.wrapping_neg())),
                Typed::Float(value) => Some(Typed::Float(-value)),
                _ => None,
            },
            Node::Infix(op, a, b) => {
                let op = match op {
                    Infix::Add => BinaryOp::Add,
                    Infix::Sub => BinaryOp::Sub,
                    Infix::Mul => BinaryOp::Mul,
                    Infix::Div => BinaryOp::Div,
                    _ => return None,
                };
                fold_literals(op, &self.literal(a), &self.literal(b))
            }
            _ => None,
        }
    }

    /// Truth values compare through `&&`, `||` and `!`, so that devices need no comparison of them.
    fn compare(&mut self, op: CompareOp, x: Reg, y: Reg) -> Reg {
        if self.builder.ty(x) != Ty::Bool {
            return self.builder.compare(op, x, y);
        }
        let both = self.builder.logic(LogicOp::And, x, y);
        let one = self.builder.logic(LogicOp::Or, x, y);
        let none = self.builder.not(one);
        let equal = self.builder.logic(LogicOp::Or, both, none);
        let (not_x, not_y) = (self.builder.not(x), self.builder.not(y));
        match op {
            CompareOp::Eq => equal,
            CompareOp::Ne => self.builder.not(equal),
            CompareOp::Lt => self.builder.logic(LogicOp::And, not_x, y),
            CompareOp::Gt => self.builder.logic(LogicOp::And, x, not_y),
            CompareOp::Le => self.builder.logic(LogicOp::Or, not_x, y),
            CompareOp::Ge => self.builder.logic(LogicOp::Or, x, not_y),
        }
    }

    /// A register as a float, for functions that have no integer form.
    fn float(&mut self, reg: Reg) -> Reg {
        let ty = self.builder.ty(reg);
        match self.float.dtype() {
            Some(dtype) if !ty.is_float() => self.builder.cast(reg, dtype),
            _ => reg,
        }
    }

    fn float_argument(&mut self, expr: &Expr) -> Result<Reg, ExprError> {
        let value = self.value(expr)?;
        let ty = self.meet_type(&value, self.float);
        if ty == Ty::Bool {
            return self.number(&value, expr);
        }
        let reg = self.register(&value, ty, expr)?;
        Ok(self.float(reg))
    }

    /// A constant of the same type as `like`.
    fn number_like(&mut self, like: Reg, value: f64) -> Reg {
        let dtype = self.builder.ty(like).dtype().unwrap_or(DType::F32);
        self.builder.constant(Scalar::from_f64(dtype, value))
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) -> Result<Typed, ExprError> {
        let reg = match (function, arguments) {
            (Function::Unary(op), [a]) => {
                let reg = match op.takes() {
                    Takes::Floats => self.float_argument(a)?,
                    Takes::Integers => self.integer(a, op.name())?,
                    Takes::Numbers => {
                        let value = self.value(a)?;
                        self.number(&value, a)?
                    }
                };
                self.builder.unary(op, reg)
            }
            (Function::Minimum, [a, b]) => self.extreme(BinaryOp::Min, a, b)?,
            (Function::Maximum, [a, b]) => self.extreme(BinaryOp::Max, a, b)?,
            (Function::Atan2, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                let (x, y) = (self.float(x), self.float(y));
                self.builder.binary(BinaryOp::Atan2, x, y)
            }
            (Function::Rem, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                self.remainder(x, y)
            }
            (Function::Mod, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                self.modulo(x, y)
            }
            (Function::Sign, [a]) => {
                let value = self.value(a)?;
                let x = self.number(&value, a)?;
                let (zero, one) = (self.number_like(x, 0.0), self.number_like(x, 1.0));
                let above = self.builder.compare(CompareOp::Gt, x, zero);
                // Zero and NaN stay as they are.
                let result = self.builder.select(above, one, x);
                if self.builder.ty(x).is_unsigned() {
                    result
                } else {
                    let (below, minus) = (self.builder.compare(CompareOp::Lt, x, zero), self.number_like(x, -1.0));
                    self.builder.select(below, minus, result)
                }
            }
            (Function::Min, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                self.builder.binary(BinaryOp::Min, x, y)
            }
            (Function::Max, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                self.builder.binary(BinaryOp::Max, x, y)
            }
            (Function::Pow, [a, b]) => {
                let (x, y) = self.numbers(a, b)?;
                let (x, y) = (self.float(x), self.float(y));
                self.builder.binary(BinaryOp::Pow, x, y)
            }
            (Function::Select, [condition, a, b]) => {
                let condition = self.truth(condition)?;
                let (x, y) = self.pair(a, b)?;
                self.builder.select(condition, x, y)
            }
            (Function::Clamp, [a, low, high]) => {
                let (x, low_reg) = self.numbers(a, low)?;
                let raised = Typed::Reg(self.builder.binary(BinaryOp::Max, x, low_reg));
                let high_value = self.value(high)?;
                let (x, high_reg) = self.pair_of(&raised, &high_value, a, high)?;
                self.builder.binary(BinaryOp::Min, x, high_reg)
            }
            (Function::Relu, [a]) => {
                let value = self.value(a)?;
                let x = self.number(&value, a)?;
                let zero = self.number_like(x, 0.0);
                let negative = self.builder.compare(CompareOp::Lt, x, zero);
                self.builder.select(negative, zero, x)
            }
            (Function::Relu, [a, slope]) => {
                let (x, slope) = self.numbers(a, slope)?;
                let zero = self.number_like(x, 0.0);
                let scaled = self.builder.binary(BinaryOp::Mul, x, slope);
                // A slope of zero gives zero, also for infinity and without a sign.
                let flat = self.builder.compare(CompareOp::Eq, slope, zero);
                let below = self.builder.select(flat, zero, scaled);
                let negative = self.builder.compare(CompareOp::Lt, x, zero);
                self.builder.select(negative, below, x)
            }
            (Function::Sigmoid, [a]) => {
                let x = self.float_argument(a)?;
                let one = self.number_like(x, 1.0);
                let negated = self.builder.unary(UnaryOp::Neg, x);
                let exp = self.builder.unary(UnaryOp::Exp, negated);
                let sum = self.builder.binary(BinaryOp::Add, one, exp);
                self.builder.binary(BinaryOp::Div, one, sum)
            }
            (Function::Gelu, [a]) => {
                let x = self.float_argument(a)?;
                let (one, half) = (self.number_like(x, 1.0), self.number_like(x, 0.5));
                let root = self.number_like(x, std::f64::consts::FRAC_1_SQRT_2);
                let scaled = self.builder.binary(BinaryOp::Mul, x, root);
                let erf = self.builder.unary(UnaryOp::Erf, scaled);
                let sum = self.builder.binary(BinaryOp::Add, one, erf);
                let halved = self.builder.binary(BinaryOp::Mul, x, half);
                self.builder.binary(BinaryOp::Mul, halved, sum)
            }
            (function, arguments) => {
                let message = format!("`{}` does not take {} arguments", function.name(), arguments.len());
                return Err(ExprError::new(message, &arguments.first().and_then(|first| first.at.clone())));
            }
        };
        Ok(Typed::Reg(reg))
    }
}

impl Checker<'_> {
    /// The register of a value that must be an integer.
    fn integer(&mut self, expr: &Expr, name: &str) -> Result<Reg, ExprError> {
        let value = self.value(expr)?;
        let reg = self.number(&value, expr)?;
        match self.builder.ty(reg).is_float() {
            true => Err(ExprError::new(format!("`{name}` is for integers: cast it, as in `s32(x)`"), &expr.at)),
            false => Ok(reg),
        }
    }

    fn bits(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Typed, ExprError> {
        let (x, y) = self.numbers(a, b)?;
        let ty = self.builder.ty(x);
        if ty.is_float() {
            let symbol = Infix::Bits(op).place().0;
            return Err(ExprError::new(format!("`{symbol}` is for integers: cast both sides"), &join(a, b)));
        }
        if !matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            return Ok(Typed::Reg(self.builder.binary(op, x, y)));
        }
        // Devices take an amount that is too large as they like: it shifts everything out. A negative one is too large.
        let (zero, bits) = (self.number_like(y, 0.0), self.number_like(y, ty.bits().into()));
        let mut inside = self.builder.compare(CompareOp::Lt, y, bits);
        if !ty.is_unsigned() {
            let from_zero = self.builder.compare(CompareOp::Ge, y, zero);
            inside = self.builder.logic(LogicOp::And, inside, from_zero);
        }
        let amount = self.builder.select(inside, y, zero);
        let shifted = self.builder.binary(op, x, amount);
        let rest = if op == BinaryOp::Shl || ty.is_unsigned() {
            zero
        } else {
            let sign = self.number_like(y, f64::from(ty.bits() - 1));
            self.builder.binary(BinaryOp::Shr, x, sign)
        };
        Ok(Typed::Reg(self.builder.select(inside, shifted, rest)))
    }

    /// The remainder of a division towards zero.
    fn remainder(&mut self, x: Reg, y: Reg) -> Reg {
        if self.builder.ty(x).is_float() {
            return self.builder.binary(BinaryOp::Rem, x, y);
        }
        let quotient = self.builder.binary(BinaryOp::Div, x, y);
        let product = self.builder.binary(BinaryOp::Mul, quotient, y);
        self.builder.binary(BinaryOp::Sub, x, product)
    }

    /// The remainder of a division down: moved by one divisor where its sign is not that of the divisor.
    fn modulo(&mut self, x: Reg, y: Reg) -> Reg {
        let rest = self.remainder(x, y);
        if self.builder.ty(x).is_unsigned() {
            return rest;
        }
        let zero = self.number_like(x, 0.0);
        let some = self.builder.compare(CompareOp::Ne, rest, zero);
        let (rest_below, y_below) =
            (self.builder.compare(CompareOp::Lt, rest, zero), self.builder.compare(CompareOp::Lt, y, zero));
        let differ = self.compare(CompareOp::Ne, rest_below, y_below);
        let moves = self.builder.logic(LogicOp::And, some, differ);
        let moved = self.builder.binary(BinaryOp::Add, rest, y);
        self.builder.select(moves, moved, rest)
    }

    /// The smaller or larger of two values, or the one that is NaN.
    fn extreme(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Reg, ExprError> {
        let (x, y) = self.numbers(a, b)?;
        let mut result = self.builder.binary(op, x, y);
        for value in [y, x] {
            let unknown = self.builder.unary(UnaryOp::IsNan, value);
            result = self.builder.select(unknown, value, result);
        }
        Ok(result)
    }

    /// The lowest bits of an integer as `dtype`; a float saturates to `s32` first, or to a type that is no narrower.
    fn wrap(&mut self, reg: Reg, dtype: DType) -> Reg {
        let Some((low, high)) = dtype.narrow_range() else { return self.builder.cast(reg, dtype) };
        // A float saturates there, an integer keeps its lowest bits.
        let reg = self.builder.cast(reg, DType::S32);
        if low == 0 {
            let mask = self.builder.constant(Scalar::S32(high));
            return self.builder.binary(BinaryOp::BitAnd, reg, mask);
        }
        // Up to the sign, and back with it.
        let amount = self.builder.constant(Scalar::S32(32 - 8 * dtype.size() as i32));
        let up = self.builder.binary(BinaryOp::Shl, reg, amount);
        self.builder.binary(BinaryOp::Shr, up, amount)
    }

    /// An integer as the nearest value of `dtype`.
    fn saturate(&mut self, reg: Reg, dtype: DType) -> Reg {
        let own = self.builder.ty(reg).dtype().and_then(DType::integer_range);
        let (Some((own_low, own_high)), Some((low, high))) = (own, dtype.integer_range()) else {
            return self.builder.cast(reg, dtype);
        };
        let mut reg = reg;
        for (op, bound, needed) in [(BinaryOp::Max, low, own_low < low), (BinaryOp::Min, high, own_high > high)] {
            if needed && let Some(own) = self.builder.ty(reg).dtype() {
                let bound = self.builder.constant(Scalar::wrapping(own, bound));
                reg = self.builder.binary(op, reg, bound);
            }
        }
        self.builder.cast(reg, dtype)
    }
}

/// Whether an integer can be written in a type without changing.
fn fits(value: i64, ty: Ty) -> bool {
    match ty {
        Ty::S32 => i32::try_from(value).is_ok(),
        Ty::U32 => u32::try_from(value).is_ok(),
        Ty::U64 => value >= 0,
        _ => true,
    }
}

/// Two literals as one. Division is exact: `1 / 2` is 0.5, not 0.
fn fold_literals(op: BinaryOp, a: &Option<Typed>, b: &Option<Typed>) -> Option<Typed> {
    let float = |value: &Typed| match value {
        Typed::Int(value) => *value as f64,
        Typed::Float(value) => *value,
        _ => f64::NAN,
    };
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    if let (Typed::Int(x), Typed::Int(y)) = (a, b) {
        let whole = match op {
            BinaryOp::Add => x.checked_add(*y),
            BinaryOp::Sub => x.checked_sub(*y),
            BinaryOp::Mul => x.checked_mul(*y),
            _ => x.checked_rem(*y).filter(|rest| *rest == 0).and_then(|_| x.checked_div(*y)),
        };
        if let Some(whole) = whole {
            return Some(Typed::Int(whole));
        }
    }
    match super::scalar_ops::apply_binary(op, Scalar::F64(float(a)), Scalar::F64(float(b))) {
        Scalar::F64(value) => Some(Typed::Float(value)),
        _ => None,
    }
}

/// From the start of one place to the end of another.
fn join(a: &Expr, b: &Expr) -> Option<Location> {
    match (&a.at, &b.at) {
        (Some(a), Some(b)) => Some(Location { source: a.source.clone(), start: a.start, end: b.end.max(a.end) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
