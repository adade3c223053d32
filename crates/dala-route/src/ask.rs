//! Requests, and where they go.

use std::fmt;
use std::time::Duration;

use dala_batch::{Lane, Time};

use crate::Member;

/// What a router has to know of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// How urgent it is.
    pub lane: Lane,
    /// When its answer is worth nothing any more.
    pub deadline: Option<Time>,
    /// Whether it may be run twice: an answer depends on the request alone, and nothing else is changed.
    pub pure: bool,
    /// The only member that can answer it, as where a buffer lives that it names.
    pub only: Option<Member>,
}

/// A request that is with a member. It ends exactly once: with an answer, a [`Refused`], or when nobody wants it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// A number that no other ticket of this router ever has.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// Where a request goes: send it there, and tell what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The request, for what is told of it.
    pub ticket: Ticket,
    /// Who is asked.
    pub member: Member,
    /// When the answer is expected; zero if nobody knows.
    pub expected_wait: Duration,
    /// Without an answer by then it is [`late`](crate::Router::late): the deadline, or earlier where there has to be time for
    /// another member.
    pub until: Option<Time>,
}

/// Whether a request that was lost may have been run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It certainly was not: there was no connection.
    No,
    /// Nobody knows.
    Perhaps,
}

/// A request that goes nowhere, or not again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// When another try may do better; zero if nobody can say.
    pub retry_after: Duration,
}

/// Why a request goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody answers to the name.
    NoMembers,
    /// All others drain or were lost a short time ago.
    Away {
        /// How many.
        resting: usize,
    },
    /// All that were looked at are too full for its deadline.
    Busy {
        /// How many.
        looked: usize,
        /// The shortest time in which one of them would have answered.
        expected_wait: Duration,
    },
    /// Its deadline passed.
    TooLate,
    /// It was with everybody who may answer it.
    Tried {
        /// How often it was sent.
        tries: usize,
    },
    /// It was sent as often as [`Limits::tries`](crate::Limits::tries) says.
    TooOften {
        /// How often.
        tries: usize,
    },
    /// It may have been run, and must not be run twice.
    MayHaveRun,
    /// So many requests failed of late that repeating them would make it worse.
    TooManyRepeats,
    /// The only member that can answer it is not there.
    NotThere {
        /// Who.
        member: Member,
    },
    /// The ticket is not known: its request ended before.
    UnknownTicket,
}

impl Refusal {
    /// A stable name for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::NoMembers => "no_members",
            Refusal::Away { .. } => "away",
            Refusal::Busy { .. } => "busy",
            Refusal::TooLate => "too_late",
            Refusal::Tried { .. } => "tried",
            Refusal::TooOften { .. } => "too_often",
            Refusal::MayHaveRun => "may_have_run",
            Refusal::TooManyRepeats => "too_many_repeats",
            Refusal::NotThere { .. } => "not_there",
            Refusal::UnknownTicket => "unknown_ticket",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoMembers => f.write_str("there are no members"),
            Refusal::Away { resting } => write!(f, "{resting} drain or were lost, and there are no others"),
            Refusal::Busy { looked, expected_wait } => {
                write!(f, "of {looked} none is in time, the first in {expected_wait:.1?}")
            }
            Refusal::TooLate => f.write_str("its deadline passed"),
            Refusal::Tried { tries } => write!(f, "everybody who may answer it was asked, {tries} in all"),
            Refusal::TooOften { tries } => write!(f, "it was sent {tries} times"),
            Refusal::MayHaveRun => f.write_str("it may have been run, and must not be run twice"),
            Refusal::TooManyRepeats => f.write_str("too many requests are repeated"),
            Refusal::NotThere { member } => write!(f, "{member}, which alone can answer it, is not there"),
            Refusal::UnknownTicket => f.write_str("it ended before"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl std::error::Error for Refused {}
