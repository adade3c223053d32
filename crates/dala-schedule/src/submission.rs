//! How commands come to a queue, and why they do not.

use std::time::Duration;

use crate::{CommandId, End, Lane};

/// What to do when a lane is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// Wait until there is room, at most until the command's deadline.
    #[default]
    Wait,
    /// Refuse the command.
    Refuse,
    /// End the oldest command of the lane that has not started, as dropped.
    DropOldest,
}

/// How a command is to be queued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Submission {
    /// Its lane.
    pub lane: Lane,
    /// It must start before so much time has passed.
    pub start_within: Option<Duration>,
    /// What to do if the lane is full.
    pub when_full: WhenFull,
    /// Refuse it if the device is suspended, also where others wait.
    pub refuse_if_suspended: bool,
}

/// Why a command was not accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal<E> {
    /// The lane is full.
    Full {
        /// Which lane.
        lane: Lane,
        /// How many commands wait in it.
        capacity: usize,
    },
    /// Its deadline passed while it waited for room.
    DeadlineExceeded,
    /// The device is suspended, and commands are to fail.
    Suspended,
    /// What it reads may not be read.
    Unreadable(E),
    /// The queue was closed.
    Closed,
    /// The system gives no thread.
    NoThread(String),
}

/// Why a command that was waited for did not complete.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfinished<E> {
    /// It was not accepted.
    Refused(Refusal<E>),
    /// It ended in another way.
    Ended(CommandId, End<E>),
}

impl<E> From<Refusal<E>> for Unfinished<E> {
    fn from(refusal: Refusal<E>) -> Unfinished<E> {
        Unfinished::Refused(refusal)
    }
}
