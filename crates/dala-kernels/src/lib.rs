//! What runs on the device: the kernels of Dala Compute, one file each in a folder per family, and the one program
//! kernel behind every pointwise expression.
//!
//! This crate describes kernels and queues their launches. It leaves validation to `dala-spec`, and memory, errors and
//! synchronisation to `dala-compute`. The main types are [`Kernel`] and [`Registry`]; [`list::built_in`] is the list of
//! all kernels.

pub mod image;
mod kernel;
pub mod list;
pub mod math;
pub mod program;
mod reference;
mod registry;
pub mod table;

pub use kernel::{Kernel, KernelId, Work};
pub use reference::Reference;
pub use registry::Registry;
