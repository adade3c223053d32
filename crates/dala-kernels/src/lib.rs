//! What runs on the device: the kernels of Dala Compute, one file each in a folder per family, and a
//! launcher for each class of them.
//!
//! This crate describes kernels and queues their launches. It leaves validation to `dala-spec`, and memory, errors and
//! synchronisation to `dala-compute`. The main types are [`Kernel`] and [`Registry`]; [`list::built_in`] is the list of
//! all kernels.

/// The engine's version and the numbers of the sources on which depends what a kernel becomes, beside its own values.
pub const SOURCES: [&str; 4] = ["cubecl 0.12.0-pre.1", dala_spec::SOURCES, dala_plan::SOURCES, env!("DALA_SOURCES")];

mod compile;
mod composite;
mod device;
#[cfg(test)]
pub mod example;
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
pub use kernel::{Example, Kernel, KernelId, LowerFn, MakeExpr, MakeParts, Parts, Work};
pub use reference::Reference;
pub use registry::Registry;

macro_rules! declare {
    ($($(#[$doc:meta])* $family:ident { $($kernel:ident,)+ })+) => {
        $($(#[$doc])* pub mod $family {
            $(pub mod $kernel;)+
        })+
    };
}
list::with_kernels!(declare);
