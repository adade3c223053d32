//! What runs on the device: the kernels of Dala Compute, one file each in a folder per family, and a
//! launcher for each class of them.
//!
//! This crate describes kernels and queues their launches. It leaves validation to `dala-spec`, and memory, errors and
//! synchronisation to `dala-compute`. The main types are [`Kernel`] and [`Registry`]; [`list::built_in`] is the list of
//! all kernels.

/// The engine's version and the numbers of the sources on which depends what a kernel becomes, beside its own values.
pub const SOURCES: [&str; 4] = ["cubecl 0.12.0-pre.1", dala_spec::SOURCES, dala_plan::SOURCES, env!("DALA_SOURCES")];

/// Whether a kernel of this type is one of ours, whose sources have numbers: what others wrote may change without them.
pub fn is_numbered(kernel_type: &str) -> bool {
    kernel_type.starts_with(concat!(env!("CARGO_CRATE_NAME"), "::"))
}

mod compile;
mod composite;
mod device;
mod elementwise;
#[cfg(test)]
pub mod example;
mod expression;
mod kernel;
mod keys;
pub mod launch;
pub mod list;
mod lower;
mod reference;
mod registry;
pub mod table;

pub use compile::{compile, compile_checked, plan_calls, supported};
pub use composite::Composite;
pub use kernel::{Example, Kernel, KernelId, MakeExpr, MakeLowering, MakeParts, MakeReference, Parts, Work};
pub use reference::Reference;
pub use registry::Registry;

/// What kernels from outside lower with, as those in here do.
pub mod author {
    pub use crate::lower::filter::{VALUES, border_param, filtered, reference as filtered_reference, same_image};
    pub use crate::lower::reduce::Line;
    pub use crate::lower::shapes::axis;
}

macro_rules! declare {
    ($($(#[$doc:meta])* $family:ident { $($kernel:ident,)+ })+) => {
        $($(#[$doc])* pub mod $family {
            $(pub mod $kernel;)+
        })+
    };
}
list::with_kernels!(declare);
