//! Hostile input for everything that reads what others wrote: expressions, pipelines, params, models, pictures.
//!
//! A [`Target`] is one such reader. A [session](session::run) gives it inputs for some time, made up by the target's own
//! generator and mutated from a corpus that grows by every input whose outcome is new. Nothing is required of the compiler:
//! what an input came to stands in for coverage.
//!
//! An input fails if it panics, takes over 4 seconds, takes over 512 MiB, or breaks a rule that the target states. Sessions
//! run in a process of their own, which is [watched](watch::watch), so that a stack that overflows, an abort and a hang are
//! found too.

pub mod memory;
mod mutate;
mod random;
mod report;
pub mod session;
mod target;
pub mod targets;
pub mod watch;

pub use mutate::Mutator;
pub use random::Random;
pub use report::{Failure, Report};
pub use target::{Progress, Target};
