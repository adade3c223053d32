//! What was decided, and on what numbers.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::{BatchId, Caller, Key, Lane, Outcome, Refused, Ticket, Time};

/// Something that was decided. It prints as one line that says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was taken.
    Took {
        /// Which.
        ticket: Ticket,
        /// What it is of.
        key: Key,
        /// Its lane.
        lane: Lane,
        /// Who sent it.
        caller: Caller,
        /// Its items.
        items: u32,
        /// Its turn among the callers of its lane.
        turn: u64,
        /// When it is expected to be answered.
        expected_wait: Duration,
        /// How long it has, if it has a deadline.
        slack: Option<Duration>,
    },
    /// A request was not taken.
    Refused {
        /// What it is of.
        key: Key,
        /// Its lane.
        lane: Lane,
        /// Who sent it.
        caller: Caller,
        /// Why, and when to try again.
        refused: Refused,
    },
    /// Requests were put together to run.
    Batched {
        /// Which batch.
        batch: BatchId,
        /// What it is of.
        key: Key,
        /// Why these.
        why: Turn,
        /// How many requests.
        requests: u32,
        /// Their items.
        items: u32,
        /// The plan.
        size: u32,
        /// What it is expected to take; zero if nobody knows.
        expected: Duration,
        /// Items of the key that go on waiting.
        left: u64,
    },
    /// A batch could start, and it is better to wait.
    Waits {
        /// Until when, unless something happens.
        until: Time,
        /// What it is of.
        key: Key,
        /// Items that wait.
        items: u64,
        /// What for.
        why: Wait,
    },
    /// A request is too late.
    Expired {
        /// Which.
        ticket: Ticket,
        /// What it had left; nothing if its deadline passed.
        slack: Duration,
        /// What its run is expected to take; zero if nobody knows.
        needs: Duration,
    },
    /// The requests of a batch that failed or was lost are tried again in two parts.
    Split {
        /// Which.
        batch: BatchId,
        /// Requests of the first part.
        first: u32,
        /// Requests of the second.
        second: u32,
    },
    /// A request failed alone: it is the cause.
    Blamed {
        /// Which.
        ticket: Ticket,
        /// How often it was run.
        runs: u32,
    },
    /// A request was with a lost device too often.
    GaveUp {
        /// Which.
        ticket: Ticket,
        /// How often.
        losses: u32,
    },
    /// A request's caller is gone.
    Left {
        /// Which.
        ticket: Ticket,
        /// Whether it runs, and so has room until its batch ends.
        running: bool,
    },
    /// A batch ended.
    Finished {
        /// Which.
        batch: BatchId,
        /// How.
        outcome: Outcome,
        /// How long it kept the device busy.
        took: Duration,
        /// How long it was expected to; zero if nobody knew.
        expected: Duration,
    },
    /// A key was forgotten.
    Forgot {
        /// Which.
        key: Key,
        /// Requests that waited for it.
        requests: u32,
    },
    /// Nothing new is taken.
    Drains {
        /// Requests that wait.
        waiting: u32,
    },
}

/// Whose turn a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// That of the highest lane with requests, by its first caller and deadline.
    Highest {
        /// The lane.
        lane: Lane,
        /// The turn of its first request.
        turn: u64,
        /// Whether other lanes made the batch larger.
        enlarged: bool,
    },
    /// That of a lower lane, which was kept from the device for as long as its batch takes.
    Owed {
        /// The lane.
        lane: Lane,
        /// Device time that it is owed.
        owed: Duration,
    },
    /// That of a lane which passes what runs: it is higher than all of it.
    Overtakes {
        /// The lane.
        lane: Lane,
    },
    /// They were in a batch that failed.
    Again,
}

/// What a batch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The device is busy until then: meanwhile more may come.
    Busy {
        /// When the device is expected to be free.
        free: Time,
    },
    /// More items are expected so soon that all requests together gain.
    Gain {
        /// How many.
        more: u32,
        /// What all of them gain.
        gain: Duration,
    },
}

impl Turn {
    /// The lane whose turn it is; that of the batch before does not matter any more.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Turn::Highest { lane, .. } | Turn::Owed { lane, .. } | Turn::Overtakes { lane } => lane,
            Turn::Again => Lane::Interactive,
        }
    }
}

