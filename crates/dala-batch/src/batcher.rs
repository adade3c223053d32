//! The rules: what runs next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::{
    Batch, BatchId, Caller, End, Ended, Key, Lane, Limits, Load, Next, Outcome, Refusal, Refused, Request, Room, Sizes,
    Ticket, Time,
};

struct Entry {
    request: Request,
    offered: Time,
    started: Option<Time>,
    runs: u32,
    losses: u32,
    gone: bool,
}

/// Which requests share a run: plain data, told what happens.
///
/// Requests that ended are collected; whoever calls takes them with [`take_ended`](Batcher::take_ended). Times may stand
/// still; one that is before an earlier one counts as that.
pub struct Batcher {
    limits: Limits,
    keys: BTreeMap<Key, Sizes>,
    entries: BTreeMap<Ticket, Entry>,
    queue: VecDeque<Ticket>,
    running: Vec<Batch>,
    ended: Vec<Ended>,
    draining: bool,
    next_number: u64,
}

impl Batcher {
    /// Nothing waits and nothing runs.
    pub fn new(limits: Limits) -> Batcher {
        Batcher {
            limits,
            keys: BTreeMap::new(),
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            running: Vec::new(),
            ended: Vec::new(),
            draining: false,
            next_number: 0,
        }
    }

    /// A new key: requests of it share batches of these sizes.
    pub fn key(&mut self, sizes: impl Into<Sizes>) -> Key {
        self.next_number += 1;
        let key = Key { number: self.next_number, slot: 0 };
        self.keys.insert(key, sizes.into());
        key
    }

    /// A model was unloaded: its requests that wait end as [`Unloaded`](End::Unloaded), those that run end with their batch.
    pub fn forget(&mut self, now: Time, key: Key) {
        self.keys.remove(&key);
        let waiting: Vec<Ticket> = self.queue.iter().copied().collect();
        for ticket in waiting {
            if self.entries.get(&ticket).is_some_and(|entry| entry.request.key == key) {
                self.end(now, ticket, End::Unloaded, None);
            }
        }
    }

    /// What a run of a planned size is expected to take until it is measured, as from a warm-up.
    pub fn assume(&mut self, _key: Key, _size: u32, _takes: Duration) {}

    /// What a run of a planned size is expected to take, if anything is known of its key.
    pub fn service_time(&self, _key: Key, _size: u32) -> Option<Duration> {
        None
    }

