//! A type-checked expression: straight-line code in static single assignment form.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use crate::{DType, Scalar};

/// The number of the op whose result is meant.
pub type Reg = usize;

/// The type of a value while it is computed. Data of type `u8` is computed as `S32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 32-bit signed integer.
    S32,
    /// 64-bit signed integer.
    S64,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// A truth value.
    Bool,
}

impl Ty {
    /// The type that data of `dtype` is computed in.
    pub const fn of(dtype: DType) -> Ty {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ty::F32,
            DType::F64 => Ty::F64,
            DType::S32 | DType::U8 | DType::S8 | DType::S16 | DType::U16 => Ty::S32,
            DType::S64 => Ty::S64,
            DType::U32 => Ty::U32,
            DType::U64 => Ty::U64,
        }
    }

    /// The element type of that name; none for a truth value.
    pub const fn dtype(self) -> Option<DType> {
        match self {
            Ty::F32 => Some(DType::F32),
            Ty::F64 => Some(DType::F64),
            Ty::S32 => Some(DType::S32),
            Ty::S64 => Some(DType::S64),
            Ty::U32 => Some(DType::U32),
            Ty::U64 => Some(DType::U64),
            Ty::Bool => None,
        }
    }

    /// Whether this is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F64)
    }

    /// Whether this is an unsigned integer.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Ty::U32 | Ty::U64)
    }

    /// Its bits; a truth value counts as one.
    pub const fn bits(self) -> u32 {
        match self {
            Ty::F32 | Ty::S32 | Ty::U32 => 32,
            Ty::F64 | Ty::S64 | Ty::U64 => 64,
            Ty::Bool => 1,
        }
    }
}

impl DType {
    /// The type in which data of this type is computed: narrower ones exist in memory alone.
    pub const fn register(self) -> DType {
        match Ty::of(self).dtype() {
            Some(dtype) => dtype,
            None => self,
        }
    }
}

impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.dtype().map_or("bool", DType::name))
    }
}

/// Declares the operations of one kind: variant, name, and how many units in the last place its result is off at most where it
/// is approximated.
macro_rules! operations {
    ($(#[$meta:meta])* $type:ident { $($variant:ident $name:literal $($ulps:literal)?,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each is the operation of that name")]
        pub enum $type {
            $($variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// The name in expressions and printed programs.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }

            /// How many units in the last place of `f32` or `f64` the result is off at most, where devices approximate it; none
            /// where it is exact.
            pub const fn ulps(self) -> Option<u32> {
                match self {
                    $($($type::$variant => Some($ulps),)?)+
                    _ => None,
                }
            }

            /// Whether the result is approximated, so that devices may differ in the last bits.
            pub const fn is_approximate(self) -> bool {
                self.ulps().is_some()
            }
        }
    };
}

operations! {
    /// A function of one argument.
    UnaryOp {
        Neg "neg",
        Abs "abs",
        Floor "floor",
        Ceil "ceil",
        Round "round",
        RoundAway "round_away",
        Trunc "trunc",
        Sqrt "sqrt" 4,
        Cbrt "cbrt" 2,
        Exp "exp" 2,
        Expm1 "expm1" 3,
        Log "log" 2,
        Log1p "log1p" 2,
        Sin "sin" 4,
        Cos "cos" 4,
        Tan "tan" 6,
        Asin "asin" 4,
        Acos "acos" 4,
        Atan "atan" 4,
        Sinh "sinh" 4,
        Cosh "cosh" 3,
        Tanh "tanh" 4,
        Asinh "asinh" 4,
        Acosh "acosh" 4,
        Atanh "atanh" 4,
        Erf "erf" 3,
        ErfInv "erf_inv" 6,
        IsNan "is_nan",
        IsInf "is_inf",
        BitNot "bit_not",
        CountOnes "count_ones",
        LeadingZeros "leading_zeros",
    }
}

/// What a function of one argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Floats; integers are made floats.
    Floats,
    /// Numbers, with a result of the same type.
    Numbers,
    /// Integers alone.
    Integers,
}

impl UnaryOp {
    pub(crate) const fn takes(self) -> Takes {
        match self {
            UnaryOp::BitNot | UnaryOp::CountOnes | UnaryOp::LeadingZeros => Takes::Integers,
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::IsNan | UnaryOp::IsInf => Takes::Numbers,
            op if op.rounds() => Takes::Numbers,
            _ => Takes::Floats,
        }
    }

    /// Whether it makes whole numbers, as integers are already.
    pub(crate) const fn rounds(self) -> bool {
        matches!(self, UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::RoundAway | UnaryOp::Trunc)
    }

    /// Whether its result is a truth value.
    pub const fn is_question(self) -> bool {
        matches!(self, UnaryOp::IsNan | UnaryOp::IsInf)
    }
}

operations! {
    /// An operation on two values of one type.
    BinaryOp {
        Add "add",
        Sub "sub",
        Mul "mul",
        Div "div",
        Rem "rem",
        Min "min",
        Max "max",
        Pow "pow" 3,
        Atan2 "atan2" 4,
        BitAnd "bit_and",
        BitOr "bit_or",
        BitXor "bit_xor",
        Shl "shl",
        Shr "shr",
    }
}

impl BinaryOp {
    pub(crate) const fn commutes(self) -> bool {
        matches!(
            self,
            BinaryOp::Add
                | BinaryOp::Mul
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
        )
    }
}

/// A comparison of two values of one type. Everything but `Ne` is false where an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the comparison of that name")]
pub enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

impl CompareOp {
    /// The operator in expressions.
    pub const fn symbol(self) -> &'static str {
        match self {
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
        }
    }
}

