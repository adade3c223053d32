//! Requests, and why they are not taken.

use std::fmt;
use std::time::Duration;

use crate::slab::Id;
use crate::{Lane, Time};

/// What can share a batch: a model at given shapes of one item. Handed out by [`Batcher::key`](crate::Batcher::key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub(crate) number: u64,
    pub(crate) slot: u32,
}

/// Whoever sends requests, and is treated fairly beside others: a connection, a user, a token. The server says which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);

/// A request that was taken. It ends exactly once, as an [`Ended`](crate::Ended).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) number: u64,
    pub(crate) slot: u32,
}

impl Key {
    /// A number that no other key of this batcher ever has.
    pub fn number(self) -> u64 {
        self.number
    }
}

impl Ticket {
    /// A number that no other ticket of this batcher ever has; later requests have larger ones.
    pub fn number(self) -> u64 {
        self.number
    }
}

impl Id for Key {
    fn new(number: u64, slot: u32) -> Key {
        Key { number, slot }
    }
    fn number(self) -> u64 {
        self.number
    }
    fn slot(self) -> u32 {
        self.slot
    }
}

impl Id for Ticket {
    fn new(number: u64, slot: u32) -> Ticket {
        Ticket { number, slot }
    }
    fn number(self) -> u64 {
        self.number
    }
    fn slot(self) -> u32 {
        self.slot
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.number)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "caller {}", self.0)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.number)
    }
}

/// What a batcher has to know of a request. Its data stays with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it can share a batch with.
    pub key: Key,
    /// How urgent it is.
    pub lane: Lane,
    /// Who sent it.
    pub caller: Caller,
    /// When its answer is worth nothing any more.
    pub deadline: Option<Time>,
    /// How many items it has, one at least: they stay together in one batch.
    pub items: u32,
    /// How much memory it takes until it ended.
    pub bytes: u64,
}

/// A request that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// When another try may do better; zero if it will not.
    pub retry_after: Duration,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room for it now.
    Full {
        /// Whose room it is that is full.
        whose: Room,
        /// Items that are held there.
        items: u64,
        /// Bytes that are held there.
        bytes: u64,
        /// When a request like this would be answered if there were room.
        expected_wait: Duration,
    },
    /// It would not be answered before its deadline.
    TooLate {
        /// How long it is expected to take until it is answered: what waits before it, and its own run.
        expected_wait: Duration,
    },
    /// No plan of its key holds so many items, or the batcher never has so much room.
    TooLarge {
        /// The most items that one request may have.
        items: u32,
        /// The most bytes that one request may have.
        bytes: u64,
    },
    /// It has no items.
    Empty,
    /// The batcher takes nothing new.
    Draining,
    /// Its key was forgotten, or is of another batcher.
    UnknownKey,
}

/// Whose room is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// That of all requests, as far as the lane may use it.
    Lane(Lane),
    /// The share of one caller.
    Caller(Caller),
}

impl Refusal {
    /// A stable name for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::Full { .. } => "full",
            Refusal::TooLate { .. } => "too_late",
            Refusal::TooLarge { .. } => "too_large",
            Refusal::Empty => "empty",
            Refusal::Draining => "draining",
            Refusal::UnknownKey => "unknown_key",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full { whose: Room::Lane(lane), items, bytes, expected_wait } => {
                write!(f, "no room in the {lane} lane: {items} items, {bytes} bytes, expected wait {expected_wait:.1?}")
            }
            Refusal::Full { whose: Room::Caller(caller), items, bytes, expected_wait } => {
                write!(f, "no room for {caller}: has {items} items, {bytes} bytes, expected wait {expected_wait:.1?}")
            }
            Refusal::TooLate { expected_wait } => {
                write!(f, "its deadline is before its answer, in {expected_wait:.1?}")
            }
            Refusal::TooLarge { items, bytes } => write!(f, "a request has at most {items} items and {bytes} bytes"),
            Refusal::Empty => f.write_str("it has no items"),
            Refusal::Draining => f.write_str("nothing new is taken"),
            Refusal::UnknownKey => f.write_str("its key is not known"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl std::error::Error for Refused {}