    /// Takes a request, or says at once why not.
    ///
    /// # Errors
    ///
    /// If there is no room, if its deadline cannot be met, or if it never could be run.
    pub fn offer(&mut self, now: Time, request: Request) -> Result<Ticket, Refused> {
        let refused = |why| Refused { why, retry_after: Duration::ZERO };
        if self.draining {
            return Err(refused(Refusal::Draining));
        }
        let Some(sizes) = self.keys.get(&request.key) else { return Err(refused(Refusal::UnknownKey)) };
        if request.items == 0 {
            return Err(refused(Refusal::Empty));
        }
        if request.items > sizes.largest() || request.bytes > self.limits.bytes {
            return Err(refused(Refusal::TooLarge { items: sizes.largest(), bytes: self.limits.bytes }));
        }
        let items: u64 = self.entries.values().map(|entry| u64::from(entry.request.items)).sum();
        let bytes: u64 = self.entries.values().map(|entry| entry.request.bytes).sum();
        if items + u64::from(request.items) > u64::from(self.limits.items) || bytes + request.bytes > self.limits.bytes
        {
            let whose = Room::Lane(request.lane);
            return Err(refused(Refusal::Full { whose, items, bytes, expected_wait: Duration::ZERO }));
        }
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(refused(Refusal::TooLate { expected_wait: Duration::ZERO }));
        }
        self.next_number += 1;
        let ticket = Ticket { number: self.next_number, slot: 0 };
        let entry = Entry { request, offered: now, started: None, runs: 0, losses: 0, gone: false };
        self.entries.insert(ticket, entry);
        self.queue.push_back(ticket);
        Ok(ticket)
    }

    /// What to do now.
    pub fn next(&mut self, now: Time) -> Next {
        let deadline = |entry: &Entry| entry.request.deadline;
        let late: Vec<Ticket> = self.queue.iter().copied().collect();
        for ticket in late {
            if self.entries.get(&ticket).and_then(deadline).is_some_and(|deadline| deadline <= now) {
                self.end(now, ticket, End::Expired, None);
            }
        }
        let head = self.queue.front().and_then(|ticket| self.entries.get(ticket)).map(|entry| entry.request.key);
        let sizes = head.and_then(|key| self.keys.get(&key).map(|sizes| (key, sizes.clone())));
        if let Some((key, sizes)) = sizes
            && self.running.len() < self.limits.slots as usize
        {
            let (mut tickets, mut items) = (Vec::new(), 0);
            for ticket in self.queue.iter() {
                let Some(entry) = self.entries.get_mut(ticket) else { continue };
                if entry.request.key == key && items + entry.request.items <= sizes.largest() {
                    items += entry.request.items;
                    entry.started = Some(now);
                    entry.runs += 1;
                    tickets.push(*ticket);
                }
            }
            self.queue.retain(|ticket| !tickets.contains(ticket));
            let size = sizes.as_slice().iter().copied().find(|size| *size >= items).unwrap_or(items);
            self.next_number += 1;
            let id = BatchId(self.next_number);
            let batch = Batch { id, key, size, items, tickets, expected: Duration::ZERO };
            self.running.push(batch.clone());
            return Next::Run(batch);
        }
        let queued = self.queue.iter().filter_map(|ticket| self.entries.get(ticket));
        queued.filter_map(deadline).min().map_or(Next::Idle, Next::WaitUntil)
    }

    /// A batch ended. Those that are not known, or ended before, are nobody's.
    pub fn finished(&mut self, now: Time, batch: BatchId, outcome: Outcome) {
        let Some(place) = self.running.iter().position(|running| running.id == batch) else { return };
        let running = self.running.remove(place);
        let single = running.tickets.len() == 1;
        for ticket in running.tickets.into_iter().rev() {
            let Some(entry) = self.entries.get_mut(&ticket) else { continue };
            entry.losses += u32::from(outcome == Outcome::Lost);
            let end = match outcome {
                _ if entry.gone => End::Left,
                Outcome::Done => End::Done,
                Outcome::Failed if single || entry.runs > 1 => End::Failed,
                Outcome::Lost if entry.losses >= self.limits.losses => End::Lost,
                Outcome::Failed | Outcome::Lost => {
                    self.queue.push_front(ticket);
                    continue;
                }
            };
            self.end(now, ticket, end, Some(batch));
        }
    }

    /// Nobody wants the answer any more. A request that waits leaves at once, one that runs when its batch ends.
    pub fn gone(&mut self, now: Time, ticket: Ticket) {
        if self.queue.contains(&ticket) {
            self.end(now, ticket, End::Left, None);
        } else if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.gone = true;
        }
    }

    /// The same for all requests of a caller.
    pub fn caller_gone(&mut self, now: Time, caller: Caller) {
        let own = self.entries.iter().filter(|(_, entry)| entry.request.caller == caller);
        for ticket in own.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.gone(now, ticket);
        }
    }

    /// Nothing new is taken; what waits is run.
    pub fn drain(&mut self, _now: Time) {
        self.draining = true;
    }

    /// Whether no request is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The requests that ended since the last call, in the order in which they did.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// How long a request of a caller that has nothing waiting would take to be answered.
    pub fn expected_wait(&self, _now: Time, _key: Key, _lane: Lane) -> Duration {
        Duration::ZERO
    }

    /// How busy it is.
    pub fn load(&self, _now: Time) -> Load {
        let queued = self.queue.iter().filter_map(|ticket| self.entries.get(ticket));
        Load {
            queued: self.queue.len() as u32,
            queued_items: queued.map(|entry| entry.request.items).sum(),
            running: self.running.len() as u32,
            running_items: self.running.iter().map(|batch| batch.items).sum(),
            bytes: self.entries.values().map(|entry| entry.request.bytes).sum(),
            expected_wait: [Duration::ZERO; 3],
            draining: self.draining,
        }
    }

    fn end(&mut self, now: Time, ticket: Ticket, end: End, batch: Option<BatchId>) {
        let Some(entry) = self.entries.remove(&ticket) else { return };
        self.queue.retain(|other| *other != ticket);
        let waited = entry.started.unwrap_or(now).since(entry.offered);
        let took = now.since(entry.offered);
        self.ended.push(Ended { ticket, request: entry.request, end, batch, took, waited, runs: entry.runs });
    }
}
