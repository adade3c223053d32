//! Whose turn it is, whether it is better to wait, and what is in a batch.

use std::time::Duration;

use super::{Again, Batcher, State};
use crate::choose::{Candidate, Choice, choose, fill};
use crate::queues::Place;
use crate::running::Run;
use crate::time::nanos;
use crate::trace::{Event, Turn, Wait};
use crate::window::Worth;
use crate::{Batch, Key, Lane, Request, Ticket, Time};

/// What a batch is taken to cost where shares are counted and nothing is known of it, in nanoseconds.
const UNKNOWN: u64 = 10_000_000;

impl Batcher {
    /// Nanoseconds of the next batch of a lane, if it has one.
    pub(super) fn next_cost(&self, lane: Lane) -> Option<u64> {
        let (_, key) = self.queues.head(lane)?;
        let waiting = self.queues.get(key)?;
        let known = waiting.service.is_known();
        Some(if known { waiting.service.fastest(waiting.items(lane)).1 } else { UNKNOWN })
    }

    /// Whose turn it is: the first request of the highest lane, or of a lower one that is owed a batch.
    pub(super) fn lead(&self) -> Option<(Place, Key, Turn)> {
        let mut lead = None;
        for lane in Lane::ALL {
            let Some((place, key)) = self.queues.head(lane) else { continue };
            let owed = self.shares.owed(lane);
            if lead.is_none() {
                lead = Some((place, key, Turn::Highest { lane, turn: place.turn, enlarged: false }));
            } else if self.next_cost(lane).is_some_and(|cost| owed >= cost) {
                return Some((place, key, Turn::Owed { lane, owed: Duration::from_nanos(owed) }));
            }
        }
        lead
    }

    /// Until when it is better to wait for more requests, if it is.
    pub(super) fn gather(&mut self, now: Time, head: Place, key: Key, lane: Lane) -> Option<Time> {
        let waiting = self.queues.get(key)?;
        let items = waiting.items(lane);
        if self.draining || !waiting.service.is_known() {
            return None;
        }
        let (until, why) = if let Some(free) = self.running.free_at() {
            if items >= u64::from(waiting.service.fastest(u64::MAX).0) {
                return None;
            }
            (free.before(self.limits.prepare), Wait::Busy { free })
        } else {
            let (offered, free) = (self.entries.get(head.ticket)?.offered, self.running.last_end?);
            // Nobody waits for requests of other keys or lanes.
            if items != u64::from(self.waiting_items) {
                return None;
            }
            let limit = if offered < free { free + self.limits.window } else { offered + self.limits.linger };
            let Worth { span, more, gain } = waiting.arrivals.worth(&waiting.service, items, now.since(free))?;
            let until = limit.min(free + span);
            let needs = Duration::from_nanos(waiting.service.fastest(items + more as u64).1);
            if waiting.deadlines.first().is_some_and(|(deadline, _)| *deadline < until + needs) {
                return None;
            }
            (until, Wait::Gain { more: more as u32, gain })
        };
        if until <= now {
            return None;
        }
        self.trace.add(now, || Event::Waits { until, key, items, why });
        Some(until)
    }

    /// Puts a batch together, led by a lane. Those that would be too late end on the way.
    pub(super) fn run_line(&mut self, now: Time, key: Key, mut why: Turn) -> Option<Batch> {
        let lead = why.lane();
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let mut late = Vec::new();
        if let Some(waiting) = self.queues.get(key) {
            let largest = waiting.service.sizes().largest();
            let longest = waiting.service.runs().map(|(_, cost)| cost).max().unwrap_or(1);
            // Whoever passes others takes nobody along.
            let alone = matches!(why, Turn::Overtakes { .. });
            for lane in [lead].into_iter().chain(Lane::ALL.into_iter().filter(|lane| *lane != lead && !alone)) {
                // More than fit: large ones leave gaps, and some may be late in a large batch. Those that never are fill it.
                let mut sure = 0;
                for place in waiting.lines[lane.index()].order.iter().take(2 * largest as usize) {
                    match self.consider(now, place.ticket, lane == lead) {
                        Some(candidate) => {
                            candidates.push(candidate);
                            sure += u32::from(candidate.items == 1 && candidate.slack >= longest);
                        }
                        None => late.push(place.ticket),
                    }
                    if sure == largest {
                        break;
                    }
                }
            }
        }
        for ticket in late {
            self.end_late(now, ticket);
        }
        let batch = self.start(now, key, &candidates, &mut why);
        self.candidates = candidates;
        batch
    }

