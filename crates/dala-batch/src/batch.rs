//! Batches, and how requests end.

use std::fmt;
use std::time::Duration;

use crate::{Key, Lane, Request, Ticket, Time};

/// A batch that was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub(crate) u64);

impl BatchId {
    /// A number that no other batch of this batcher ever has.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {}", self.0)
    }
}

/// Requests that share a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id, for [`finished`](crate::Batcher::finished).
    pub id: BatchId,
    /// What it is of.
    pub key: Key,
    /// The planned size to run: at least `items`. What is missing is filled up with anything.
    pub size: u32,
    /// Items of all its requests.
    pub items: u32,
    /// The highest lane of its requests: how urgent the run is to the device.
    pub lane: Lane,
    /// Its requests, in the order of their items.
    pub tickets: Vec<Ticket>,
    /// How long it is expected to take; zero if nobody knows.
    pub expected: Duration,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this, and tell [`finished`](crate::Batcher::finished). Then ask again: there may be more.
    Run(Batch),
    /// Nothing starts before that time, unless a request comes or a batch ends. Ask again then.
    WaitUntil(Time),
    /// Nothing starts until a request comes or a batch ends.
    Idle,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its results are there.
    Done,
    /// It failed, and the device goes on: one of its requests may be the cause.
    Failed,
    /// It failed because the device, or the process that has it, is gone. Ask for more when there is one again.
    Lost,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was run: its results are in the batch that just finished.
    Done,
    /// It made a batch fail that it was alone in.
    Failed,
    /// The device was lost with it as often as [`Limits::losses`](crate::Limits::losses) says.
    Lost,
    /// It did not start in time: its deadline passed, or it could not be met any more.
    Expired,
    /// Its caller had gone.
    Left,
    /// Its key was forgotten.
    Unloaded,
}

impl End {
    /// A stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Failed => "failed",
            End::Lost => "lost",
            End::Expired => "expired",
            End::Left => "left",
            End::Unloaded => "unloaded",
        }
    }
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub ticket: Ticket,
    /// As it was offered.
    pub request: Request,
    /// How.
    pub end: End,
    /// The batch that it ended with, if it ended with one.
    pub batch: Option<BatchId>,
    /// Time from offer to its end.
    pub took: Duration,
    /// Of that, time until its last run began; all of it if it never ran.
    pub waited: Duration,
    /// How often it was run.
    pub runs: u32,
}
