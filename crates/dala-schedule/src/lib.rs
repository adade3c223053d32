//! Which work of a device runs next, and the threads that carry it out.
//!
//! The rules are pure: [`Scheduler`] is plain data, told what was submitted, what ended and what time it is. It answers what
//! to run next ([`Next`]), and knows nothing of threads, clocks or devices. [`Queue`] carries its answers out: it hands
//! passes to an [`Executor`], answers whoever waits for a command, and never makes a submitter wait behind a wait.
//!
//! - Commands that touch the same resource keep their submission order, whatever their lanes.
//! - Otherwise a higher [`Lane`] goes first, at the boundaries of stages; a lower one keeps a small share.
//! - A pass holds as many stages as fit a span of measured time, and at least one.
//! - A command that does not complete takes along those that were to read what it should have written.
//!
//! What the work is, and how it is executed, is left to the caller: see [`Schedulable`] and [`Executor`].

mod callbacks;
mod command;
mod executor;
mod governor;
mod hazards;
mod lane;
mod pass;
mod queue;
mod scheduler;
mod stats;
mod submission;
mod sync;
mod time;

pub use callbacks::in_callback;
pub use command::{CommandId, CommandState, End, Ticket};
pub use executor::Executor;
pub use governor::{Governor, Power, Thermal, WhileSuspended};
pub use hazards::ResourceId;
pub use lane::Lane;
pub use pass::{Ended, Next, Pass, Piece, Schedulable};
pub use queue::{Queue, QueueOptions};
pub use scheduler::Scheduler;
pub use stats::{LaneStats, QueueStats, Totals};
pub use submission::{Refusal, Submission, Unfinished, WhenFull};
pub use time::{Clock, Time};
