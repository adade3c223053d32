//! The rules once more, as simple as they can be written: every question is answered by looking through all requests.
//!
//! What runs take is asked of the batcher, and whether a deadline can be met is believed; all else is decided here, and
//! compared: who has room, who goes first, what is in a batch, who is too late, who ends how and in which order.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use dala_batch::{
    BatchId, Batcher, Caller, End, Key, Lane, Limits, Next, Outcome, Refusal, Refused, Request, Room, Ticket, Time,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Again,
    Running,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
    turn: u64,
    due: Time,
    state: State,
    gone: bool,
    losses: u32,
}

struct Run {
    id: BatchId,
    key: Key,
    tickets: Vec<Ticket>,
    started: Time,
    expected: Duration,
}

pub(crate) struct Model {
    limits: Limits,
    pub(crate) keys: Vec<(Key, Vec<u32>)>,
    pub(crate) held: Vec<Held>,
    again: Vec<(Key, Vec<Ticket>)>,
    runs: Vec<Run>,
    last_end: Option<Time>,
    /// In each lane: what a caller was given that always had something waiting, in parts of items.
    given: [u64; 3],
    /// Where the next request of a caller comes in.
    next_of: HashMap<(Caller, Lane), u64>,
    owed: [u64; 3],
    draining: bool,
    /// Requests that ended, in order.
    pub(crate) ended: Vec<(Ticket, End)>,
}

