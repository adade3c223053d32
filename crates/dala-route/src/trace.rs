//! What was decided, and on what numbers.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use dala_batch::{Lane, Time};

use crate::{Member, Refused, Ticket};

/// Something that was decided, or that happened. It prints as one line that says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member came.
    Joined {
        /// Who.
        member: Member,
    },
    /// A member went.
    Left {
        /// Who.
        member: Member,
    },
    /// A request goes to a member.
    Sent {
        /// Which.
        ticket: Ticket,
        /// To whom.
        member: Member,
        /// Its lane.
        lane: Lane,
        /// How often it was sent, this time included.
        tries: usize,
        /// When its answer is expected; zero if nobody knows.
        expected_wait: Duration,
        /// Why there.
        pick: Pick,
    },
    /// A request goes nowhere, and ended.
    Refused {
        /// Which.
        ticket: Ticket,
        /// Why, and when to try again.
        refused: Refused,
    },
    /// A member answered.
    Answered {
        /// Which request.
        ticket: Ticket,
        /// Who.
        member: Member,
        /// How long it took.
        took: Duration,
        /// How long the member was expected to take, without the way to it.
        expected: Duration,
    },
    /// A member did not take a request.
    TurnedAway {
        /// Which.
        ticket: Ticket,
        /// Who.
        member: Member,
    },
    /// Nobody wants an answer any more.
    Gone {
        /// Which.
        ticket: Ticket,
        /// Who has it.
        member: Member,
    },
    /// A member takes nothing new, and is passed over for so long.
    Drains(Member, Duration),
    /// A member was lost, and is passed over for so long.
    Lost(Member, Duration),
    /// A member that was passed over is asked again.
    Back {
        /// Who.
        member: Member,
    },
}

/// Why a request goes to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// It is its turn, and one at random is not clearly sooner.
    Turn {
        /// The other, if there was one, and when it would answer.
        beside: Option<(Member, Duration)>,
    },
    /// It is clearly sooner than the one whose turn it is.
    Shorter {
        /// Whose turn it is, and when it would answer.
        beside: Option<(Member, Duration)>,
    },
    /// Two are too full, and it is not.
    Room {
        /// How many were looked at.
        looked: usize,
    },
    /// It was passed over long enough, and is tried by this one request.
    Try {
        /// How often in a row it rested.
        rested: u32,
    },
    /// Only this one can answer it.
    Only,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined { member } => write!(f, "{member} joined"),
            Event::Left { member } => write!(f, "{member} left"),
            Event::Sent { ticket, member, lane, tries, expected_wait, pick } => {
                write!(f, "{ticket}, {lane} lane, to {member}")?;
                if *tries > 1 {
                    write!(f, " in try {tries}")?;
                }
                write!(f, ": answer expected in {expected_wait:.1?}; {pick}")
            }
            Event::Refused { ticket, refused } => {
                write!(f, "{ticket} refused: {refused}")?;
                match refused.retry_after {
                    Duration::ZERO => Ok(()),
                    retry_after => write!(f, "; try again in {retry_after:.1?}"),
                }
            }
            Event::Answered { ticket, member, took, expected } => {
                write!(f, "{ticket} answered by {member} after {took:.1?}, expected {expected:.1?} and the way")
            }
            Event::TurnedAway { ticket, member } => write!(f, "{ticket} not taken by {member}"),
            Event::Gone { ticket, member } => write!(f, "{ticket} left: nobody waits for what {member} answers"),
            Event::Drains(member, rest) => write!(f, "{member} takes nothing new: passed over for {rest:.1?}"),
            Event::Lost(member, rest) => write!(f, "{member} lost: passed over for {rest:.1?}"),
            Event::Back { member } => write!(f, "{member} is back"),
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pick::Turn { beside: Some((member, wait)) } => write!(f, "its turn, beside {member} in {wait:.1?}"),
            Pick::Turn { beside: None } => f.write_str("there is no other"),
            Pick::Shorter { beside: Some((member, wait)) } => write!(f, "sooner than {member} in {wait:.1?}"),
            Pick::Shorter { beside: None } => f.write_str("sooner than another"),
            Pick::Room { looked } => write!(f, "the first with room, of {looked}"),
            Pick::Try { rested } => write!(f, "tried after rest {rested}"),
            Pick::Only => f.write_str("only there"),
        }
    }
}

/// The last events, if anybody wants them.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: VecDeque<(Time, Event)>,
    /// How many are kept; none while it is off.
    most: usize,
}

impl Trace {
    pub(crate) fn keep(&mut self, most: usize) {
        self.most = most;
        self.events.clear();
    }

    /// Keeps an event, which is made only if somebody wants it. The oldest makes room.
    pub(crate) fn add(&mut self, at: Time, event: impl FnOnce() -> Event) {
        if self.most == 0 {
            return;
        }
        if self.events.len() >= self.most {
            self.events.pop_front();
        }
        self.events.push_back((at, event()));
    }

    pub(crate) fn take(&mut self) -> Vec<(Time, Event)> {
        self.events.drain(..).collect()
    }
}
