//! Pointwise expressions: the IR that built-in kernels, user kernels and fused stages share.
//!
//! An [`Expr`] is untyped text or Rust (`clamp(x * gain + bias, 0, 1)`). Given the element types of a call it becomes a
//! [`Program`]: typed, simplified, straight-line. Devices execute programs; [`interpret`] is what they are checked against.
//!
//! The rules, in short:
//!
//! - Values are computed in `f32 f64 s32 s64 u32 u64`. Integers of 8 and 16 bits compute as `s32` and saturate when stored;
//!   `f16` and `bf16` compute as `f32` and are rounded when stored.
//! - A literal or param takes the type of what it meets: `x + 1` on integers is integer arithmetic. A float on integers
//!   (`x * 0.5`) computes in f32.
//! - Two data types meet in the wider one; signed with unsigned integers of 32 and 64 bits, and `s64` or `u64` with `f32`, need a
//!   cast.
//! - Integers wrap; division truncates, and by zero is 0. `f32(x)` … `u8(x)` cast: floats lose their fraction and saturate.
//!   `wrap_u8(x)` and `saturate_s32(x)` say what becomes of integers that do not fit.
//! - A float stored to integers rounds half to even and saturates.
//! - `let a = x * x; a + 1 / a` gives a value a name.
//! - `gather(table, i)` reads an input anywhere; an index outside counts as the nearest inside.

mod builder;
mod check;
mod compose;
mod error;
mod interpret;
mod parse;
mod print;
mod program;
mod repeat;
mod scalar_ops;

use std::sync::Arc;

pub use compose::{Feed, Part};
pub use error::ExprError;
pub(crate) use error::Location;
pub use interpret::interpret;
pub use parse::Scope;
pub use program::{BinaryOp, CompareOp, InputSlot, LogicOp, Op, ParamSlot, ParamSource, Program, Reg, Ty, UnaryOp};
pub use scalar_ops::{answers, apply_binary, apply_unary, cast, compare, store, widen};

use crate::{DType, Tolerance};

/// A pointwise expression over inputs, params and coordinates. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Expr {
    node: Arc<Node>,
    at: Option<Location>,
    /// How many expressions are inside each other, with this one.
    height: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Input(String),
    Param(String),
    /// A value that has a name in the rest of the expression.
    Let(String, Expr, Expr),
    Local(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Index,
    Channel,
    Coord(usize),
    Dim(usize),
    /// One channel of an input, at this pixel.
    ChannelOf(Expr, usize),
    /// An input at a position of its own.
    Gather(Expr, Expr),
    /// An integer that is not part of the code, such as a size.
    Size(i32),
    /// A float that is not part of the code.
    Number(f64),
    Negate(Expr),
    Not(Expr),
    BitNot(Expr),
    Infix(Infix, Expr, Expr),
    Cast(Overflow, DType, Expr),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Infix {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Bits(BinaryOp),
    Compare(CompareOp),
    Logic(LogicOp),
}

impl Infix {
    /// The symbol, and how strongly it binds.
    const ALL: [(&'static str, Infix, u8); 18] = [
        ("||", Infix::Logic(LogicOp::Or), 1),
        ("&&", Infix::Logic(LogicOp::And), 2),
        ("<=", Infix::Compare(CompareOp::Le), 3),
        (">=", Infix::Compare(CompareOp::Ge), 3),
        ("==", Infix::Compare(CompareOp::Eq), 3),
        ("!=", Infix::Compare(CompareOp::Ne), 3),
        ("<", Infix::Compare(CompareOp::Lt), 3),
        (">", Infix::Compare(CompareOp::Gt), 3),
        ("|", Infix::Bits(BinaryOp::BitOr), 4),
        ("^", Infix::Bits(BinaryOp::BitXor), 5),
        ("&", Infix::Bits(BinaryOp::BitAnd), 6),
        ("<<", Infix::Bits(BinaryOp::Shl), 7),
        (">>", Infix::Bits(BinaryOp::Shr), 7),
        ("+", Infix::Add, 8),
        ("-", Infix::Sub, 8),
        ("*", Infix::Mul, 9),
        ("/", Infix::Div, 9),
        ("%", Infix::Rem, 9),
    ];
    /// How strongly what stands before a value binds.
    const PREFIX: u8 = 10;

    fn place(self) -> (&'static str, u8) {
        let found = Infix::ALL.into_iter().find(|(_, own, _)| *own == self);
        found.map_or(("?", 0), |(symbol, _, strength)| (symbol, strength))
    }
}

/// What a cast does with integers that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// As the element type does when it is stored: those of 8 and 16 bits saturate, those of 32 and 64 bits wrap.
    Usual,
    /// The lowest bits are kept.
    Wrap,
    /// The nearest value is taken.
    Saturate,
}

impl Overflow {
    const ALL: [Overflow; 3] = [Overflow::Usual, Overflow::Wrap, Overflow::Saturate];

    /// What the name of a cast begins with: `wrap_u8(x)`.
    const fn prefix(self) -> &'static str {
        match self {
            Overflow::Usual => "",
            Overflow::Wrap => "wrap_",
            Overflow::Saturate => "saturate_",
        }
    }

    /// The cast of that name.
    fn cast_from_name(name: &str) -> Option<(Overflow, DType)> {
        let with = |overflow: Overflow| {
            let dtype = DType::from_name(name.strip_prefix(overflow.prefix())?)?;
            // Floats overflow in one way.
            (overflow == Overflow::Usual || !dtype.is_float()).then_some((overflow, dtype))
        };
        Overflow::ALL.into_iter().find_map(with)
    }
}

