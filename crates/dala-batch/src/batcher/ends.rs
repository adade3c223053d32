//! How requests end, or are tried again.

use std::time::Duration;

use super::{Again, Batcher, State};
use crate::callers::CallerId;
use crate::trace::Event;
use crate::{BatchId, End, Ended, Key, Request, Ticket, Time};

/// How many requests may expire in one call. After a long sleep there may be very many; the rest is for the next call.
const EXPIRED_AT_ONCE: usize = 256;

impl Batcher {
    /// Ends the requests that are too late, or will be whatever is done.
    pub(super) fn expire(&mut self, now: Time) {
        for _ in 0..EXPIRED_AT_ONCE {
            match self.queues.alarm() {
                Some((alarm, ticket)) if alarm <= now && !self.is_tried_anyway(now, ticket) => {
                    self.end_late(now, ticket);
                }
                _ => break,
            }
        }
    }

    /// Whether a request runs although it is expected to be too late: the device has nothing else to do, and its times may be
    /// better than what is known of them.
    pub(super) fn is_tried_anyway(&self, now: Time, ticket: Ticket) -> bool {
        let deadline = self.entries.get(ticket).and_then(|entry| entry.request.deadline);
        self.entries.len() == 1 && self.running.len() == 0 && deadline.is_some_and(|deadline| deadline > now)
    }

    pub(super) fn end_late(&mut self, now: Time, ticket: Ticket) {
        let Some(entry) = self.entries.get(ticket) else { return };
        let slack = entry.request.deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
        let service = self.queues.get(entry.request.key).map(|waiting| &waiting.service);
        let known = service.filter(|service| service.is_known());
        let needs = known.map_or(Duration::ZERO, |service| Duration::from_nanos(service.least(entry.request.items)));
        self.trace.add(now, || Event::Expired { ticket, slack, needs });
        self.end(now, ticket, End::Expired, None);
    }

    /// Requests of a batch that failed are tried again, in two halves.
    pub(super) fn try_again(&mut self, now: Time, batch: BatchId, key: Key, mut tickets: Vec<Ticket>) {
        if tickets.is_empty() {
            return;
        }
        for ticket in &tickets {
            let Some(entry) = self.entries.get_mut(*ticket) else { continue };
            entry.state = State::Again;
            self.waiting += 1;
            self.waiting_items += entry.request.items;
            if let Some(deadline) = entry.request.deadline {
                self.queues.add_deadline(key, deadline, *ticket);
            }
        }
        self.queues.list(key, &[]);
        let second = tickets.split_off(tickets.len().div_ceil(2));
        let (first_count, second_count) = (tickets.len() as u32, second.len() as u32);
        self.trace.add(now, || Event::Split { batch, first: first_count, second: second_count });
        self.put_before_all(key, second);
        self.put_before_all(key, tickets);
    }

    pub(super) fn put_before_all(&mut self, key: Key, tickets: Vec<Ticket>) {
        if tickets.is_empty() {
            return;
        }
        let items: u32 =
            tickets.iter().filter_map(|ticket| self.entries.get(*ticket)).map(|entry| entry.request.items).sum();
        let service = self.queues.get(key).map(|waiting| &waiting.service);
        let cost = service.filter(|service| service.is_known()).map_or(0, |service| service.time_for(items.into()));
        self.again_cost = self.again_cost.saturating_add(cost);
        self.again.push_front(Again { key, tickets, cost });
    }

    /// Of two requests of a caller, or its ends, says that one comes after the other.
    pub(super) fn link(&mut self, caller: CallerId, before: Option<Ticket>, after: Option<Ticket>) {
        if let Some(entry) = before.and_then(|before| self.entries.get_mut(before)) {
            entry.after = after;
        }
        match after.and_then(|after| self.entries.get_mut(after)) {
            Some(entry) => entry.before = before,
            None => {
                if let Some(own) = self.callers.get_mut(caller) {
                    own.last = before;
                }
            }
        }
    }

    /// Takes a request out of what waits, to run or to end. Then its key has to be listed.
    pub(super) fn unlist(&mut self, ticket: Ticket, runs: bool) {
        let Some(entry) = self.entries.get(ticket) else { return };
        let (Request { key, lane, deadline, items, .. }, caller) = (entry.request, entry.caller);
        match entry.state {
            State::Running => return,
            State::Again => {}
            State::Waiting(place) => {
                self.queues.leave(key, lane, place, items);
                if runs {
                    self.callers.start(caller, lane, items);
                } else {
                    self.callers.leave(caller, lane, items);
                }
            }
        }
        if let Some(deadline) = deadline {
            self.queues.remove_deadline(key, deadline, ticket);
        }
        self.waiting -= 1;
        self.waiting_items -= items;
    }

    pub(super) fn end(&mut self, now: Time, ticket: Ticket, end: End, batch: Option<BatchId>) {
        self.unlist(ticket, false);
        let Some(entry) = self.entries.remove(ticket) else { return };
        let Request { key, lane, caller, items, bytes, .. } = entry.request;
        if !matches!(entry.state, State::Running) {
            self.queues.list(key, &[lane]);
        }
        self.link(entry.caller, entry.before, entry.after);
        self.callers.end(caller, entry.caller, items, bytes);
        self.items -= u64::from(items);
        self.bytes -= bytes;
        if self.entries.len() == 0 {
            // Nobody is left of those that were to be tried again.
            self.again.clear();
            self.again_cost = 0;
        }
        let waited = entry.started.unwrap_or(now).since(entry.offered);
        let took = now.since(entry.offered);
        self.ended.push(Ended { ticket, request: entry.request, end, batch, took, waited, runs: entry.runs });
    }
}
