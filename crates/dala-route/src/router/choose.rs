//! Who is asked.

use std::time::Duration;

use dala_batch::Time;

use super::{Router, Trip};
use crate::known::{Forecast, State};
use crate::trace::{Event, Pick};
use crate::{Ask, Member, Refusal, Refused, Route, Ticket};

/// How many members are looked at before a request is refused because all are too full.
const LOOKS: usize = 16;

/// Whether a member answers so much sooner that another is passed over although it is its turn. What is known of waits is
/// never quite true, and turns are the best where all are alike.
fn is_clearly_sooner(one: &Forecast, other: &Forecast) -> bool {
    1.5 * one.answer() + 2.0 * other.each < other.answer()
}

fn span(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64)
}

impl Router {
    /// Sends a request to one of those that did not have it, or ends it.
    pub(super) fn send(
        &mut self,
        now: Time,
        ticket: Ticket,
        ask: Ask,
        tried: Vec<Member>,
        random: u64,
    ) -> Result<Route, Refused> {
        let (slot, pick) = match self.choose(now, &ask, &tried, random) {
            Ok(chosen) => chosen,
            Err(refused) => {
                self.trace.add(now, || Event::Refused { ticket, refused });
                return Err(refused);
            }
        };
        let forecast = self.forecast(now, slot, &ask);
        let rests = self.members.get(slot).is_some_and(|known| matches!(known.state, State::Rests(_)));
        if rests {
            self.members.try_it(slot, ticket);
        }
        let (member, number) = match self.members.get_mut(slot) {
            Some(known) => {
                known.send(now, ticket, ask.lane);
                (known.member, known.number)
            }
            None => return Err(Refused { why: Refusal::NoMembers, retry_after: Duration::ZERO }),
        };
        let expected_wait = span(forecast.answer());
        let tries = tried.len() + 1;
        self.trace.add(now, || Event::Sent { ticket, member, lane: ask.lane, tries, expected_wait, pick });
        // Where nothing is heard there must be time for another, if there is one.
        let has_others = ask.only.is_none() && self.members.opened().len() > tried.len() + usize::from(!rests);
        let may_repeat = ask.pure && tries < self.limits.tries;
        let until = ask.deadline.map(|deadline| match deadline.since(now) / 2 {
            half if has_others && rests && ask.pure => now + half,
            half if has_others && may_repeat => deadline.min(now + half.max(expected_wait * 3)),
            _ => deadline,
        });
        let (expected, hint) = (forecast.likely, Duration::ZERO);
        self.trips.insert(ticket, Trip { ask, member, number, sent: now, expected, tried, hint });
        Ok(Route { ticket, member, expected_wait, until })
    }

    fn forecast(&self, now: Time, slot: usize, ask: &Ask) -> Forecast {
        match self.members.get(slot) {
            Some(known) => known.forecast(now, ask.lane, &self.members.usual),
            None => Forecast { least: f64::MAX, likely: f64::MAX, overhead: 0.0, each: 1.0, room: false },
        }
    }

    fn choose(&self, now: Time, ask: &Ask, tried: &[Member], random: u64) -> Result<(usize, Pick), Refused> {
        let slack = ask.deadline.map_or(Duration::MAX, |deadline| deadline.since(now));
        if slack.is_zero() {
            return Err(Refused { why: Refusal::TooLate, retry_after: Duration::ZERO });
        }
        if let Some(member) = ask.only {
            return self.only(now, member, tried);
        }
        // What may be lost is not for trying, unless nothing else comes for as long again.
        let may_try = |until: Time, losses: u32| {
            ask.pure || now.since(until) >= self.limits.rest.saturating_mul(1 << losses.min(16))
        };
        // What failed once is not for trying either, unless there is nobody else.
        let is_new = |slot: &usize| self.members.get(*slot).is_some_and(|known| !tried.contains(&known.member));
        let looks = if tried.is_empty() || !self.members.opened().iter().any(is_new) { LOOKS } else { 0 };
        for (until, slot) in self.members.rested(now).take(looks) {
            let Some(known) = self.members.get(slot) else { continue };
            if !tried.contains(&known.member) && may_try(until, known.losses) {
                return Ok((slot, Pick::Try { rested: known.losses }));
            }
        }
        self.shorter(now, ask, tried, random, slack)
    }