/// The functions an expression may call, by name and number of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Unary(UnaryOp),
    Min,
    Max,
    /// As `Min` and `Max`, but NaN if one is NaN.
    Minimum,
    Maximum,
    Pow,
    Atan2,
    /// The remainder with the sign of the dividend, and with that of the divisor.
    Rem,
    Mod,
    Sign,
    Select,
    Clamp,
    Relu,
    Sigmoid,
    Gelu,
}

impl Function {
    fn all() -> impl Iterator<Item = Function> {
        let unary = UnaryOp::ALL.iter().filter(|op| !matches!(op, UnaryOp::Neg | UnaryOp::BitNot));
        unary.map(|op| Function::Unary(*op)).chain([
            Function::Min,
            Function::Max,
            Function::Minimum,
            Function::Maximum,
            Function::Pow,
            Function::Atan2,
            Function::Rem,
            Function::Mod,
            Function::Sign,
            Function::Select,
            Function::Clamp,
            Function::Relu,
            Function::Sigmoid,
            Function::Gelu,
        ])
    }

    fn name(self) -> &'static str {
        match self {
            Function::Unary(op) => op.name(),
            Function::Min => "min",
            Function::Max => "max",
            Function::Minimum => "minimum",
            Function::Maximum => "maximum",
            Function::Pow => "pow",
            Function::Atan2 => "atan2",
            Function::Rem => "rem",
            Function::Mod => "mod",
            Function::Sign => "sign",
            Function::Select => "select",
            Function::Clamp => "clamp",
            Function::Relu => "relu",
            Function::Sigmoid => "sigmoid",
            Function::Gelu => "gelu",
        }
    }

    fn is_approximate(self) -> bool {
        match self {
            Function::Unary(op) => op.is_approximate(),
            Function::Pow | Function::Atan2 | Function::Sigmoid | Function::Gelu => true,
            _ => false,
        }
    }

    /// The fewest and the most arguments.
    fn arity(self) -> (usize, usize) {
        match self {
            Function::Unary(_) | Function::Sign | Function::Sigmoid | Function::Gelu => (1, 1),
            Function::Relu => (1, 2),
            Function::Select | Function::Clamp => (3, 3),
            _ => (2, 2),
        }
    }

    fn from_name(name: &str) -> Option<Function> {
        Self::all().find(|function| function.name() == name)
    }
}

impl Expr {
    pub(crate) fn new(node: Node) -> Expr {
        Expr::at(node, None)
    }

    pub(crate) fn at(node: Node, at: Option<Location>) -> Expr {
        let height = 1 + match &node {
            Node::ChannelOf(a, _) | Node::Negate(a) | Node::Not(a) | Node::BitNot(a) | Node::Cast(_, _, a) => a.height,
            Node::Gather(a, b) | Node::Infix(_, a, b) | Node::Let(_, a, b) => a.height.max(b.height),
            Node::Call(_, arguments) => arguments.iter().map(|argument| argument.height).max().unwrap_or(0),
            _ => 0,
        };
        Expr { node: Arc::new(node), at, height }
    }

    /// The input called `name`, at this element.
    pub fn input(name: impl Into<String>) -> Expr {
        Expr::new(Node::Input(name.into()))
    }

    /// The param called `name`.
    pub fn param(name: impl Into<String>) -> Expr {
        Expr::new(Node::Param(name.into()))
    }

    /// `rest`, in which `value` has a name: what is used several times is written, and computed, once. In `rest` it is
    /// [`Expr::local`].
    pub fn with_local(name: impl Into<String>, value: Expr, rest: Expr) -> Expr {
        Expr::new(Node::Let(name.into(), value, rest))
    }

    /// A value that was given this name around the expression.
    pub fn local(name: impl Into<String>) -> Expr {
        Expr::new(Node::Local(name.into()))
    }

