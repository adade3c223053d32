//! The rules: what is taken, what runs next, and how requests end.

use std::collections::VecDeque;
use std::time::Duration;

use crate::callers::Callers;
use crate::choose::{Candidate, Choice, choose, fill};
use crate::queues::{Place, Queues};
use crate::running::{Run, Running};
use crate::shares::Shares;
use crate::slab::Slab;
use crate::time::nanos;
use crate::trace::{Event, Trace, Turn, Wait};
use crate::window::Worth;
use crate::{
    Batch, BatchId, Caller, End, Ended, Key, Lane, Limits, Load, Next, Outcome, Refusal, Refused, Request, Room, Sizes,
    Ticket, Time,
};

/// Requests for which there is room from the beginning: tables that grow move all they hold.
const ROOM: usize = 4096;

/// How many requests may expire in one call. After a long sleep there may be very many; the rest is for the next call.
const EXPIRED_AT_ONCE: usize = 256;

/// How often, in one call, a batch is looked for anew after all that were looked at had to expire.
const LOOKS: usize = 4;

/// What a batch is taken to cost where shares are counted and nothing is known of it.
const UNKNOWN: u64 = 10_000_000;

struct Entry {
    request: Request,
    offered: Time,
    started: Option<Time>,
    runs: u32,
    losses: u32,
    /// Whether nobody wants its answer.
    gone: bool,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// In its line.
    Waiting(Place),
    /// To be tried again.
    Again,
    Running,
}

/// Requests that are tried again, together.
struct Again {
    key: Key,
    tickets: Vec<Ticket>,
    /// Nanoseconds that it may take.
    cost: u64,
}

/// Which requests share a run: plain data, told what happens.
///
/// Requests that ended are collected; whoever calls takes them with [`take_ended`](Batcher::take_ended). A time before an
/// earlier one counts as that.
pub struct Batcher {
    limits: Limits,
    now: Time,
    entries: Slab<Ticket, Entry>,
    callers: Callers,
    queues: Queues,
    /// Before all that waits.
    again: VecDeque<Again>,
    again_cost: u64,
    running: Running,
    shares: Shares,
    ended: Vec<Ended>,
    trace: Trace,
    draining: bool,
    /// Items and bytes of all requests that have not ended.
    items: u64,
    bytes: u64,
    /// Requests that do not run, and their items.
    waiting: u32,
    waiting_items: u32,
    /// Kept to be filled again.
    candidates: Vec<Candidate>,
}

impl Batcher {
    /// Nothing waits and nothing runs.
    pub fn new(limits: Limits) -> Batcher {
        let room = (limits.items as usize).min(ROOM);
        Batcher {
            limits,
            now: Time::default(),
            entries: Slab::with_room(room),
            callers: Callers::new(),
            queues: Queues::new(),
            again: VecDeque::new(),
            again_cost: 0,
            running: Running::default(),
            shares: Shares::default(),
            ended: Vec::new(),
            trace: Trace::default(),
            draining: false,
            items: 0,
            bytes: 0,
            waiting: 0,
            waiting_items: 0,
            candidates: Vec::new(),
        }
    }

    /// A new key: requests of it share batches of these sizes.
    pub fn key(&mut self, sizes: impl Into<Sizes>) -> Key {
        self.queues.add_key(sizes.into())
    }

    /// A model was unloaded: its requests that wait end as [`Unloaded`](End::Unloaded), those that run end with their batch.
    pub fn forget(&mut self, now: Time, key: Key) {
        let now = self.tick(now);
        let Some(waiting) = self.queues.get(key) else { return };
        let lines = waiting.lines.iter().flat_map(|line| line.order.iter().map(|place| place.ticket));
        let again = self.again.iter().filter(|again| again.key == key).flat_map(|again| again.tickets.iter().copied());
        let tickets: Vec<Ticket> = again.chain(lines).collect();
        self.trace.add(now, || Event::Forgot { key, requests: tickets.len() as u32 });
        for ticket in tickets {
            self.end(now, ticket, End::Unloaded, None);
        }
        self.queues.remove_key(key);
    }

    /// What a run of a planned size will take until it is measured, as from a warm-up.
    pub fn assume(&mut self, key: Key, size: u32, takes: Duration) {
        self.queues.teach(key, |service| service.assume(size, takes));
    }