/// An operation on two truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogicOp {
    /// Both hold.
    And,
    /// At least one holds.
    Or,
}

/// One step of a program. Its result is the register of its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// An input at this element.
    Input {
        /// The input.
        slot: usize,
    },
    /// One channel of an input's pixel at this place.
    Channel {
        /// The input.
        slot: usize,
        /// The channel that is meant.
        channel: usize,
        /// How many channels a pixel has.
        of: usize,
    },
    /// An input's element at a position of its own, an `S32`; outside counts as the nearest inside.
    Gather {
        /// The input.
        slot: usize,
        /// The position.
        index: Reg,
    },
    /// A value that is part of the code.
    Const(Scalar),
    /// A run-time param.
    Param(usize),
    /// The position of this element, as `S32`.
    Index,
    /// The position along an axis of the output, as `S32`.
    Coord(usize),
    /// The output's size along an axis, as `S32`.
    Dim(usize),
    /// A function of one value.
    Unary(UnaryOp, Reg),
    /// An operation on two values of one type.
    Binary(BinaryOp, Reg, Reg),
    /// A comparison of two values of one type.
    Compare(CompareOp, Reg, Reg),
    /// An operation on two truth values.
    Logic(LogicOp, Reg, Reg),
    /// The opposite truth value.
    Not(Reg),
    /// The second value where the first holds, the third elsewhere.
    Select(Reg, Reg, Reg),
    /// A conversion; to `u8` it saturates, and its result is an `S32`.
    Cast(Reg, DType),
    /// What storing a float as integers of this type, and loading it again, makes of it: where stages were fused, each still
    /// rounds as it does alone.
    Stored(Reg, DType),
    /// Writes an output, converting to its element type: floats round half to even and saturate.
    Store {
        /// The output.
        slot: usize,
        /// The value.
        value: Reg,
    },
}

impl Op {
    /// The registers it reads.
    pub fn operands(&self) -> impl Iterator<Item = Reg> {
        let (count, regs) = match *self {
            Op::Unary(_, a)
            | Op::Not(a)
            | Op::Cast(a, _)
            | Op::Stored(a, _)
            | Op::Store { value: a, .. }
            | Op::Gather { index: a, .. } => (1, [a, 0, 0]),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::Logic(_, a, b) => (2, [a, b, 0]),
            Op::Select(a, b, c) => (3, [a, b, c]),
            _ => (0, [0; 3]),
        };
        regs.into_iter().take(count)
    }