    /// The position of this element in its buffer, from 0.
    pub fn index() -> Expr {
        Expr::new(Node::Index)
    }

    /// The position of this element along `axis`.
    pub fn coord(axis: usize) -> Expr {
        Expr::new(Node::Coord(axis))
    }

    /// The output's size along `axis`.
    pub fn dim(axis: usize) -> Expr {
        Expr::new(Node::Dim(axis))
    }

    /// The channel of this element: its last coordinate in an image, 0 elsewhere.
    pub fn channel() -> Expr {
        Expr::new(Node::Channel)
    }

    /// Channel `index` of an input's pixel at this place.
    pub fn channel_of(self, index: usize) -> Expr {
        Expr::new(Node::ChannelOf(self, index))
    }

    /// An input's element at `index`, counted from its start; an index outside counts as the nearest inside.
    pub fn gather(self, index: impl Into<Expr>) -> Expr {
        Expr::new(Node::Gather(self, index.into()))
    }

    /// An integer that is passed at run time, such as a size: another value of it compiles nothing.
    pub fn size(value: usize) -> Expr {
        Expr::new(Node::Size(i32::try_from(value).unwrap_or(i32::MAX)))
    }

    /// A float that is passed at run time: another value of it compiles nothing.
    pub fn number(value: f64) -> Expr {
        Expr::new(Node::Number(value))
    }

    /// The parts an expression is made of.
    fn parts(&self) -> Vec<&Expr> {
        match &*self.node {
            Node::ChannelOf(a, _) | Node::Negate(a) | Node::Not(a) | Node::BitNot(a) | Node::Cast(_, _, a) => vec![a],
            Node::Gather(a, b) | Node::Infix(_, a, b) | Node::Let(_, a, b) => vec![a, b],
            Node::Call(_, arguments) => arguments.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The expression with inputs of these names replaced.
    pub fn with_inputs(&self, values: &[(&str, Expr)]) -> Expr {
        let swap = |expr: &Expr| expr.with_inputs(values);
        let node = match &*self.node {
            Node::Input(name) => match values.iter().find(|(own, _)| own == name) {
                Some((_, value)) => return value.clone(),
                None => return self.clone(),
            },
            Node::ChannelOf(a, channel) => Node::ChannelOf(swap(a), *channel),
            Node::Negate(a) => Node::Negate(swap(a)),
            Node::Not(a) => Node::Not(swap(a)),
            Node::BitNot(a) => Node::BitNot(swap(a)),
            Node::Cast(overflow, dtype, a) => Node::Cast(*overflow, *dtype, swap(a)),
            Node::Gather(a, b) => Node::Gather(swap(a), swap(b)),
            Node::Let(name, value, rest) => Node::Let(name.clone(), swap(value), swap(rest)),
            Node::Infix(op, a, b) => Node::Infix(*op, swap(a), swap(b)),
            Node::Call(function, arguments) => Node::Call(*function, arguments.iter().map(swap).collect()),
            _ => return self.clone(),
        };
        Expr::at(node, self.at.clone())
    }

    /// How far devices may be apart: they approximate functions each in its own way, and join a product and a sum or do not.
    /// `is_whole` says which params are integers whatever their value.
    pub fn tolerance(&self, is_whole: impl Fn(&str) -> bool) -> Tolerance {
        let (mut epsilons, mut operations, mut fractions) = (0.0, 0, false);
        let mut parts = vec![self];
        while let Some(part) = parts.pop() {
            parts.extend(part.parts());
            match &*part.node {
                Node::Float(_) | Node::Number(_) => fractions = true,
                Node::Param(name) => fractions |= !is_whole(name),
                Node::Cast(_, dtype, _) => fractions |= dtype.is_float(),
                Node::Infix(Infix::Div | Infix::Rem, ..) => (epsilons, operations) = (epsilons + 4.0, operations + 1),
                Node::Infix(Infix::Add | Infix::Sub | Infix::Mul, ..) => operations += 1,
                Node::Call(function, _) if function.is_approximate() => {
                    (epsilons, operations, fractions) = (epsilons + 128.0, operations + 1, true);
                }
                _ => {}
            }
        }
        // One operation alone is rounded as the standard says.
        if operations > 1 {
            epsilons += 2.0 * f64::from(operations);
        }
        let floats = if epsilons > 0.0 { Tolerance::close(epsilons, epsilons) } else { Tolerance::EXACT };
        floats.levels(fractions.into())
    }

    /// Whether the input is only gathered from, as a table is: it may then have any shape.
    pub fn only_gathers(&self, input: &str) -> bool {
        match &*self.node {
            Node::Input(name) => name != input,
            Node::Gather(_, index) => index.only_gathers(input),
            _ => self.parts().into_iter().all(|part| part.only_gathers(input)),
        }
    }

    /// The value converted to `dtype` as a cast does.
    pub fn cast(self, dtype: DType) -> Expr {
        Expr::new(Node::Cast(Overflow::Usual, dtype, self))
    }

    /// The value converted to `dtype`, with a say in what becomes of integers that do not fit. A float becomes an integer of 32
    /// bits first, or of 64, and saturates there.
    pub fn cast_with(self, overflow: Overflow, dtype: DType) -> Expr {
        Expr::new(Node::Cast(overflow, dtype, self))
    }

    /// `self` where `condition` holds, `other` elsewhere.
    pub fn select(condition: Expr, then: Expr, other: Expr) -> Expr {
        Expr::call(Function::Select, [condition, then, other])
    }

    /// The value kept between `low` and `high`.
    pub fn clamp(self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        Expr::call(Function::Clamp, [self, low.into(), high.into()])
    }

    /// `max(x, 0)`, or with a slope `x * slope` below zero.
    pub fn relu(self, slope: Option<Expr>) -> Expr {
        Expr::call(Function::Relu, std::iter::once(self).chain(slope))
    }

    /// `1 / (1 + exp(-x))`.
    pub fn sigmoid(self) -> Expr {
        Expr::call(Function::Sigmoid, [self])
    }

    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    pub fn gelu(self) -> Expr {
        Expr::call(Function::Gelu, [self])
    }

    /// The smaller of two values; the other one if one is NaN.
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Min, [self, other.into()])
    }