    /// Puts a batch together of requests that are tried again; what is left of them comes next.
    pub(super) fn run_again(&mut self, now: Time, again: Again) -> Option<Batch> {
        let (mut candidates, mut late) = (Vec::new(), Vec::new());
        for ticket in again.tickets {
            match self.consider(now, ticket, true) {
                Some(candidate) => candidates.push(candidate),
                None => late.push(ticket),
            }
        }
        // Those that ended meanwhile are not there any more.
        for ticket in late {
            self.end_late(now, ticket);
        }
        let batch = self.start(now, again.key, &candidates, &mut Turn::Again);
        let is_left =
            |ticket: &Ticket| self.entries.get(*ticket).is_some_and(|entry| matches!(entry.state, State::Again));
        let left: Vec<Ticket> = candidates.iter().map(|candidate| candidate.ticket).filter(is_left).collect();
        self.put_before_all(again.key, left);
        batch
    }

    /// A request as one that may run, unless it is too late.
    fn consider(&self, now: Time, ticket: Ticket, leads: bool) -> Option<Candidate> {
        let Request { key, deadline, items, .. } = self.entries.get(ticket)?.request;
        let slack = deadline.map_or(u64::MAX, |deadline| nanos(deadline.since(now)));
        let is_late = slack < self.queues.get(key)?.service.least(items);
        (!is_late || self.is_tried_anyway(now, ticket)).then_some(Candidate { ticket, items, slack, leads })
    }

    /// Starts a batch of some of these.
    fn start(&mut self, now: Time, key: Key, candidates: &[Candidate], why: &mut Turn) -> Option<Batch> {
        let service = &self.queues.get(key)?.service;
        let first = candidates.first()?;
        let mut tickets = Vec::new();
        let choice = match choose(service, candidates) {
            Some(choice) => {
                fill(candidates, (choice.size, choice.cost), false, |candidate| tickets.push(candidate.ticket));
                choice
            }
            // It is tried although it is late.
            None => {
                let (size, cost) = service.runs().find(|(size, _)| *size >= first.items)?;
                tickets.push(first.ticket);
                Choice { size, cost, items: first.items, enlarged: false }
            }
        };
        let Choice { size, cost, items, .. } = choice;
        let expected = if service.is_known() { Duration::from_nanos(cost) } else { Duration::ZERO };
        if let Turn::Highest { enlarged, .. } = why {
            *enlarged = choice.enlarged;
        }
        let mut of_lanes = [0; 3];
        for ticket in &tickets {
            self.unlist(*ticket, true);
            if let Some(entry) = self.entries.get_mut(*ticket) {
                entry.state = State::Running;
                entry.started = Some(now);
                entry.runs += 1;
                of_lanes[entry.request.lane.index()] += entry.request.items;
            }
        }
        self.queues.list(key, &Lane::ALL);
        let id = self.running.next_id();
        let overtakes = matches!(why, Turn::Overtakes { .. });
        let (tickets_of, items_of, held_up) = (tickets.clone(), of_lanes, Duration::ZERO);
        let run =
            Run { id, key, size, tickets: tickets_of, items: items_of, started: now, expected, overtakes, held_up };
        let lane = run.lane();
        self.running.start(run);
        let left = self.queues.get(key).map_or(0, |waiting| Lane::ALL.map(|lane| waiting.items(lane)).iter().sum());
        let (requests, why) = (tickets.len() as u32, *why);
        self.trace.add(now, || Event::Batched { batch: id, key, why, requests, items, size, expected, left });
        Some(Batch { id, key, size, items, lane, tickets, expected })
    }
}