    /// The same op with every register replaced.
    pub(crate) fn renumbered(self, new: impl Fn(Reg) -> Reg) -> Op {
        match self {
            Op::Unary(op, a) => Op::Unary(op, new(a)),
            Op::Not(a) => Op::Not(new(a)),
            Op::Cast(a, dtype) => Op::Cast(new(a), dtype),
            Op::Stored(a, dtype) => Op::Stored(new(a), dtype),
            Op::Store { slot, value } => Op::Store { slot, value: new(value) },
            Op::Gather { slot, index } => Op::Gather { slot, index: new(index) },
            Op::Binary(op, a, b) => Op::Binary(op, new(a), new(b)),
            Op::Compare(op, a, b) => Op::Compare(op, new(a), new(b)),
            Op::Logic(op, a, b) => Op::Logic(op, new(a), new(b)),
            Op::Select(a, b, c) => Op::Select(new(a), new(b), new(c)),
            other => other,
        }
    }
}

/// One input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InputSlot {
    /// Its element type.
    pub dtype: DType,
    /// Whether it is one element that counts everywhere.
    pub broadcast: bool,
    /// How many of its elements belong to one pixel; 1 where a program runs over elements.
    pub channels: usize,
}

impl InputSlot {
    /// An input that is read element by element.
    pub const fn elements(dtype: DType) -> InputSlot {
        InputSlot { dtype, broadcast: false, channels: 1 }
    }
}

/// One run-time value of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSlot {
    /// The type it is computed in; never `Bool`.
    pub ty: Ty,
    /// Where its value comes from.
    pub source: ParamSource,
}

/// Where a run-time value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamSource {
    /// A param of the call that the program is a part of.
    Param {
        /// Which call, where the program does the work of several: the stage of a pipeline.
        stage: usize,
        /// Its name.
        name: String,
    },
    /// A fixed value that is not part of the code: a size, so that another one compiles nothing, or a constant on which drivers
    /// go wrong, such as a zero divisor.
    Fixed(Scalar),
}

/// A type-checked, simplified program. Cheap to clone and to compare.
#[derive(Clone, Debug)]
pub struct Program(Arc<Body>);

#[derive(Debug)]
pub(super) struct Body {
    pub(super) inputs: Vec<InputSlot>,
    pub(super) outputs: Vec<DType>,
    pub(super) params: Vec<ParamSlot>,
    /// The output's channels, where the program runs over pixels.
    pub(super) pixel: Option<usize>,
    pub(super) ops: Vec<Op>,
    pub(super) types: Vec<Ty>,
    pub(super) fingerprint: u128,
}

