//! The rules: who is asked, and what is made of what they say.

mod choose;
mod ends;

use std::collections::HashMap;
use std::time::Duration;

use dala_batch::{Lane, Time};

use crate::budget::Budget;
use crate::known::State;
use crate::members::Members;
use crate::trace::{Event, Trace};
use crate::{Ask, Limits, Member, Refused, Route, Ticket, Word};

/// A request that is with a member.
struct Trip {
    ask: Ask,
    member: Member,
    /// The number of the member: it may have left, and joined again.
    number: u64,
    sent: Time,
    /// Nanoseconds after which the answer was expected, without what the member takes longer than it says.
    expected: f64,
    /// Who had it before.
    tried: Vec<Member>,
    /// When another try may do better, as the last one said.
    hint: Duration,
}

/// How a member stands with a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is asked.
    Open,
    /// It drains or was lost, and is not asked until then.
    Rests {
        /// When one request tries it.
        until: Time,
    },
    /// One request tries it.
    Tried {
        /// Which.
        ticket: Ticket,
    },
}

/// Which member a request goes to: plain data, told what happens.
///
/// A time before an earlier one counts as that.
pub struct Router {
    limits: Limits,
    now: Time,
    members: Members,
    trips: HashMap<Ticket, Trip>,
    /// The number of the last ticket.
    last: u64,
    /// Whose turn it is: rises by one with each request, from anywhere.
    turn: u64,
    budget: Budget,
    trace: Trace,
}

impl Router {
    /// Nobody is there, and nothing is asked.
    pub fn new(limits: Limits) -> Router {
        Router {
            limits,
            now: Time::default(),
            members: Members::default(),
            trips: HashMap::new(),
            last: 0,
            turn: 0,
            budget: Budget::new(&limits),
            trace: Trace::default(),
        }
    }

    /// A member is there from now on. One that was there is asked again, if it was passed over.
    pub fn join(&mut self, now: Time, member: Member) {
        let now = self.tick(now);
        if self.members.join(now, member).is_some() {
            self.trace.add(now, || Event::Joined { member });
        } else if let Some(slot) = self.members.find(member) {
            self.back(now, slot);
        }
    }

    /// A member is not there any more. What was sent to it may still be answered; if it is not, tell so of each request.
    pub fn leave(&mut self, now: Time, member: Member) {
        let now = self.tick(now);
        if self.members.leave(member) {
            self.trace.add(now, || Event::Left { member });
        }
    }

    /// A member said something without being asked.
    pub fn heard(&mut self, now: Time, member: Member, word: Word) {
        let now = self.tick(now);
        if let Some(slot) = self.members.find(member) {
            // Nobody says who is to be passed over: whoever hears it at the same time rests as long.
            self.hear(now, slot, word, 0);
        }
    }

    /// Where a request goes. `random` is any number, another one each time.
    ///
    /// # Errors
    ///
    /// If nobody can be asked, or nobody would answer in time.
    pub fn ask(&mut self, now: Time, ask: Ask, random: u64) -> Result<Route, Refused> {
        let now = self.tick(now);
        // Callers that begin together are not to go on together.
        self.turn = if self.last == 0 { random >> 32 } else { self.turn + 1 };
        self.last += 1;
        let sent = self.send(now, Ticket(self.last), ask, Vec::new(), random);
        // What was refused at once is nothing that could be sent again.
        if sent.is_ok() {
            self.budget.earn(now);
        }
        sent
    }

    /// How a member stands, if it is there.
    pub fn standing(&self, member: Member) -> Option<Standing> {
        let known = self.members.get(self.members.find(member)?)?;
        Some(match known.state {
            State::Open(_) => Standing::Open,
            State::Rests(until) => Standing::Rests { until },
            State::Tried(ticket) => Standing::Tried { ticket },
        })
    }

    /// When a member would answer one more request, if it is there; zero if nobody knows.
    pub fn expected_wait(&self, now: Time, member: Member, lane: Lane) -> Option<Duration> {
        let known = self.members.get(self.members.find(member)?)?;
        let forecast = known.forecast(now.max(self.now), lane, &self.members.usual);
        Some(Duration::from_nanos(forecast.answer() as u64))
    }

    /// The members that are there, in no order.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        self.members.all().map(|known| known.member)
    }

    /// Requests that are with members.
    pub fn in_flight(&self) -> usize {
        self.trips.len()
    }

    /// How many requests may be repeated now.
    pub fn repeats_left(&self) -> u32 {
        self.budget.left() as u32
    }

    /// Keeps the last `most` events from now on; with zero, none, which costs nothing.
    pub fn trace(&mut self, most: usize) {
        self.trace.keep(most);
    }

    /// The events since the last call, as far as they were kept.
    pub fn take_events(&mut self) -> Vec<(Time, Event)> {
        self.trace.take()
    }

    /// A clock may jump, but not back.
    fn tick(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Whether nothing is left of any request: for tests, which see no further than [`in_flight`](Router::in_flight).
    #[doc(hidden)]
    pub fn holds_nothing(&self) -> bool {
        self.trips.is_empty() && self.members.all().all(|known| known.holds_nothing())
    }
}
