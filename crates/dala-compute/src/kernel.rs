//! What a kernel of your own is made of, where an expression ([`Device::define`](crate::Device::define)) is not enough.
//!
//! - A [`Kernel`] is a [`KernelSpec`](crate::KernelSpec), by which calls are validated; its work; and a [`Reference`] in plain
//!   Rust, by which [`Plan::verify`](crate::Plan::verify) checks it. [`Device::add_kernel`](crate::Device::add_kernel) adds it.
//! - [`Kernel::lowered`] describes work by the tasks that the built-in kernels use: a [`Stencil`], a [`Fold`], a [`Map`].
//!   Neighbours fuse with it as they do with those.
//! - [`Kernel::cube`] takes a whole CubeCL function, a [`CubeFunction`]. Nothing is fused with it.
//!   [`cubecl`] is the engine's own crate, in the version that fits.
//!
//! Tasks, fragments and launches are as close to the engine as this library gets: they may change between versions that are
//! compatible otherwise.

pub use dala_kernels::author::{Line, VALUES, axis, border_param, filtered, filtered_reference, same_image};
pub use dala_kernels::launch::{CubeFunction, CubeLaunch, Grid, LaunchRefused, cube_task};
pub use dala_kernels::{
    Example, Kernel, KernelId, MakeExpr, MakeLowering, MakeParts, MakeReference, Parts, Reference, Work,
};
pub use dala_plan::work::{
    Argument, AxisSum, Border, Filter, Finish, Fold, FoldOp, Fragment, Histogram, Map, Matmul, Opaque, Pack, Phase,
    Pool, PoolOp, ReadsMore, Resample, Source, Stencil, StridedCopy, TaskKind, Tile, Windows,
};
pub use dala_plan::{DeviceFacts, Lowering, Place, Step, Task};
pub use dala_spec::{
    Class, Closeness, DTypes, Expr, FLOATS, InputSpec, NUMBERS, OutputDType, OutputRule, OutputShape, PIXELS, ParamKey,
    Program, ResolvedParams, Scope, ShapeCall, ShapeFn, ShapeRule, Signature, Tolerance, expr, validate,
};
