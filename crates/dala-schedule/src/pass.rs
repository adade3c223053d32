//! Work, and the passes it is launched in.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::{CommandId, End, Lane, ResourceId, Time};

/// What the rules need to know of a command.
pub trait Schedulable {
    /// The number of stages. They run in order; between two of them others may run.
    fn stages(&self) -> usize;
    /// How long a stage keeps the device busy, if that was measured.
    fn cost(&self, stage: usize) -> Option<Duration>;
    /// What it reads before it writes it, each once.
    fn reads(&self) -> &[ResourceId];
    /// What it writes, each once.
    fn writes(&self) -> &[ResourceId];
    /// Whether the thread that submitted it executes it, when it is its turn. Such a command does not hurry those that it
    /// waits for: it enters its lane when they are launched.
    fn needs_caller(&self) -> bool {
        false
    }
}

/// Stages of one command that are launched together.
#[derive(Debug)]
pub struct Piece<W> {
    /// The command.
    pub command: CommandId,
    /// Its work.
    pub work: Arc<W>,
    /// Which stages.
    pub stages: Range<usize>,
}

/// Stages that are launched together, in order, and answered for together.
#[derive(Debug)]
pub struct Pass<W> {
    /// The lane whose turn it is.
    pub lane: Lane,
    /// The stages.
    pub pieces: Vec<Piece<W>>,
}

/// What to do next.
#[derive(Debug)]
pub enum Next<W> {
    /// Launch this. Passes are [settled](crate::Scheduler::settle) in the order in which they were launched.
    Run(Arc<Pass<W>>),
    /// Let the thread that submitted this command execute it, then settle it.
    Caller(CommandId),
    /// Wait for the oldest pass in flight, and settle it.
    Finish,
    /// Nothing can start, until something changes or it is that late.
    Idle {
        /// When to ask again.
        until: Option<Time>,
    },
}

/// A command that ended.
#[derive(Debug)]
pub struct Ended<W, E> {
    /// The command.
    pub id: CommandId,
    /// Its work.
    pub work: Arc<W>,
    /// How it ended.
    pub end: End<E>,
}
