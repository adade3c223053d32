//! What a kernel is, as plain data: element types, shapes, params, kernel specs and expressions.
//!
//! This crate knows no device, starts no thread and does no I/O. It is the one place where calls are validated:
//! [`validate`] checks a call against its [`KernelSpec`] exhaustively, so that the layers below may rely on it.
//!
//! The main types:
//!
//! - [`DType`], [`Scalar`], [`Data`]: the twelve element types and values of them on the host
//! - [`Shape`], [`TensorType`]: the shape of a buffer, and shape plus element type
//! - [`Params`], [`ParamSpec`]: named values, and what a kernel says about them
//! - [`KernelSpec`]: a kernel's name, inputs, output rule and params
//! - [`Expr`]: a pointwise expression, built in Rust or parsed from text
//! - [`Program`]: an expression type-checked for given element types: what devices execute
//!
//! ```
//! use dala_spec::{Expr, Scope, Signature, DType, TensorType};
//!
//! let scope = Scope::new(["x"], ["gain"]);
//! let expr = Expr::parse("clamp(x * gain, 0, 1)", &scope)?;
//! assert_eq!(expr.to_string(), "clamp(x * gain, 0, 1)");
//! # Ok::<(), dala_spec::ExprError>(())
//! ```

/// The number of this crate's sources: what was derived from others must not be taken for what would be derived from these.
pub const SOURCES: &str = env!("DALA_SOURCES");

mod data;
mod dtype;
mod error;
pub mod expr;
mod kernel;
mod params;
mod shape;
mod suggest;
mod tolerance;
mod validate;

pub use half::{bf16, f16};

pub use data::Data;
pub use dtype::{DType, Element, Scalar};
pub use error::{SpecError, Unsupported};
pub use expr::{Expr, ExprError, Program, Scope};
pub use kernel::{
    Class, DTypes, FACTORS, FLOATS, FurtherFn, FurtherOutputs, INTEGERS, InputSpec, KernelSpec, NUMBERS, OutputDType,
    OutputRule, OutputShape, PIXELS, ShapeCall, ShapeFn, ShapeRule,
};
pub use params::{ParamKey, ParamKind, ParamSpec, ParamValue, Params, ResolvedParams, param};
pub use shape::{ImageShape, Shape, ShapeProblem, TensorType};
pub use suggest::nearest;
pub use tolerance::{Closeness, Tolerance};
pub use validate::{Signature, further_types, validate, validate_further, validate_outputs};
