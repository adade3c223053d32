//! Why a call was refused before anything was launched.

use std::fmt;

use crate::{DType, ExprError, ShapeProblem};

/// A call that does not fit its kernel. Each case has a stable [`code`](SpecError::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No kernel has this name.
    #[error("no kernel is called `{name}`{}", did_you_mean(.suggestion))]
    UnknownKernel {
        /// The name that was asked for.
        name: String,
        /// A name that is close to it.
        suggestion: Option<String>,
    },
    /// A kernel of this name exists already.
    #[error("a kernel called `{name}` exists already")]
    DuplicateKernel {
        /// The name.
        name: String,
    },
    /// Two inputs or params of a kernel have one name.
    #[error("kernel `{kernel}` has two arguments called `{argument}`")]
    DuplicateArgument {
        /// The kernel.
        kernel: String,
        /// The name.
        argument: String,
    },
    /// The name is not a lower-case word.
    #[error("`{name}` cannot be a name: use lower-case letters, digits and underscores, starting with a letter")]
    BadName {
        /// The name.
        name: String,
    },
    /// The wrong number of inputs.
    #[error("kernel `{kernel}` takes {expected} input{}, found {actual}", if .expected == "1" { "" } else { "s" })]
    Arity {
        /// The kernel.
        kernel: String,
        /// How many inputs it takes.
        expected: String,
        /// How many were given.
        actual: usize,
    },
    /// The wrong number of outputs, or one of them twice.
    #[error("kernel `{kernel}` has {expected} output{}, each a buffer of its own, found {actual}", if *.expected == 1 { "" } else { "s" })]
    Outputs {
        /// The kernel.
        kernel: String,
        /// How many outputs it has.
        expected: usize,
        /// How many different ones were given.
        actual: usize,
    },
    /// An argument's element type is not one the kernel takes.
    #[error("{argument} of kernel `{kernel}` must be {}, found {actual}", list(.expected))]
    DTypeMismatch {
        /// The kernel.
        kernel: String,
        /// The argument: `input a` or `the output`.
        argument: String,
        /// What it may be.
        expected: Vec<DType>,
        /// What it is.
        actual: DType,
    },
    /// An argument's shape does not fit the others.
    #[error("{argument} of kernel `{kernel}` must have shape {expected}, found {actual}")]
    ShapeMismatch {
        /// The kernel.
        kernel: String,
        /// The argument: `input a` or `the output`.
        argument: String,
        /// What it must be, in words or as a shape.
        expected: String,
        /// What it is.
        actual: String,
    },
    /// An argument has the wrong number of dimensions.
    #[error("{argument} of kernel `{kernel}` must have rank {expected}, found rank {actual}")]
    RankMismatch {
        /// The kernel.
        kernel: String,
        /// The argument.
        argument: String,
        /// The ranks it may have.
        expected: String,
        /// Its rank.
        actual: usize,
    },
    /// The kernel has no param of this name.
    #[error("kernel `{kernel}` has no param `{param}`{}", did_you_mean_or(.suggestion, .known))]
    UnknownParam {
        /// The kernel.
        kernel: String,
        /// The name that was given.
        param: String,
        /// A name that is close to it.
        suggestion: Option<String>,
        /// The params it has.
        known: Vec<String>,
    },
    /// A param without a default was not given.
    #[error("kernel `{kernel}` needs the param `{param}`")]
    MissingParam {
        /// The kernel.
        kernel: String,
        /// The param.
        param: String,
    },
    /// A param's value has the wrong type.
    #[error("param `{param}` of kernel `{kernel}` must be {}, found {actual}", one_of_kind(.expected))]
    ParamType {
        /// The kernel.
        kernel: String,
        /// The param.
        param: String,
        /// The type it must have.
        expected: String,
        /// The type and value it has.
        actual: String,
    },
    /// A param's value is out of range.
    #[error("param `{param}` of kernel `{kernel}` must be from {} to {}, found {actual}", bound(*.min), bound(*.max))]
    ParamRange {
        /// The kernel.
        kernel: String,
        /// The param.
        param: String,
        /// The smallest value.
        min: f64,
        /// The largest value.
        max: f64,
        /// The value that was given.
        actual: String,
    },
    /// The device does not compute this on these element types.
    #[error("kernel `{kernel}` cannot run on {device}: {reason}")]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// What it does not support, and what it does.
        reason: Unsupported,
    },
    /// The expression does not parse or type-check.
    #[error(transparent)]
    Expr(#[from] ExprError),
    /// A stage reads a transient buffer that no stage before it writes.
    #[error("{argument} is the transient `{name}`, which no stage before writes")]
    UnwrittenTransient {
        /// The argument: `input x of kernel k`, or `the source of a copy`.
        argument: String,
        /// The transient.
        name: String,
    },
    /// The element type of a transient buffer does not follow from the stage that writes it first.
    #[error("the output of kernel `{kernel}` may be {}: say which one the transient `{name}` is", list(.possible))]
    AmbiguousType {
        /// The kernel.
        kernel: String,
        /// The transient.
        name: String,
        /// The types it may have.
        possible: Vec<DType>,
    },
    /// The shape of a transient buffer does not follow from the stage that writes it first.
    #[error("the shape of the transient `{name}` does not follow from kernel `{kernel}`{}: give it one", match .expected {
        Some(expected) => format!(", which asks for {expected}"),
        None => String::new(),
    })]
    AmbiguousShape {
        /// The kernel.
        kernel: String,
        /// The transient.
        name: String,
        /// What the kernel asks for, in words or as a shape.
        expected: Option<String>,
    },
    /// A transient buffer that fits no memory.
    #[error("the transient `{name}` of shape {shape} is larger than any memory")]
    TooLarge {
        /// The transient.
        name: String,
        /// Its shape.
        shape: String,
    },
    /// A copy between buffers of different sizes.
    #[error("a copy needs buffers of one size, found {from} and {to} bytes")]
    CopySize {
        /// Bytes of the source.
        from: usize,
        /// Bytes of the target.
        to: usize,
    },
    /// A kernel failed while its call was prepared, or on the host: a fault of whoever wrote it.
    #[error("kernel `{kernel}` failed: {message}")]
    KernelFailed {
        /// The kernel.
        kernel: String,
        /// What it said.
        message: String,
    },
    /// What was checked does not hold: a fault of this library's.
    #[error("a fault of this library: {what}")]
    Internal {
        /// What was found.
        what: String,
    },
}

