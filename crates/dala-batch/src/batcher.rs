//! The rules: what is taken, what runs next, and how requests end.

mod admission;
mod assembly;
mod ends;

use std::collections::VecDeque;
use std::time::Duration;

use crate::callers::{CallerId, Callers};
use crate::choose::Candidate;
use crate::lane::patience;
use crate::queues::{Place, Queues};
use crate::running::Running;
use crate::shares::Shares;
use crate::slab::Slab;
use crate::time::nanos;
use crate::trace::{Event, Trace, Turn};
use crate::{
    BatchId, Caller, End, Ended, Key, Lane, Limits, Load, Next, Outcome, Refused, Request, Sizes, Ticket, Time,
};

/// Requests for which there is room from the beginning: tables that grow move all they hold.
const ROOM: usize = 4096;

/// How often, in one call, a batch is looked for anew after all that were looked at had to expire.
const LOOKS: usize = 4;

struct Entry {
    request: Request,
    caller: CallerId,
    /// Those of its caller that came before and after it.
    before: Option<Ticket>,
    after: Option<Ticket>,
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
        let is_there = |ticket: &Ticket| self.entries.get(*ticket).is_some();
        let tickets: Vec<Ticket> = again.chain(lines).filter(is_there).collect();
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

    /// Device time of one item in the batch that is best when many wait, if anything is known of the key: by so much a
    /// request that goes before makes others wait longer.
    pub fn item_time(&self, key: Key) -> Option<Duration> {
        let service = &self.queues.get(key)?.service;
        let (size, cost) = service.fastest(u64::MAX);
        service.is_known().then(|| Duration::from_nanos(cost / u64::from(size)))
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
        let due = now + patience(lane);
        let id = self.callers.find_or_add(caller);
        let turn = self.callers.enter(id, lane, items, bytes);
        let before = self.callers.get(id).and_then(|own| own.last);
        let ticket = self.entries.insert(Entry {
            request,
            caller: id,
            before,
            after: None,
            offered: now,
            started: None,
            runs: 0,
            losses: 0,
            gone: false,
            state: State::Again,
        });
        self.link(id, before, Some(ticket));
        self.link(id, Some(ticket), None);
        let place = Place { turn, due: nanos(deadline.map_or(due, |deadline| deadline.min(due)).0), ticket };
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.state = State::Waiting(place);
        }
        self.queues.came(key, now, items, self.running.last_end);
        self.queues.enter(key, lane, place, items);
        if let Some(deadline) = deadline {
            self.queues.add_deadline(key, deadline, ticket);
        }
        self.queues.list(key, &[lane]);
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
        let is_free = self.running.slots() < self.limits.slots.max(1) as usize;
        if is_free {
            while let Some(again) = self.again.pop_front() {
                self.again_cost = self.again_cost.saturating_sub(again.cost);
                if let Some(batch) = self.run_again(now, again) {
                    return Next::Run(batch);
                }
            }
        }
        if is_free || self.limits.overtakes {
            for _ in 0..LOOKS {
                let Some((place, key, why)) = self.lead() else { break };
                let why = match why {
                    _ if is_free => why,
                    Turn::Highest { lane, .. } if self.running.lets_pass(lane) => Turn::Overtakes { lane },
                    _ => break,
                };
                until = if is_free { self.gather(now, place, key, why.lane()) } else { None };
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
        // Whoever passes others shares a run with nobody, however many wait.
        let items = u64::from(run.items.iter().sum::<u32>().max(1));
        let at_best = if run.overtakes { nanos(busy) / items } else { cost / u64::from(best) };
        self.shares.count(now, nanos(busy), at_best, run.items, next);
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
                // It cannot be tried again, and was run.
                Outcome::Failed if !is_known => End::Failed,
                Outcome::Lost if !is_known => End::Lost,
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
        let mut next = self.callers.find(caller).and_then(|id| self.callers.get(id)?.last);
        let mut tickets = Vec::new();
        while let Some(ticket) = next {
            tickets.push(ticket);
            next = self.entries.get(ticket).and_then(|entry| entry.before);
        }
        for ticket in tickets.into_iter().rev() {
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
        let mut backlog = 0u64;
        let expected_wait = Lane::ALL.map(|lane| {
            backlog = backlog.saturating_add(self.queues.backlog(lane));
            Duration::from_nanos(self.committed_nanos(now.max(self.now), lane).saturating_add(backlog))
        });
        Load {
            queued: self.waiting,
            queued_items: self.waiting_items,
            running: self.running.len() as u32,
            running_items: self.running.items(),
            bytes: self.bytes,
            expected_wait,
            room: Lane::ALL.map(|lane| self.room(lane)),
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