/// So many of them, as one says it.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = |count: u32| Count(count.into(), "item");
        let requests = |count: u32| Count(count.into(), "request");
        match self {
            Event::Took { ticket, key, lane, caller, items: count, turn, expected_wait, slack } => {
                write!(f, "took {ticket}: {} of {key}, {lane} lane, {caller} in turn {turn}, ", items(*count))?;
                write!(f, "answer expected in {expected_wait:.1?}")?;
                slack.map_or(Ok(()), |slack| write!(f, ", has {slack:.1?}"))
            }
            Event::Refused { key, lane, caller, refused } => {
                write!(f, "refused a request of {caller} for {key}, {lane} lane: {refused}")?;
                match refused.retry_after {
                    Duration::ZERO => Ok(()),
                    retry_after => write!(f, "; try again in {retry_after:.1?}"),
                }
            }
            Event::Batched { batch, key, why, requests: count, items: all, size, expected, left } => {
                write!(f, "{batch}: {} of {key}, {} in a plan of {size}, ", requests(*count), items(*all))?;
                write!(f, "expected {expected:.1?}, {} left; {why}", Count(*left, "item"))
            }
            Event::Waits { until, key, items, why } => {
                write!(f, "{} of {key} wait until {until}: {why}", Count(*items, "item"))
            }
            Event::Expired { ticket, slack: Duration::ZERO, .. } => write!(f, "{ticket} expired: its deadline passed"),
            Event::Expired { ticket, slack, needs } => {
                write!(f, "{ticket} expired: a run takes {needs:.1?}, and it has {slack:.1?}")
            }
            Event::Split { batch, first, second } => {
                write!(f, "{batch} split: its requests are tried again, {first} and {second}")
            }
            Event::Blamed { ticket, runs } => write!(f, "{ticket} failed alone, in run {runs}"),
            Event::GaveUp { ticket, losses } => {
                write!(f, "{ticket} given up: the device was lost with it {losses} times")
            }
            Event::Left { ticket, running: false } => write!(f, "{ticket} left: its caller is gone"),
            Event::Left { ticket, running: true } => write!(f, "{ticket} leaves with its batch: its caller is gone"),
            Event::Finished { batch, outcome, took, expected } => {
                let outcome = match outcome {
                    Outcome::Done => "done",
                    Outcome::Failed => "failed",
                    Outcome::Lost => "lost with the device",
                };
                write!(f, "{batch} {outcome} after {took:.1?}, expected {expected:.1?}")
            }
            Event::Forgot { key, requests: count } => write!(f, "{key} forgotten: {} unloaded", requests(*count)),
            Event::Drains { waiting } => write!(f, "draining: {} left", requests(*waiting)),
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turn::Highest { lane, turn, enlarged } => {
                write!(f, "{lane} lane, turn {turn}")?;
                f.write_str(if *enlarged { ", made larger by other lanes" } else { "" })
            }
            Turn::Owed { lane, owed } => write!(f, "{lane} lane is owed {owed:.1?}"),
            Turn::Overtakes { lane } => write!(f, "{lane} lane passes what runs"),
            Turn::Again => f.write_str("their batch failed"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Busy { free } => write!(f, "the device is busy until {free}"),
            Wait::Gain { more, gain } => write!(f, "{more} more are expected by then, which saves {gain:.1?} in all"),
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

    pub(crate) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Keeps an event, which is made only if somebody wants it. The oldest makes room.
    pub(crate) fn add(&mut self, at: Time, event: impl FnOnce() -> Event) {
        if !self.is_on() {
            return;
        }
        let event = event();
        // Whoever asks what is next again and again is told the same.
        let again = matches!(event, Event::Waits { .. }) && self.events.back().is_some_and(|(_, last)| *last == event);
        if again {
            return;
        }
        if self.events.len() >= self.most {
            self.events.pop_front();
        }
        self.events.push_back((at, event));
    }

    pub(crate) fn take(&mut self) -> Vec<(Time, Event)> {
        self.events.drain(..).collect()
    }
}
