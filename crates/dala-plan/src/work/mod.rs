//! What a call comes down to: a list of launches over its buffers and over scratch memory, as plain data.
//!
//! A kernel's lowering is a pure function of its call and the device's facts. Each [`Step`] is one launch of one
//! [`Task`]. The arithmetic at a task's edges, what happens to elements as they are loaded and before they are stored, is
//! given as programs ([`Fragment`]), so that neighbouring pointwise work can be fused into it.
//!
//! A task has a file of its own, and a line in the [list](crate::with_tasks).

mod border;
mod fragment;
mod kind;
mod list;
mod lowering;
mod task;
mod tile;
pub mod width;
mod windows;

pub use border::Border;
pub use fold::{Finish, FoldOp, Phase};
pub use fragment::{Argument, Fragment, Source};
pub use kind::{ReadsMore, TaskKind};
pub use lowering::{Lowering, Place, Step};
pub use pool::PoolOp;
pub use stencil::Filter;
pub use strided_copy::COPY_AXES;
pub use task::{LARGEST_INDEX, Task};
pub use tile::Tile;
pub use windows::Windows;

use kind::fragments;
use width::APART;

macro_rules! declare {
    ($($(#[$doc:meta])* $file:ident: $task:ident,)+) => {$(
        mod $file;
        pub use $file::$task;
    )+};
}
crate::with_tasks!(declare);