impl SpecError {
    /// A fault of this library's.
    pub fn internal(what: impl Into<String>) -> SpecError {
        SpecError::Internal { what: what.into() }
    }

    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            SpecError::UnknownKernel { .. } => "unknown_kernel",
            SpecError::DuplicateKernel { .. } => "duplicate_kernel",
            SpecError::DuplicateArgument { .. } => "duplicate_argument",
            SpecError::BadName { .. } => "bad_name",
            SpecError::Arity { .. } => "arity",
            SpecError::Outputs { .. } => "outputs",
            SpecError::DTypeMismatch { .. } => "dtype_mismatch",
            SpecError::ShapeMismatch { .. } => "shape_mismatch",
            SpecError::RankMismatch { .. } => "rank_mismatch",
            SpecError::UnknownParam { .. } => "unknown_param",
            SpecError::MissingParam { .. } => "missing_param",
            SpecError::ParamType { .. } => "param_type",
            SpecError::ParamRange { .. } => "param_out_of_range",
            SpecError::Unsupported { .. } => "unsupported",
            SpecError::UnwrittenTransient { .. } => "unwritten",
            SpecError::AmbiguousType { .. } => "ambiguous_type",
            SpecError::AmbiguousShape { .. } => "ambiguous_shape",
            SpecError::TooLarge { .. } => "shape_too_large",
            SpecError::CopySize { .. } => "size_mismatch",
            SpecError::Expr(_) => "bad_expression",
            SpecError::KernelFailed { .. } => "kernel_failed",
            SpecError::Internal { .. } => "internal",
        }
    }
}

/// Why a device cannot run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// It does not compute on the element type.
    DType {
        /// The element type.
        dtype: DType,
        /// The ones it does compute on.
        supported: Vec<DType>,
    },
    /// The program binds too many buffers.
    Bindings {
        /// How many it needs.
        needed: usize,
        /// How many the device binds.
        max: usize,
    },
    /// The program counts elements beyond the largest index.
    Length {
        /// How many elements there are.
        elements: usize,
        /// The largest number of elements.
        max: usize,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::DType { dtype, supported } => {
                write!(f, "it does not compute on {dtype}, but on {}", list(supported).replace(" or ", " and "))
            }
            Unsupported::Bindings { needed, max } => {
                write!(f, "the call binds {needed} buffers, and it binds at most {max}")
            }
            Unsupported::Length { elements, max } => {
                write!(f, "the call has {elements} elements, and kernels index at most {max}")
            }
        }
    }
}

/// Launches are made for calls whose shapes were found to fit.
impl From<ShapeProblem> for SpecError {
    fn from(problem: ShapeProblem) -> SpecError {
        SpecError::internal(format!("a call that was checked does not fit: {problem:?}"))
    }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

fn did_you_mean_or(suggestion: &Option<String>, known: &[String]) -> String {
    match suggestion {
        Some(_) => did_you_mean(suggestion),
        None if known.is_empty() => ": it has none".to_owned(),
        None => format!(": it has {}", known.join(", ")),
    }
}

/// `an int`, `a list of ints`, `clamp, reflect or zero`.
fn one_of_kind(kind: &str) -> String {
    match kind.rsplit_once(" | ") {
        Some((words, last)) => format!("{} or {last}", words.replace(" | ", ", ")),
        None if kind == "int" => format!("an {kind}"),
        None => format!("a {kind}"),
    }
}

/// The end of a range. Few digits where the range is all that a float holds; and zero has no sign.
fn bound(value: f64) -> String {
    let size = value.abs();
    if size >= 1e20 || (size > 0.0 && size < 1e-6) { format!("{value:e}") } else { (value + 0.0).to_string() }
}

/// `f32`, `f32 or f64`, `f32, f64 or u8`.
fn list(dtypes: &[DType]) -> String {
    match dtypes {
        [] => "of no type".to_owned(),
        [one] => one.to_string(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(|dtype| dtype.name()).collect();
            format!("{} or {last}", rest.join(", "))
        }
    }
}