    /// What a run of a planned size is expected to take, if anything is known of its key.
    pub fn service_time(&self, key: Key, size: u32) -> Option<Duration> {
        let service = &self.queues.get(key)?.service;
        service.is_known().then(|| Duration::from_nanos(service.cost(size)))
    }

    /// Takes a request, or says at once why not.
    ///
    /// # Errors
    ///
    /// If there is no room, if its deadline cannot be met, or if it never could be run.
    pub fn offer(&mut self, now: Time, request: Request) -> Result<Ticket, Refused> {
        let now = self.tick(now);
        self.expire(now);
        let Request { key, lane, caller, deadline, items, bytes } = request;
        if let Err(refused) = self.admit(now, &request) {
            self.trace.add(now, || Event::Refused { key, lane, caller, refused });
            return Err(refused);
        }
        let slack = deadline.map(|deadline| deadline.since(now));
        let expected_wait = if self.trace.is_on() { self.wait_for(now, &request) } else { Duration::ZERO };
        let due = now + lane.patience();
        let ticket = self.entries.insert(Entry {
            request,
            offered: now,
            started: None,
            runs: 0,
            losses: 0,
            gone: false,
            state: State::Again,
        });
        let turn = self.callers.enter(caller, ticket, lane, items, bytes);
        let place = Place { turn, due: deadline.map_or(due, |deadline| deadline.min(due)), ticket };
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.state = State::Waiting(place);
        }
        self.queues.came(key, now, items, self.running.last_end);
        self.queues.enter(key, lane, place, items);
        if let Some(deadline) = deadline {
            self.queues.add_deadline(key, deadline, ticket);
        }
        self.items += u64::from(items);
        self.bytes += bytes;
        self.waiting += 1;
        self.waiting_items += items;
        self.trace.add(now, || Event::Took { ticket, key, lane, caller, items, turn, expected_wait, slack });
        Ok(ticket)
    }

    /// What to do now.
    pub fn next(&mut self, now: Time) -> Next {
        let now = self.tick(now);
        self.expire(now);
        let mut until = None;
        if self.running.len() < self.limits.slots.max(1) as usize {
            while let Some(again) = self.again.pop_front() {
                self.again_cost = self.again_cost.saturating_sub(again.cost);
                if let Some(batch) = self.run_again(now, again) {
                    return Next::Run(batch);
                }
            }
            for _ in 0..LOOKS {
                let Some((place, key, why)) = self.lead() else { break };
                until = self.gather(now, place, key, why.lane());
                if until.is_some() {
                    break;
                }
                self.callers.reach(why.lane(), place.turn);
                if let Some(batch) = self.run_line(now, key, why) {
                    return Next::Run(batch);
                }
                // All that were looked at were too late. If that goes on, the rest is for the next call.
                until = self.lead().map(|_| now);
            }
        }
        let alarm = self.queues.alarm().map(|(alarm, _)| alarm);
        until.into_iter().chain(alarm).min().map_or(Next::Idle, Next::WaitUntil)
    }

    /// A batch ended. One that is not known, or ended before, is nobody's.
    ///
    /// After [`Failed`](Outcome::Failed), or [`Lost`](Outcome::Lost), its requests are tried again in two halves, before all
    /// that waits, so that only the one fails that makes its batch fail when it is alone. A request is run at most once for
    /// each halving, and as often as [`Limits::losses`] says if the device is lost.
    pub fn finished(&mut self, now: Time, batch: BatchId, outcome: Outcome) {
        let now = self.tick(now);
        let Some((run, busy)) = self.running.end(batch, now) else { return };
        self.trace.add(now, || Event::Finished { batch, outcome, took: busy, expected: run.expected });
        self.queues.end_batch(run.key, run.items.iter().sum());
        if outcome == Outcome::Done {
            self.queues.teach(run.key, |service| service.learn(run.size, busy));
        }
        let next = Lane::ALL.map(|lane| self.next_cost(lane));
        let (best, cost) = self.queues.get(run.key).map_or((1, 0), |waiting| waiting.service.fastest(u64::MAX));
        self.shares.count(now, nanos(busy), cost / u64::from(best), run.items, next);
        let (is_known, is_alone) = (self.queues.get(run.key).is_some(), run.tickets.len() == 1);
        let mut again = Vec::new();
        for ticket in run.tickets {
            let Some(entry) = self.entries.get_mut(ticket) else { continue };
            entry.losses += u32::from(outcome == Outcome::Lost);
            let (runs, losses) = (entry.runs, entry.losses);
            let end = match outcome {
                _ if entry.gone => End::Left,
                Outcome::Done => End::Done,
                Outcome::Failed if is_alone => {
                    self.trace.add(now, || Event::Blamed { ticket, runs });
                    End::Failed
                }
                Outcome::Lost if losses >= self.limits.losses => {
                    self.trace.add(now, || Event::GaveUp { ticket, losses });
                    End::Lost
                }
                Outcome::Failed | Outcome::Lost if !is_known => End::Unloaded,
                Outcome::Failed | Outcome::Lost => {
                    again.push(ticket);
                    continue;
                }
            };
            self.end(now, ticket, end, Some(batch));
        }
        self.try_again(now, batch, run.key, again);
        self.expire(now);
    }

    /// Nobody wants the answer any more. A request that waits leaves at once, one that runs when its batch ends.
    pub fn gone(&mut self, now: Time, ticket: Ticket) {
        let now = self.tick(now);
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        let running = matches!(entry.state, State::Running);
        if !entry.gone {
            self.trace.add(now, || Event::Left { ticket, running });
        }
        entry.gone = true;
        if !running {
            self.end(now, ticket, End::Left, None);
        }
    }

    /// The same for all requests of a caller.
    pub fn caller_gone(&mut self, now: Time, caller: Caller) {
        let tickets = self.callers.get(caller).map(|own| own.tickets.clone());
        for ticket in tickets.into_iter().flatten() {
            self.gone(now, ticket);
        }
    }

    /// Nothing new is taken; what waits is run.
    pub fn drain(&mut self, now: Time) {
        let now = self.tick(now);
        self.draining = true;
        let waiting = self.waiting;
        self.trace.add(now, || Event::Drains { waiting });
    }

    /// Whether no request is left.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// The requests that ended since the last call, in the order in which they did.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// How long one more item would take to be answered, from a caller that has nothing waiting.
    pub fn expected_wait(&self, now: Time, key: Key, lane: Lane) -> Duration {
        Duration::from_nanos(self.wait_nanos(now.max(self.now), key, lane, None, 1))
    }

    /// How busy it is.
    pub fn load(&self, now: Time) -> Load {
        let mut wait = self.committed_nanos(now.max(self.now));
        let expected_wait = Lane::ALL.map(|lane| {
            wait = wait.saturating_add(self.queues.backlog(lane));
            Duration::from_nanos(wait)
        });
        Load {
            queued: self.waiting,
            queued_items: self.waiting_items,
            running: self.running.len() as u32,
            running_items: self.running.items(),
            bytes: self.bytes,
            expected_wait,
            draining: self.draining,
        }
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

    /// Whether a request may come in.
    fn admit(&self, now: Time, request: &Request) -> Result<(), Refused> {
        let Request { key, lane, caller, deadline, items, bytes } = *request;
        let never = |why| Err(Refused { why, retry_after: Duration::ZERO });
        if self.draining {
            return never(Refusal::Draining);
        }
        let Some(waiting) = self.queues.get(key) else { return never(Refusal::UnknownKey) };
        if items == 0 {
            return never(Refusal::Empty);
        }
        let most = (waiting.service.sizes().largest().min(self.limits.items), self.limits.bytes);
        if items > most.0 || bytes > most.1 {
            return never(Refusal::TooLarge { items: most.0, bytes: most.1 });
        }
        let part = |percent: u64| {
            let of = |all: u64| (u128::from(all) * u128::from(percent)).div_ceil(100) as u64;
            (of(self.limits.items.into()), of(self.limits.bytes))
        };
        let own = self.callers.get(caller).map_or((0, 0), |own| (own.items, own.bytes));
        let rooms = [
            (Room::Lane(lane), (self.items, self.bytes), part(lane.room_percent()), self.entries.len() == 0),
            (Room::Caller(caller), own, part(self.limits.caller_percent.min(100).into()), own.0 == 0),
        ];
        for (whose, held, room, is_empty) in rooms {
            let over = held.0 + u64::from(items) > room.0 || held.1.saturating_add(bytes) > room.1;
            if over && !is_empty {
                // Room comes when a batch ends; if none runs, with the next one that does.
                let retry_after = self.running.remaining(now).max(Duration::from_nanos(waiting.service.least(1)));
                let expected_wait = self.wait_for(now, request);
                return Err(Refused {
                    why: Refusal::Full { whose, items: held.0, bytes: held.1, expected_wait },
                    retry_after,
                });
            }
        }
        let Some(deadline) = deadline else { return Ok(()) };
        // Who is taken should not be late because a run takes a little longer than usual.
        let (slack, usual) = (deadline.since(now), self.wait_for(now, request));
        let expected_wait = usual + Duration::from_nanos(waiting.service.deviation().saturating_mul(2)).min(usual / 4);
        // What is expected may be wrong. An idle device finds out; where others would have to wait for that, it does not.
        let is_idle = self.entries.len() == 0;
        if slack.is_zero() || expected_wait > slack && !is_idle {
            let retry_after =
                expected_wait.saturating_sub(slack).max(Duration::from_nanos(waiting.service.least(items)));
            return Err(Refused { why: Refusal::TooLate { expected_wait }, retry_after });
        }
        Ok(())
    }

    fn wait_for(&self, now: Time, request: &Request) -> Duration {
        let Request { key, lane, caller, items, .. } = *request;
        Duration::from_nanos(self.wait_nanos(now, key, lane, Some(caller), items))
    }

    /// Nanoseconds until the device is through with what nothing overtakes.
    fn committed_nanos(&self, now: Time) -> u64 {
        nanos(self.running.remaining(now)).saturating_add(self.again_cost)
    }

    /// Nanoseconds until a request of so many items would be answered: after what runs, what waits in higher lanes, and of its
    /// own lane what goes before it. With those of its own key it shares batches, and goes when the first of its batch does.
    fn wait_nanos(&self, now: Time, key: Key, lane: Lane, caller: Option<Caller>, items: u32) -> u64 {
        let Some(own) = self.queues.get(key) else { return 0 };
        let part = |of: u64, part: u64, all: u64| (u128::from(of) * u128::from(part) / u128::from(all)) as u64;
        let (ahead, all) = (self.callers.ahead(caller, lane), self.queues.items(lane).max(1));
        let mut shared = part(own.items(lane), ahead.min(all), all) + u64::from(items);
        let mut others = 0u64;
        for higher in Lane::ALL.into_iter().filter(|other| *other < lane) {
            others = others.saturating_add(self.queues.backlog(higher).saturating_sub(own.backlog(higher)));
            shared += own.items(higher);
        }
        let with_it = (shared - u64::from(items)) % u64::from(own.service.fastest(u64::MAX).0);
        let of_lane = part(self.queues.backlog(lane).saturating_sub(own.backlog(lane)), ahead.min(all), all);
        others = others.saturating_add(part(of_lane, shared - with_it / 2, shared));
        let committed = self.committed_nanos(now);
        let (before, run) = match own.service.is_known() {
            true => own.service.answer(shared, committed.saturating_add(others), own.arrivals.gap(now)),
            false => (committed.saturating_add(others), 0),
        };
        let waiting = Lane::ALL.map(|lane| self.queues.items(lane) > 0);
        let stretched = self.shares.stretch(lane, before.saturating_sub(committed), waiting);
        committed.saturating_add(stretched).saturating_add(run)
    }

    /// Ends the requests that are too late, or will be whatever is done.
    fn expire(&mut self, now: Time) {
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
    fn is_tried_anyway(&self, now: Time, ticket: Ticket) -> bool {
        let deadline = self.entries.get(ticket).and_then(|entry| entry.request.deadline);
        self.entries.len() == 1 && self.running.len() == 0 && deadline.is_some_and(|deadline| deadline > now)
    }

    fn end_late(&mut self, now: Time, ticket: Ticket) {
        let Some(entry) = self.entries.get(ticket) else { return };
        let slack = entry.request.deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
        let service = self.queues.get(entry.request.key).map(|waiting| &waiting.service);
        let known = service.filter(|service| service.is_known());
        let needs = known.map_or(Duration::ZERO, |service| Duration::from_nanos(service.least(entry.request.items)));
        self.trace.add(now, || Event::Expired { ticket, slack, needs });
        self.end(now, ticket, End::Expired, None);
    }

    /// Nanoseconds of the next batch of a lane, if it has one.
    fn next_cost(&self, lane: Lane) -> Option<u64> {
        let (_, key) = self.queues.head(lane)?;
        let waiting = self.queues.get(key)?;
        let known = waiting.service.is_known();
        Some(if known { waiting.service.fastest(waiting.items(lane)).1 } else { UNKNOWN })
    }

    /// Whose turn it is: the first request of the highest lane, or of a lower one that is owed a batch.
    fn lead(&self) -> Option<(Place, Key, Turn)> {
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
    fn gather(&mut self, now: Time, head: Place, key: Key, lane: Lane) -> Option<Time> {
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
    fn run_line(&mut self, now: Time, key: Key, mut why: Turn) -> Option<Batch> {
        let lead = why.lane();
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let mut late = Vec::new();
        if let Some(waiting) = self.queues.get(key) {
            let largest = waiting.service.sizes().largest();
            let longest = waiting.service.runs().map(|(_, cost)| cost).max().unwrap_or(1);
            for lane in [lead].into_iter().chain(Lane::ALL.into_iter().filter(|lane| *lane != lead)) {
                // More than fit: large ones leave gaps, and some may be late in a large batch. Those that never are fill it.
                let mut sure = 0;
                for place in waiting.lines[lane.index()].order.iter().take(2 * largest as usize) {
                    self.consider(now, place.ticket, lane == lead, &mut candidates, &mut late);
                    let fits = candidates.last().is_some_and(|last| last.items == 1 && last.slack >= longest);
                    sure += u32::from(fits);
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
    fn run_again(&mut self, now: Time, again: Again) -> Option<Batch> {
        let (mut candidates, mut late) = (Vec::new(), Vec::new());
        for ticket in again.tickets {
            self.consider(now, ticket, true, &mut candidates, &mut late);
        }
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

    /// Adds a request to those that may run, or to those that are too late.
    fn consider(&self, now: Time, ticket: Ticket, leads: bool, may: &mut Vec<Candidate>, late: &mut Vec<Ticket>) {
        let Some(entry) = self.entries.get(ticket) else { return };
        let items = entry.request.items;
        let slack = entry.request.deadline.map_or(u64::MAX, |deadline| nanos(deadline.since(now)));
        let least = self.queues.get(entry.request.key).map_or(1, |waiting| waiting.service.least(items));
        if slack < least && !self.is_tried_anyway(now, ticket) {
            late.push(ticket);
        } else {
            may.push(Candidate { ticket, items, slack, leads });
        }
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
        let id = self.running.next_id();
        let run = Run { id, key, size, tickets: tickets.clone(), items: of_lanes, started: now, expected };
        self.running.start(run);
        let left = self.queues.get(key).map_or(0, |waiting| Lane::ALL.map(|lane| waiting.items(lane)).iter().sum());
        let (requests, why) = (tickets.len() as u32, *why);
        self.trace.add(now, || Event::Batched { batch: id, key, why, requests, items, size, expected, left });
        Some(Batch { id, key, size, items, tickets, expected })
    }

    /// Requests of a batch that failed are tried again, in two halves.
    fn try_again(&mut self, now: Time, batch: BatchId, key: Key, mut tickets: Vec<Ticket>) {
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
        let second = tickets.split_off(tickets.len().div_ceil(2));
        let (first_count, second_count) = (tickets.len() as u32, second.len() as u32);
        self.trace.add(now, || Event::Split { batch, first: first_count, second: second_count });
        self.put_before_all(key, second);
        self.put_before_all(key, tickets);
    }

    fn put_before_all(&mut self, key: Key, tickets: Vec<Ticket>) {
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

    /// Takes a request out of what waits, to run or to end.
    fn unlist(&mut self, ticket: Ticket, runs: bool) {
        let Some(entry) = self.entries.get(ticket) else { return };
        let Request { key, lane, caller, deadline, items, .. } = entry.request;
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

    fn end(&mut self, now: Time, ticket: Ticket, end: End, batch: Option<BatchId>) {
        self.unlist(ticket, false);
        let Some(entry) = self.entries.remove(ticket) else { return };
        let Request { caller, items, bytes, .. } = entry.request;
        self.callers.end(caller, ticket, items, bytes);
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

    /// Whether nothing is left of any request: for tests, which see no further than [`is_empty`](Batcher::is_empty).
    #[doc(hidden)]
    pub fn holds_nothing(&self) -> bool {
        self.is_empty()
            && self.queues.is_empty()
            && self.callers.is_empty()
            && self.again.is_empty()
            && self.running.len() == 0
            && (self.items, self.bytes, self.waiting, self.waiting_items, self.again_cost) == (0, 0, 0, 0, 0)
    }
}