    /// The larger of two values; the other one if one is NaN.
    pub fn max(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Max, [self, other.into()])
    }

    /// The smaller of two values; NaN if one is NaN.
    pub fn minimum(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Minimum, [self, other.into()])
    }

    /// The larger of two values; NaN if one is NaN.
    pub fn maximum(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Maximum, [self, other.into()])
    }

    /// The remainder of a division that rounds towards zero: it has the sign of `self`. By zero it is `self` on integers, NaN
    /// on floats.
    pub fn remainder(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Rem, [self, other.into()])
    }

    /// The remainder of a division that rounds down: it has the sign of `other`.
    pub fn modulo(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Mod, [self, other.into()])
    }

    /// The angle of the point (`x`, `self`), from -π to π.
    pub fn atan2(self, x: impl Into<Expr>) -> Expr {
        Expr::call(Function::Atan2, [self, x.into()])
    }

    /// -1, 0 or 1, as the value is below, at or above zero; zero and NaN stay as they are.
    pub fn sign(self) -> Expr {
        Expr::call(Function::Sign, [self])
    }

    /// An operation on bits: `BitAnd`, `BitOr`, `BitXor`, or a shift, by which amounts from the type's bits on shift everything
    /// out.
    pub fn bits(self, op: BinaryOp, other: impl Into<Expr>) -> Expr {
        Expr::new(Node::Infix(Infix::Bits(op), self, other.into()))
    }

    /// Both hold, or one of them does.
    pub fn logic(self, op: LogicOp, other: Expr) -> Expr {
        Expr::new(Node::Infix(Infix::Logic(op), self, other))
    }

    /// `self` to the power of `exponent`.
    pub fn pow(self, exponent: impl Into<Expr>) -> Expr {
        Expr::call(Function::Pow, [self, exponent.into()])
    }

    /// Whether the two compare so.
    pub fn compare(self, op: CompareOp, other: impl Into<Expr>) -> Expr {
        Expr::new(Node::Infix(Infix::Compare(op), self, other.into()))
    }

    /// Applies a function of one argument.
    pub fn unary(self, op: UnaryOp) -> Expr {
        if op == UnaryOp::BitNot {
            return Expr::new(Node::BitNot(self));
        }
        Expr::call(Function::Unary(op), [self])
    }

    fn call(function: Function, arguments: impl IntoIterator<Item = Expr>) -> Expr {
        Expr::new(Node::Call(function, arguments.into_iter().collect()))
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::new(Node::Int(value))
    }
}

impl From<i32> for Expr {
    fn from(value: i32) -> Expr {
        Expr::from(i64::from(value))
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Expr {
        Expr::new(Node::Float(value))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),+) => {$(
        impl<T: Into<Expr>> std::ops::$trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                Expr::new(Node::Infix(Infix::$op, self, other.into()))
            }
        }
    )+};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem);

/// `!x` is the opposite of a condition; on bits it is [`UnaryOp::BitNot`].
impl std::ops::Not for Expr {
    type Output = Expr;
    fn not(self) -> Expr {
        Expr::new(Node::Not(self))
    }
}

impl std::ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::new(Node::Negate(self))
    }
}