impl Program {
    pub(super) fn new(
        inputs: Vec<InputSlot>,
        outputs: Vec<DType>,
        params: Vec<ParamSlot>,
        pixel: Option<usize>,
        ops: Vec<Op>,
        types: Vec<Ty>,
    ) -> Program {
        // Names and fixed values of params are left out: they do not change the code.
        let param_types: Vec<Ty> = params.iter().map(|param| param.ty).collect();
        let half = |seed: u64| {
            // Unlike `RandomState`, this hasher gives the same answer in every process.
            let mut hasher = DefaultHasher::new();
            (seed, &inputs, &outputs, &param_types, pixel, &ops).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        let fingerprint = half(0) << 64 | half(1);
        Program(Arc::new(Body { inputs, outputs, params, pixel, ops, types, fingerprint }))
    }

    /// The same code with other sources of its run-time values.
    pub(super) fn with_params(&self, params: Vec<ParamSlot>) -> Program {
        let Body { inputs, outputs, pixel, ops, types, fingerprint, .. } = &*self.0;
        let (inputs, outputs, ops, types) = (inputs.clone(), outputs.clone(), ops.clone(), types.clone());
        Program(Arc::new(Body { inputs, outputs, params, pixel: *pixel, ops, types, fingerprint: *fingerprint }))
    }

    /// The inputs.
    pub fn inputs(&self) -> &[InputSlot] {
        &self.0.inputs
    }

    /// The element types of the outputs.
    pub fn outputs(&self) -> &[DType] {
        &self.0.outputs
    }

    /// The run-time values.
    pub fn params(&self) -> &[ParamSlot] {
        &self.0.params
    }

    /// How many elements of the output belong to one pixel, where the program runs over pixels: each of them is computed
    /// with the whole pixel at hand. Otherwise it runs over elements.
    pub fn pixel(&self) -> Option<usize> {
        self.0.pixel
    }

    /// The code.
    pub fn ops(&self) -> &[Op] {
        &self.0.ops
    }

    /// The type of each op's result.
    pub fn types(&self) -> &[Ty] {
        &self.0.types
    }

    /// A number that is the same for programs that compile to the same code.
    pub fn fingerprint(&self) -> u128 {
        self.0.fingerprint
    }

    /// Whether two programs compile to the same code.
    pub fn same_code(&self, other: &Program) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.fingerprint == other.0.fingerprint
                && self.0.ops == other.0.ops
                && self.0.inputs == other.0.inputs
                && self.0.pixel == other.0.pixel
                && self.0.outputs == other.0.outputs
                && self.0.params.iter().map(|param| param.ty).eq(other.0.params.iter().map(|param| param.ty)))
    }

    /// The program that moves 32-bit words unchanged: a copy, whatever the element type.
    pub fn move_words() -> Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
            Program::new(
                vec![InputSlot::elements(DType::U32)],
                vec![DType::U32],
                Vec::new(),
                None,
                vec![Op::Input { slot: 0 }, Op::Store { slot: 0, value: 0 }],
                vec![Ty::U32, Ty::U32],
            )
        });
        PROGRAM.clone()
    }

    /// The program that sets every 32-bit word to zero.
    pub fn zero_words() -> Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
            Program::new(
                Vec::new(),
                vec![DType::U32],
                Vec::new(),
                None,
                vec![Op::Const(Scalar::U32(0)), Op::Store { slot: 0, value: 0 }],
                vec![Ty::U32, Ty::U32],
            )
        });
        PROGRAM.clone()
    }

    /// Whether it only moves its input to its output, unchanged.
    pub fn is_copy(&self) -> bool {
        matches!(
            (self.inputs(), self.outputs(), self.ops()),
            ([input], [output], [Op::Input { .. }, Op::Store { .. }]) if input.dtype == *output && !input.broadcast
        )
    }

    /// The highest axis whose coordinate or size is used, plus one: 0 if positions do not matter.
    pub fn rank_used(&self) -> usize {
        let axes = self.ops().iter().filter_map(|op| match op {
            Op::Coord(axis) | Op::Dim(axis) => Some(axis + 1),
            _ => None,
        });
        axes.max().unwrap_or(0)
    }

    /// Whether an input is read at other places than an element's own: another channel of its pixel, or anywhere.
    pub fn reads_neighbours(&self) -> bool {
        self.ops().iter().any(|op| matches!(op, Op::Channel { .. } | Op::Gather { .. }))
    }

    /// Whether input `slot` is gathered from, so that its length matters.
    pub fn gathers(&self, slot: usize) -> bool {
        self.ops().iter().any(|op| matches!(op, Op::Gather { slot: own, .. } if *own == slot))
    }

    /// Whether positions or sizes are used, which are computed in 32 bits.
    pub fn uses_position(&self) -> bool {
        self.ops().iter().any(|op| matches!(op, Op::Index | Op::Coord(_) | Op::Dim(_)))
    }

    /// What computing one element costs, in simple operations.
    pub fn weight(&self) -> u64 {
        let weight = |op: &Op| match op {
            Op::Unary(op, _) if op.is_approximate() => 8,
            Op::Binary(op, ..) if op.is_approximate() => 16,
            Op::Input { .. } | Op::Const(_) | Op::Param(_) | Op::Store { .. } => 0,
            _ => 1,
        };
        self.ops().iter().map(weight).sum()
    }
}