    /// The only member that can answer: asked even if it drains, because nobody else can.
    fn only(&self, now: Time, member: Member, tried: &[Member]) -> Result<(usize, Pick), Refused> {
        let slot = self.members.find(member);
        let Some((slot, known)) = slot.and_then(|slot| Some((slot, self.members.get(slot)?))) else {
            return Err(Refused { why: Refusal::NotThere { member }, retry_after: Duration::ZERO });
        };
        match known.state {
            _ if tried.contains(&member) => {
                Err(Refused { why: Refusal::Tried { tries: tried.len() }, retry_after: self.limits.rest })
            }
            State::Rests(until) if until > now => {
                Err(Refused { why: Refusal::Away { resting: 1 }, retry_after: until.since(now) })
            }
            State::Tried(_) => Err(Refused { why: Refusal::Away { resting: 1 }, retry_after: self.limits.rest }),
            State::Rests(_) | State::Open(_) => Ok((slot, Pick::Only)),
        }
    }

    /// The one whose turn it is, or one at random with a clearly shorter wait; if both are too full, the next that is not.
    fn shorter(
        &self,
        now: Time,
        ask: &Ask,
        tried: &[Member],
        random: u64,
        slack: Duration,
    ) -> Result<(usize, Pick), Refused> {
        let open = self.members.opened();
        let count = open.len();
        let slack = slack.as_secs_f64() * 1e9;
        let fits = |forecast: &Forecast| forecast.room && forecast.least <= slack;
        let is_new = |slot: &usize| self.members.get(*slot).is_some_and(|known| !tried.contains(&known.member));
        // From a place on, round to it again.
        let from = |place: usize| {
            let (before, after) = open.split_at(place.min(count));
            after.iter().chain(before).copied().filter(is_new)
        };
        let part = |random: u64, count: usize| (((random >> 32) * count as u64) >> 32) as usize;
        // Neighbours may be lost together, so what is repeated goes anywhere.
        let start = match tried {
            [] => (self.turn % count.max(1) as u64) as usize,
            _ => part(random << 32, count),
        };
        let Some(first) = from(start).next() else { return Err(self.nobody(now, tried, random)) };
        let one = self.forecast(now, first, ask);
        let second = match count {
            1 => None,
            _ => from((start + 1 + part(random, count - 1)) % count).find(|slot| *slot != first),
        };
        let two = second.map(|second| (second, self.forecast(now, second, ask)));
        let beside = |(slot, forecast): (usize, Forecast)| {
            self.members.get(slot).map(|known| (known.member, span(forecast.answer())))
        };
        match two {
            Some((second, two)) if fits(&two) && (!fits(&one) || is_clearly_sooner(&two, &one)) => {
                return Ok((second, Pick::Shorter { beside: beside((first, one)) }));
            }
            _ if fits(&one) => return Ok((first, Pick::Turn { beside: two.and_then(beside) })),
            _ => {}
        }
        let (mut looked, mut soonest, mut retry) = (0, f64::MAX, f64::MAX);
        for slot in from(start).take(LOOKS) {
            let forecast = self.forecast(now, slot, ask);
            looked += 1;
            if fits(&forecast) {
                return Ok((slot, Pick::Room { looked }));
            }
            soonest = soonest.min(forecast.answer());
            retry = retry.min((forecast.least - slack).max(0.0));
        }
        let why = Refusal::Busy { looked, expected_wait: span(soonest) };
        // Nor are those who are told so to come back together.
        let retry_after = span(retry).max(self.limits.rest / 4).mul_f64(1.0 + chance(random));
        Err(Refused { why, retry_after })
    }

    /// Why there is nobody to ask. Of all who are told so only one tries the next member: others are not to come back at once,
    /// nor together.
    fn nobody(&self, now: Time, tried: &[Member], random: u64) -> Refused {
        let next = self.members.next_try().map_or(Duration::ZERO, |next| next.since(now));
        let retry_after = next.max(self.limits.rest) + self.limits.rest.mul_f64(chance(random));
        let why = match self.members.resting() {
            _ if self.members.count() == 0 => Refusal::NoMembers,
            0 => Refusal::Tried { tries: tried.len() },
            resting => Refusal::Away { resting },
        };
        Refused { why, retry_after }
    }
}

/// A number from 0 to 1.
fn chance(random: u64) -> f64 {
    (random >> 44) as f64 / (1u64 << 20) as f64
}