const TURN: u64 = 8;
const PARTS: u64 = 1024;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Model {
    pub(crate) fn new(limits: Limits) -> Model {
        Model {
            limits,
            keys: Vec::new(),
            held: Vec::new(),
            again: Vec::new(),
            runs: Vec::new(),
            last_end: None,
            given: [0; 3],
            next_of: HashMap::new(),
            owed: [0; 3],
            draining: false,
            ended: Vec::new(),
        }
    }

    pub(crate) fn add_key(&mut self, key: Key, sizes: &[u32]) {
        self.keys.push((key, sizes.to_vec()));
    }

    pub(crate) fn running(&self) -> Vec<(BatchId, Vec<Ticket>)> {
        self.runs.iter().map(|run| (run.id, run.tickets.clone())).collect()
    }

    /// Each size of a key, and its nanoseconds.
    fn costs(&self, batcher: &Batcher, key: Key) -> Vec<(u32, u64)> {
        let Some((_, sizes)) = self.keys.iter().find(|(own, _)| *own == key) else { return Vec::new() };
        sizes.iter().map(|size| (*size, batcher.service_time(key, *size).map_or(1, nanos))).collect()
    }

    fn find(&self, ticket: Ticket) -> Option<&Held> {
        self.held.iter().find(|held| held.ticket == ticket)
    }

    fn set(&mut self, ticket: Ticket, change: impl FnOnce(&mut Held)) {
        change(self.held.iter_mut().find(|held| held.ticket == ticket).unwrap());
    }

    fn end(&mut self, ticket: Ticket, end: End) {
        let held = self.find(ticket).unwrap().clone();
        if held.state == State::Waiting {
            let next = self.next_of.get_mut(&(held.request.caller, held.request.lane)).unwrap();
            *next = next.saturating_sub(u64::from(held.request.items) * PARTS);
        }
        self.held.retain(|held| held.ticket != ticket);
        for (_, tickets) in &mut self.again {
            tickets.retain(|own| *own != ticket);
        }
        let caller = held.request.caller;
        if !self.held.iter().any(|held| held.request.caller == caller) {
            self.next_of.retain(|(own, _), _| *own != caller);
        }
        self.ended.push((ticket, end));
    }

    /// Whether a request runs although it is expected to be late: there is nothing else.
    fn is_tried_anyway(&self, now: Time, held: &Held) -> bool {
        self.held.len() == 1 && self.runs.is_empty() && held.request.deadline.is_some_and(|deadline| deadline > now)
    }

    /// When the deadline of a request cannot be met any more by the smallest run.
    fn alarm(&self, batcher: &Batcher, held: &Held) -> Option<Time> {
        let least = self.costs(batcher, held.request.key).first().map_or(1, |(_, cost)| *cost);
        let deadline = held.request.deadline.filter(|_| held.state != State::Running)?;
        Some(Time(deadline.0.saturating_sub(Duration::from_nanos(least - 1))))
    }

    fn first_alarm(&self, batcher: &Batcher) -> Option<(Time, &Held)> {
        let alarms = self.held.iter().filter_map(|held| Some((self.alarm(batcher, held)?, held)));
        alarms.min_by_key(|(alarm, held)| (*alarm, held.request.key, held.request.deadline, held.ticket))
    }

    fn expire(&mut self, batcher: &Batcher, now: Time) {
        while let Some((alarm, held)) = self.first_alarm(batcher) {
            if alarm > now || self.is_tried_anyway(now, held) {
                break;
            }
            let ticket = held.ticket;
            self.end(ticket, End::Expired);
        }
    }

    /// A request was offered, and this was the answer.
    pub(crate) fn offered(&mut self, batcher: &Batcher, now: Time, request: Request, answer: Result<Ticket, Refused>) {
        self.expire(batcher, now);
        let refusal = self.refusal(&request);
        let ticket = match answer {
            Err(Refused { why: Refusal::TooLate { expected_wait }, retry_after }) => {
                assert_eq!(refusal, None, "what can never be taken is said first");
                let slack = request.deadline.unwrap().since(now);
                assert!(slack.is_zero() || !self.held.is_empty(), "on an idle device only what is past is too late");
                assert!(slack.is_zero() || expected_wait > slack, "{expected_wait:?}, but has {slack:?}");
                assert!(!retry_after.is_zero());
                return;
            }
            Err(Refused { why, .. }) => {
                let why = match why {
                    Refusal::Full { whose, items, bytes, .. } => {
                        Refusal::Full { whose, items, bytes, expected_wait: Duration::ZERO }
                    }
                    why => why,
                };
                assert_eq!(Some(why), refusal);
                return;
            }
            Ok(ticket) => ticket,
        };
        assert_eq!(refusal, None);
        assert!(request.deadline.is_none_or(|deadline| deadline > now));
        let lane = request.lane.index();
        let next = self.next_of.entry((request.caller, request.lane)).or_default();
        let start = self.given[lane].max(*next);
        *next = start + u64::from(request.items) * PARTS;
        let turn = self.given[lane] / (TURN * PARTS) + (start - self.given[lane]) / (TURN * PARTS);
        let patience = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10)][lane];
        let due = request.deadline.unwrap_or(Time(Duration::MAX)).min(now + patience);
        self.held.push(Held { ticket, request, turn, due, state: State::Waiting, gone: false, losses: 0 });
    }

    fn refusal(&self, request: &Request) -> Option<Refusal> {
        if self.draining {
            return Some(Refusal::Draining);
        }
        let Some((_, sizes)) = self.keys.iter().find(|(key, _)| *key == request.key) else {
            return Some(Refusal::UnknownKey);
        };
        if request.items == 0 {
            return Some(Refusal::Empty);
        }
        let most = self.limits.items.min(*sizes.last().unwrap());
        if request.items > most || request.bytes > self.limits.bytes {
            return Some(Refusal::TooLarge { items: most, bytes: self.limits.bytes });
        }
        let sum = |held: &[&Held]| {
            let items: u64 = held.iter().map(|held| u64::from(held.request.items)).sum();
            (items, held.iter().map(|held| held.request.bytes).sum::<u64>())
        };
        let everybody: Vec<&Held> = self.held.iter().collect();
        let own: Vec<&Held> = self.held.iter().filter(|held| held.request.caller == request.caller).collect();
        let (items, bytes) = sum(&everybody);
        let (all_items, all_bytes) = (u64::from(self.limits.items), self.limits.bytes);
        let percent = [100, 90, 75][request.lane.index()];
        if !everybody.is_empty()
            && (items + u64::from(request.items) > (all_items * percent).div_ceil(100)
                || bytes + request.bytes > (all_bytes * percent).div_ceil(100))
        {
            return Some(Refusal::Full {
                whose: Room::Lane(request.lane),
                items,
                bytes,
                expected_wait: Duration::ZERO,
            });
        }
        let (own_items, own_bytes) = sum(&own);
        let percent = u64::from(self.limits.caller_percent);
        let is_more = |own: u64, free: u64| percent < 100 && own * (100 - percent) > free * percent;
        if !own.is_empty()
            && (is_more(own_items + u64::from(request.items), all_items - items)
                || is_more(own_bytes + request.bytes, all_bytes - bytes))
        {
            let whose = Room::Caller(request.caller);
            return Some(Refusal::Full { whose, items: own_items, bytes: own_bytes, expected_wait: Duration::ZERO });
        }
        None
    }

    /// Those of a lane that wait, in order; of one key, or of all.
    fn line(&self, lane: Lane, key: Option<Key>) -> Vec<&Held> {
        let own = |held: &&Held| held.state == State::Waiting && held.request.lane == lane;
        let mut line: Vec<&Held> = self.held.iter().filter(own).collect();
        line.retain(|held| key.is_none_or(|key| held.request.key == key));
        line.sort_by_key(|held| (held.turn, held.due, held.ticket));
        line
    }

    fn next_cost(&self, batcher: &Batcher, lane: Lane) -> Option<u64> {
        let key = self.line(lane, None).first()?.request.key;
        let items = self.line(lane, Some(key)).iter().map(|held| held.request.items).sum();
        let costs = self.costs(batcher, key);
        let known = batcher.service_time(key, costs[0].0).is_some();
        Some(if known { fastest(&costs, items).1 } else { 10_000_000 })
    }

    /// What comes next, and its consequences.
    pub(crate) fn next(&mut self, batcher: &Batcher, now: Time, answer: &Next) {
        self.expire(batcher, now);
        let mut until = None;
        if self.runs.len() < self.limits.slots.max(1) as usize {
            while !self.again.is_empty() {
                let (key, tickets) = self.again.remove(0);
                let candidates = self.timely(batcher, now, &tickets);
                if let Some(taken) = self.start(batcher, now, key, &candidates, candidates.len(), answer) {
                    let left: Vec<Ticket> = candidates.into_iter().filter(|ticket| !taken.contains(ticket)).collect();
                    if !left.is_empty() {
                        self.again.insert(0, (key, left));
                    }
                    return;
                }
            }
            while let Some((lane, key, turn)) = self.lead(batcher) {
                until = self.gather(batcher, now, lane, key);
                if until.is_some() {
                    break;
                }
                self.given[lane.index()] = self.given[lane.index()].max(turn * TURN * PARTS);
                let most = 2 * self.costs(batcher, key).last().unwrap().0 as usize;
                let of = |lane| self.line(lane, Some(key)).into_iter().take(most).map(|held| held.ticket).collect();
                let own: Vec<Ticket> = of(lane);
                let others = Lane::ALL.into_iter().filter(|other| *other != lane);
                let others: Vec<Ticket> = others.flat_map(|other| -> Vec<Ticket> { of(other) }).collect();
                // All are looked at before any of them ends.
                let [own, others] = self.timely_of(batcher, now, [own, others]);
                let candidates = [&own[..], &others].concat();
                if self.start(batcher, now, key, &candidates, own.len(), answer).is_some() {
                    return;
                }
            }
        }
        let alarm = self.first_alarm(batcher).map(|(alarm, _)| alarm);
        let expected = until.into_iter().chain(alarm).min().map_or(Next::Idle, Next::WaitUntil);
        assert_eq!(*answer, expected);
    }

    /// With two slots a batch waits while it is not full and the device is busy.
    fn gather(&self, batcher: &Batcher, now: Time, lane: Lane, key: Key) -> Option<Time> {
        assert!(self.limits.window.is_zero() && self.limits.linger.is_zero());
        let costs = self.costs(batcher, key);
        batcher.service_time(key, costs[0].0)?;
        let items: u32 = self.line(lane, Some(key)).iter().map(|held| held.request.items).sum();
        if self.draining || self.runs.is_empty() || items >= fastest(&costs, u32::MAX).0 {
            return None;
        }
        let mut free = self.last_end.unwrap_or_default();
        for run in &self.runs {
            free = free.max(run.started) + run.expected;
        }
        let until = Time(free.0.saturating_sub(self.limits.prepare));
        (until > now).then_some(until)
    }

    fn lead(&self, batcher: &Batcher) -> Option<(Lane, Key, u64)> {
        let mut lead = None;
        for lane in Lane::ALL {
            let line = self.line(lane, None);
            let Some(first) = line.first() else { continue };
            let first = (lane, first.request.key, first.turn);
            if lead.is_none() {
                lead = Some(first);
            } else if self.owed[lane.index()] >= self.next_cost(batcher, lane).unwrap() {
                return Some(first);
            }
        }
        lead
    }

    fn timely(&mut self, batcher: &Batcher, now: Time, tickets: &[Ticket]) -> Vec<Ticket> {
        let [timely, _] = self.timely_of(batcher, now, [tickets.to_vec(), Vec::new()]);
        timely
    }

    /// Ends those that no plan can answer in time; gives the others.
    fn timely_of(&mut self, batcher: &Batcher, now: Time, of: [Vec<Ticket>; 2]) -> [Vec<Ticket>; 2] {
        let is_late = |ticket: &Ticket| {
            let held = self.find(*ticket).unwrap();
            let costs = self.costs(batcher, held.request.key);
            let least = costs.iter().find(|(size, _)| *size >= held.request.items).unwrap().1;
            slack(now, held) < least && !self.is_tried_anyway(now, held)
        };
        let late: BTreeSet<Ticket> = of.iter().flatten().copied().filter(is_late).collect();
        let in_order: Vec<Ticket> = of.iter().flatten().copied().filter(|ticket| late.contains(ticket)).collect();
        for ticket in in_order {
            self.end(ticket, End::Expired);
        }
        of.map(|tickets| tickets.into_iter().filter(|ticket| !late.contains(ticket)).collect())
    }

    /// Starts a batch of some of these, of which the first `own` are of the lane whose turn it is; says which.
    fn start(
        &mut self,
        batcher: &Batcher,
        now: Time,
        key: Key,
        candidates: &[Ticket],
        own: usize,
        answer: &Next,
    ) -> Option<Vec<Ticket>> {
        let first = self.find(*candidates.first()?).unwrap();
        let costs = self.costs(batcher, key);
        let fill = |(size, cost): (u32, u64), among: &[Ticket]| {
            let (mut taken, mut items) = (Vec::new(), 0);
            for ticket in among {
                let held = self.find(*ticket).unwrap();
                if items + held.request.items <= size && slack(now, held) >= cost {
                    taken.push(*ticket);
                    items += held.request.items;
                }
            }
            (items, taken)
        };
        let mut chosen: Option<(u32, u64)> = None;
        for run in &costs {
            let best = chosen.map_or(Rate(0, 1), |best| Rate(fill(best, &candidates[..own]).0.into(), best.1));
            if Rate(fill(*run, &candidates[..own]).0.into(), run.1) > best {
                chosen = Some(*run);
            }
        }
        let (size, taken, cost) = match chosen {
            Some(own_run) => {
                let own_items = u64::from(fill(own_run, &candidates[..own]).0);
                let mut best = own_run;
                for run in costs.iter().filter(|run| run.0 > own_run.0 && run.1 <= own_run.1.saturating_mul(2)) {
                    let all = Rate(fill(*run, candidates).0.into(), run.1);
                    let twice = all >= Rate(2 * own_items, own_run.1);
                    let better = all > Rate(fill(best, candidates).0.into(), best.1);
                    let keeps_own = u64::from(fill(*run, &candidates[..own]).0) >= own_items;
                    if own < candidates.len() && twice && better && keeps_own {
                        best = *run;
                    }
                }
                (best.0, fill(best, candidates).1, best.1)
            }
            None => {
                let (size, cost) = costs.iter().find(|(size, _)| *size >= first.request.items).unwrap();
                (*size, vec![first.ticket], *cost)
            }
        };
        let Next::Run(batch) = answer else { panic!("{answer:?} instead of {taken:?}") };
        assert_eq!((batch.key, batch.size, &batch.tickets), (key, size, &taken));
        let items: u32 = taken.iter().map(|ticket| self.find(*ticket).unwrap().request.items).sum();
        assert_eq!(batch.items, items);
        let expected = batcher.service_time(key, size).map_or(Duration::ZERO, |_| Duration::from_nanos(cost));
        assert_eq!(batch.expected, expected);
        for ticket in &taken {
            let held = self.find(*ticket).unwrap().clone();
            if held.state == State::Waiting {
                let lane = held.request.lane;
                let callers: BTreeSet<Caller> = self.line(lane, None).iter().map(|held| held.request.caller).collect();
                self.given[lane.index()] += u64::from(held.request.items) * PARTS / callers.len() as u64;
            }
            self.set(*ticket, |held| held.state = State::Running);
        }
        self.runs.push(Run { id: batch.id, key, tickets: taken.clone(), started: now, expected });
        Some(taken)
    }

    pub(crate) fn finished(&mut self, batcher: &Batcher, now: Time, id: BatchId, outcome: Outcome) {
        let Some(place) = self.runs.iter().position(|run| run.id == id) else { return };
        let run = self.runs.remove(place);
        let busy = nanos(now.since(run.started.max(self.last_end.unwrap_or_default())));
        self.last_end = Some(now);
        let lane_items = |lane: Lane| {
            let of = run.tickets.iter().map(|ticket| self.find(*ticket).unwrap().request);
            of.filter(|request| request.lane == lane).map(|request| u64::from(request.items)).sum::<u64>()
        };
        let items = Lane::ALL.map(lane_items);
        for lane in Lane::ALL {
            let (owed, of) = (self.owed[lane.index()], items[lane.index()]);
            self.owed[lane.index()] = match self.next_cost(batcher, lane) {
                None => 0,
                Some(_) if of > 0 => owed
                    .saturating_sub((u128::from(busy) * u128::from(of) / u128::from(items.iter().sum::<u64>())) as u64),
                Some(next) => owed.saturating_add(busy / 100 * [0, 10, 5][lane.index()]).min(next),
            };
        }
        let mut again = Vec::new();
        for ticket in &run.tickets {
            self.set(*ticket, |held| held.losses += u32::from(outcome == Outcome::Lost));
            let held = self.find(*ticket).unwrap();
            let end = if held.gone {
                End::Left
            } else if outcome == Outcome::Done {
                End::Done
            } else if outcome == Outcome::Failed && run.tickets.len() == 1 {
                End::Failed
            } else if outcome == Outcome::Lost && held.losses >= self.limits.losses {
                End::Lost
            } else if !self.keys.iter().any(|(key, _)| *key == run.key) {
                if outcome == Outcome::Failed { End::Failed } else { End::Lost }
            } else {
                again.push(*ticket);
                continue;
            };
            self.end(*ticket, end);
        }
        for ticket in &again {
            self.set(*ticket, |held| held.state = State::Again);
        }
        let second = again.split_off(again.len().div_ceil(2));
        self.again.insert(0, (run.key, second));
        self.again.insert(0, (run.key, again));
        self.again.retain(|(_, tickets)| !tickets.is_empty());
        self.expire(batcher, now);
    }

    pub(crate) fn gone(&mut self, ticket: Ticket) {
        match self.find(ticket).map(|held| held.state) {
            Some(State::Running) => self.set(ticket, |held| held.gone = true),
            Some(_) => self.end(ticket, End::Left),
            None => {}
        }
    }

    pub(crate) fn caller_gone(&mut self, caller: Caller) {
        let mut own: Vec<Ticket> =
            self.held.iter().filter(|held| held.request.caller == caller).map(|held| held.ticket).collect();
        own.sort_unstable();
        for ticket in own {
            self.gone(ticket);
        }
    }

    pub(crate) fn forget(&mut self, key: Key) {
        let mut tickets: Vec<Ticket> =
            self.again.iter().filter(|(own, _)| *own == key).flat_map(|(_, tickets)| tickets.clone()).collect();
        for lane in Lane::ALL {
            tickets.extend(self.line(lane, Some(key)).iter().map(|held| held.ticket));
        }
        for ticket in tickets {
            self.end(ticket, End::Unloaded);
        }
        self.keys.retain(|(own, _)| *own != key);
        self.again.retain(|(own, _)| *own != key);
    }

    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }
}

fn slack(now: Time, held: &Held) -> u64 {
    held.request.deadline.map_or(u64::MAX, |deadline| nanos(deadline.since(now)))
}

/// Items in nanoseconds, compared exactly.
struct Rate(u64, u64);

impl PartialEq for Rate {
    fn eq(&self, other: &Rate) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Rate) -> Option<Ordering> {
        let (left, right) = (u128::from(self.0) * u128::from(other.1), u128::from(other.0) * u128::from(self.1));
        Some(left.cmp(&right))
    }
}

/// The run with the most items in a second when so many wait; the smallest of them.
fn fastest(costs: &[(u32, u64)], items: u32) -> (u32, u64) {
    let rate = |run: &(u32, u64)| Rate(items.min(run.0).into(), run.1);
    *costs.iter().find(|run| costs.iter().all(|other| rate(other) <= rate(run))).unwrap()
}
