//! What became of requests, and what that says of members.

use std::time::Duration;

use dala_batch::Time;

use super::{Router, Trip};
use crate::known::State;
use crate::trace::Event;
use crate::{Member, Ran, Refusal, Refused, Route, Ticket, Word};

impl Router {
    /// A member answered, with its word if it gave one. A failure that is the request's own is an answer, too.
    pub fn answered(&mut self, now: Time, ticket: Ticket, word: Option<Word>) {
        let now = self.tick(now);
        let Some(trip) = self.trips.remove(&ticket) else { return };
        let (member, took) = (trip.member, now.since(trip.sent));
        let expected = Duration::from_nanos(trip.expected as u64);
        self.trace.add(now, || Event::Answered { ticket, member, took, expected });
        let Some(slot) = self.slot_of(&trip) else { return };
        if let Some((known, usual)) = self.members.with_usual(slot) {
            known.end(ticket);
            known.alive = now;
            known.measure(took, trip.expected, usual);
        }
        match word {
            Some(word) => self.hear(now, slot, word, ticket.number()),
            None => self.back(now, slot),
        }
    }

    /// A member did not take a request, and did not run it: another may. Without a word it is passed over for a while.
    ///
    /// # Errors
    ///
    /// If it may not be sent again, or to nobody. Then it ended.
    pub fn refused(&mut self, now: Time, ticket: Ticket, word: Option<Word>, random: u64) -> Result<Route, Refused> {
        let now = self.tick(now);
        let Some(mut trip) = self.trips.remove(&ticket) else { return Err(unknown()) };
        let member = trip.member;
        self.trace.add(now, || Event::TurnedAway { ticket, member });
        trip.hint = self.limits.rest;
        if let Some(slot) = self.slot_of(&trip) {
            if let Some(known) = self.members.get_mut(slot) {
                known.end(ticket);
                known.alive = now;
            }
            match word {
                Some(word) => {
                    let slack = trip.ask.deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
                    let wait = word.expected_wait[trip.ask.lane.index()];
                    trip.hint = if word.drains { self.limits.rest } else { wait.saturating_sub(slack).max(word.each) };
                    self.hear(now, slot, word, random);
                }
                None => self.pass_over(now, slot, Event::Drains, random),
            }
        }
        self.repeat(now, ticket, trip, Ran::No, random)
    }

    /// There is no connection to a member any more. A request that may have been run is sent to another only if that changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// If it may not be sent again, or to nobody. Then it ended.
    pub fn lost(&mut self, now: Time, ticket: Ticket, ran: Ran, random: u64) -> Result<Route, Refused> {
        self.give_up(now, ticket, ran, random, |_, _| true)
    }

    /// There was no answer in time, as the route said. The member counts as lost unless it was heard of meanwhile; and the
    /// request is sent to another only if that changes nothing.
    ///
    /// # Errors
    ///
    /// If it may not be sent again, or to nobody. Then it ended.
    pub fn late(&mut self, now: Time, ticket: Ticket, random: u64) -> Result<Route, Refused> {
        self.give_up(now, ticket, Ran::Perhaps, random, |sent, alive| alive <= sent)
    }

    /// Takes a request from a member, which is passed over if it counts as lost by when the request was sent and it was heard.
    fn give_up(
        &mut self,
        now: Time,
        ticket: Ticket,
        ran: Ran,
        random: u64,
        is_lost: fn(Time, Time) -> bool,
    ) -> Result<Route, Refused> {
        let now = self.tick(now);
        let Some(mut trip) = self.trips.remove(&ticket) else { return Err(unknown()) };
        trip.hint = self.limits.rest;
        if let Some(slot) = self.slot_of(&trip)
            && let Some(known) = self.members.get_mut(slot)
        {
            known.end(ticket);
            // One loss is told by every request that was there. Only the first of them counts.
            let counts = match known.state {
                State::Open(_) => trip.sent >= known.opened && is_lost(trip.sent, known.alive),
                State::Tried(own) => own == ticket,
                State::Rests(_) => false,
            };
            if counts {
                self.pass_over(now, slot, Event::Lost, random);
            }
        }
        self.repeat(now, ticket, trip, ran, random)
    }

    /// Nobody wants the answer any more.
    pub fn gone(&mut self, now: Time, ticket: Ticket) {
        let now = self.tick(now);
        let Some(trip) = self.trips.remove(&ticket) else { return };
        let member = trip.member;
        self.trace.add(now, || Event::Gone { ticket, member });
        let Some(slot) = self.slot_of(&trip) else { return };
        let Some(known) = self.members.get_mut(slot) else { return };
        known.end(ticket);
        if known.state == State::Tried(ticket) {
            // Nobody knows more than before.
            known.losses = known.losses.saturating_sub(1);
            self.members.rest(now, slot, &self.limits, ticket.number());
        }
    }

    /// Sends a request to another, if it may be.
    fn repeat(&mut self, now: Time, ticket: Ticket, trip: Trip, ran: Ran, random: u64) -> Result<Route, Refused> {
        let Trip { ask, mut tried, member, hint, .. } = trip;
        tried.push(member);
        let tries = tried.len();
        let why = match () {
            () if ran == Ran::Perhaps && !ask.pure => Some(Refusal::MayHaveRun),
            () if ask.only.is_some() => Some(Refusal::Tried { tries }),
            () if tries >= self.limits.tries => Some(Refusal::TooOften { tries }),
            () if !self.budget.spend(now) => Some(Refusal::TooManyRepeats),
            () => None,
        };
        if let Some(why) = why {
            let refused = Refused { why, retry_after: if why == Refusal::MayHaveRun { Duration::ZERO } else { hint } };
            self.trace.add(now, || Event::Refused { ticket, refused });
            return Err(refused);
        }
        self.send(now, ticket, ask, tried, random)
    }

    /// Where the member is that a request went to, if it is the same still.
    fn slot_of(&self, trip: &Trip) -> Option<usize> {
        let slot = self.members.find(trip.member)?;
        self.members.get(slot).is_some_and(|known| known.number == trip.number).then_some(slot)
    }

    /// A member said something: it is there.
    pub(super) fn hear(&mut self, now: Time, slot: usize, word: Word, random: u64) {
        if let Some((known, usual)) = self.members.with_usual(slot) {
            known.hear(now, word, usual);
        }
        if !word.drains {
            self.back(now, slot);
        } else if !self.members.get(slot).is_some_and(|known| matches!(known.state, State::Rests(_))) {
            self.pass_over(now, slot, Event::Drains, random);
        }
    }

    /// A member that was passed over is asked again.
    pub(super) fn back(&mut self, now: Time, slot: usize) {
        let Some(known) = self.members.get(slot) else { return };
        if !matches!(known.state, State::Open(_)) {
            let member = known.member;
            self.members.open(now, slot);
            self.trace.add(now, || Event::Back { member });
        }
    }

    fn pass_over(&mut self, now: Time, slot: usize, event: fn(Member, Duration) -> Event, random: u64) {
        let Some(member) = self.members.get(slot).map(|known| known.member) else { return };
        let rest = self.members.rest(now, slot, &self.limits, random);
        self.trace.add(now, || event(member, rest));
    }
}

/// What is said of a request that ended before.
fn unknown() -> Refused {
    Refused { why: Refusal::UnknownTicket, retry_after: Duration::ZERO }
}
