//! What a node serves, and whom it asks: the rules of `dala-batch` and `dala-route`, each under a lock that is held for
//! microseconds. The clock is this node's own; what comes from Elixir and goes there are spans of time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dala_batch::{BatchId, Batcher, Caller, Key, Lane, Limits, Next, Outcome, Request, Sizes, Time};
use dala_route::{Ask, Member, Ran, Refusal, Refused, Route, Router, Standing, Word};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, LocalPid, Monitor, ResourceArc, Term};

use crate::lock::lock;
use crate::terms::{Bad, map};

mod atoms {
    rustler::atoms! {
        ok, error, run, wait, idle, done, failed, lost, unknown,
        interactive, default, background,
        queued, queued_items, running, running_items, bytes, expected_wait, room, draining,
        open, rests, tried, members, in_flight, repeats_left,
    }
}

/// Expected waits by lane, what one more request adds, room by lane, whether it drains; times in nanoseconds.
pub(crate) type WordTerm = ((u64, u64, u64), u64, (u32, u32, u32), bool);

/// A key, a lane, a caller, microseconds that are left, items and bytes.
pub(crate) type RequestTerm = (u64, Atom, u64, Option<u64>, u32, u64);

/// A lane, microseconds that are left, whether it may be run twice, and the one member that it is for, if there is.
pub(crate) type AskTerm = (Atom, Option<u64>, bool, Option<u64>);

/// Requests that wait on this node, and those that run. Elixir knows what it gives out by number.
pub(crate) struct Desk {
    start: Instant,
    state: Mutex<Waiting>,
}

struct Waiting {
    batcher: Batcher,
    keys: HashMap<u64, Key>,
    tickets: HashMap<u64, dala_batch::Ticket>,
    batches: HashMap<u64, BatchId>,
}

impl Desk {
    pub(crate) fn new(items: u32, bytes: u64, slots: u32) -> Desk {
        let batcher = Batcher::new(Limits { items, bytes, slots, ..Limits::default() });
        let (keys, tickets, batches) = Default::default();
        Desk { start: Instant::now(), state: Mutex::new(Waiting { batcher, keys, tickets, batches }) }
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed())
    }

    /// The number of a new key. What runs of some sizes take is known if they were tried.
    pub(crate) fn key(&self, sizes: Vec<u32>, tried: &[(u32, u64)]) -> u64 {
        let mut state = lock(&self.state);
        let key = state.batcher.key(Sizes::new(sizes));
        for (size, micros) in tried {
            state.batcher.assume(key, *size, Duration::from_micros(*micros));
        }
        state.keys.insert(key.number(), key);
        key.number()
    }

    /// `{:ok, ticket}` or `{:error, {code, microseconds, text}}`.
    pub(crate) fn offer<'a>(&self, env: Env<'a>, request: RequestTerm) -> Result<Term<'a>, Bad> {
        let (key, name, caller, left, items, bytes) = request;
        let lane = lane(name)?;
        let mut state = lock(&self.state);
        let key = *state.keys.get(&key).ok_or(Bad("key"))?;
        let now = self.now();
        let deadline = left.map(|left| now + Duration::from_micros(left));
        let request = Request { key, lane, caller: Caller(caller), deadline, items, bytes };
        Ok(match state.batcher.offer(now, request) {
            Ok(ticket) => {
                state.tickets.insert(ticket.number(), ticket);
                (atoms::ok(), ticket.number()).encode(env)
            }
            Err(refused) => refusal(env, refused.why.code(), refused.retry_after, &refused.to_string()),
        })
    }

    /// `{:run, {batch, size, items, tickets}}`, `{:wait, microseconds}` or `:idle`.
    pub(crate) fn next<'a>(&self, env: Env<'a>) -> Term<'a> {
        let mut state = lock(&self.state);
        let now = self.now();
        match state.batcher.next(now) {
            Next::Run(batch) => {
                let number = batch.id.number();
                state.batches.insert(number, batch.id);
                let tickets: Vec<u64> = batch.tickets.iter().map(|ticket| ticket.number()).collect();
                (atoms::run(), (number, batch.size, batch.items, tickets)).encode(env)
            }
            Next::WaitUntil(time) => (atoms::wait(), micros(time.since(now))).encode(env),
            Next::Idle => atoms::idle().encode(env),
        }
    }

    /// A batch ended: `:done`, `:failed` or `:lost`.
    pub(crate) fn finished(&self, batch: u64, how: Atom) -> Result<(), Bad> {
        let known =
            [(atoms::done(), Outcome::Done), (atoms::failed(), Outcome::Failed), (atoms::lost(), Outcome::Lost)];
        let (_, outcome) = known.into_iter().find(|(atom, _)| *atom == how).ok_or(Bad("outcome"))?;
        let mut state = lock(&self.state);
        if let Some(batch) = state.batches.remove(&batch) {
            state.batcher.finished(self.now(), batch, outcome);
        }
        Ok(())
    }

    /// Nobody wants the answer any more.
    pub(crate) fn gone(&self, ticket: u64) {
        let mut state = lock(&self.state);
        if let Some(ticket) = state.tickets.get(&ticket).copied() {
            state.batcher.gone(self.now(), ticket);
        }
    }

    /// The same for all that a caller asked.
    pub(crate) fn caller_gone(&self, caller: u64) {
        lock(&self.state).batcher.caller_gone(self.now(), Caller(caller));
    }

    pub(crate) fn drain(&self) {
        lock(&self.state).batcher.drain(self.now());
    }

    /// `{ticket, how, took, waited, runs}` of each request that ended since the last call; times in microseconds.
    pub(crate) fn take_ended<'a>(&self, env: Env<'a>) -> Vec<Term<'a>> {
        let mut state = lock(&self.state);
        let all = state.batcher.take_ended();
        for ended in &all {
            state.tickets.remove(&ended.ticket.number());
        }
        drop(state);
        let term = |ended: dala_batch::Ended| {
            let (took, waited) = (micros(ended.took), micros(ended.waited));
            (ended.ticket.number(), atom(env, ended.end.code()), took, waited, ended.runs).encode(env)
        };
        all.into_iter().map(term).collect()
    }

    /// How busy it is; times in microseconds, by lane.
    pub(crate) fn load<'a>(&self, env: Env<'a>) -> Term<'a> {
        let load = lock(&self.state).batcher.load(self.now());
        let waits = load.expected_wait.map(micros);
        map(
            env,
            &[
                (atoms::queued(), load.queued.encode(env)),
                (atoms::queued_items(), load.queued_items.encode(env)),
                (atoms::running(), load.running.encode(env)),
                (atoms::running_items(), load.running_items.encode(env)),
                (atoms::bytes(), load.bytes.encode(env)),
                (atoms::expected_wait(), by_lane(env, &waits)),
                (atoms::room(), by_lane(env, &load.room)),
                (atoms::draining(), load.draining.encode(env)),
            ],
        )
    }

    /// What this node says of itself to those who ask for a key.
    pub(crate) fn word(&self, key: u64) -> Result<WordTerm, Bad> {
        let state = lock(&self.state);
        let key = *state.keys.get(&key).ok_or(Bad("key"))?;
        let Word { expected_wait, each, room, drains } = Word::of(&state.batcher, self.now(), key);
        let [first, second, third] = expected_wait.map(nanos);
        Ok(((first, second, third), nanos(each), room.into(), drains))
    }
}

/// Whom this node asks for a name.
pub(crate) struct Routes {
    start: Instant,
    state: Mutex<Trips>,
}

struct Trips {
    router: Router,
    tickets: HashMap<u64, dala_route::Ticket>,
    /// The request of each process that waits for an answer: it waits for one at a time.
    callers: HashMap<LocalPid, Held>,
}

struct Held {
    ticket: u64,
    monitor: Option<Monitor>,
}

impl Trips {
    /// Nobody wants the answer of a request any more.
    fn gone(&mut self, now: Time, ticket: u64) {
        if let Some(ticket) = self.tickets.remove(&ticket) {
            self.router.gone(now, ticket);
        }
    }
}

impl Routes {
    pub(crate) fn new() -> Routes {
        let router = Router::new(dala_route::Limits::default());
        let (tickets, callers) = Default::default();
        Routes { start: Instant::now(), state: Mutex::new(Trips { router, tickets, callers }) }
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed())
    }

    pub(crate) fn join(&self, member: u64) {
        lock(&self.state).router.join(self.now(), Member(member));
    }

    pub(crate) fn leave(&self, member: u64) {
        lock(&self.state).router.leave(self.now(), Member(member));
    }

    /// A member said something without being asked.
    pub(crate) fn heard(&self, member: u64, said: Term) {
        if let Some(word) = word(said) {
            lock(&self.state).router.heard(self.now(), Member(member), word);
        }
    }

    /// Where a request of the calling process goes: `{:ok, {ticket, member, microseconds}}`, with nil if it may wait for ever, or
    /// `{:error, {code, microseconds, text}}`. If the process dies the request is gone.
    pub(crate) fn ask<'a>(this: &ResourceArc<Routes>, env: Env<'a>, ask: AskTerm) -> Result<Term<'a>, Bad> {
        let (name, left, pure, only) = ask;
        let (lane, pid) = (lane(name)?, env.pid());
        let mut state = lock(&this.state);
        let now = this.now();
        let deadline = left.map(|left| now + Duration::from_micros(left));
        let asked = state.router.ask(now, Ask { lane, deadline, pure, only: only.map(Member) }, random());
        let Ok(route) = &asked else { return Ok(routed(env, now, asked)) };
        let ticket = route.ticket.number();
        state.tickets.insert(ticket, route.ticket);
        // Listed before it is watched: a process may be killed at any moment while it is in a call.
        let before = state.callers.insert(pid, Held { ticket, monitor: None });
        if let Some(before) = &before {
            state.gone(now, before.ticket);
        }
        drop(state);
        if let Some(monitor) = before.and_then(|before| before.monitor) {
            env.demonitor(this, &monitor);
        }
        match env.monitor(this, &pid) {
            Some(monitor) => {
                if let Some(held) = lock(&this.state).callers.get_mut(&pid) {
                    held.monitor = Some(monitor);
                }
            }
            None => this.down(pid),
        }
        Ok(routed(env, now, asked))
    }

    /// A member answered, with what it says of itself.
    pub(crate) fn answered(this: &ResourceArc<Routes>, env: Env, ticket: u64, said: Term) {
        let said = word(said);
        let mut state = lock(&this.state);
        if let Some(ticket) = state.tickets.remove(&ticket) {
            state.router.answered(this.now(), ticket, said);
        }
        drop(state);
        Routes::let_go(this, env, ticket);
    }

    /// A member did not take a request.
    pub(crate) fn refused<'a>(this: &ResourceArc<Routes>, env: Env<'a>, ticket: u64, said: Term) -> Term<'a> {
        let said = word(said);
        Routes::again(this, env, ticket, |router, now, ticket| router.refused(now, ticket, said, random()))
    }

    /// There is no connection to a member any more, which may have run the request, or certainly did not.
    pub(crate) fn lost<'a>(this: &ResourceArc<Routes>, env: Env<'a>, ticket: u64, perhaps: bool) -> Term<'a> {
        let ran = if perhaps { Ran::Perhaps } else { Ran::No };
        Routes::again(this, env, ticket, |router, now, ticket| router.lost(now, ticket, ran, random()))
    }

    /// There was no answer in time.
    pub(crate) fn late<'a>(this: &ResourceArc<Routes>, env: Env<'a>, ticket: u64) -> Term<'a> {
        Routes::again(this, env, ticket, |router, now, ticket| router.late(now, ticket, random()))
    }

    /// The next route of a request, or its end.
    fn again<'a>(
        this: &ResourceArc<Routes>,
        env: Env<'a>,
        number: u64,
        tell: impl FnOnce(&mut Router, Time, dala_route::Ticket) -> Result<Route, Refused>,
    ) -> Term<'a> {
        let mut state = lock(&this.state);
        let now = this.now();
        let unknown = Refused { why: Refusal::UnknownTicket, retry_after: Duration::ZERO };
        let ticket = state.tickets.get(&number).copied();
        let next = ticket.map_or(Err(unknown), |ticket| tell(&mut state.router, now, ticket));
        if next.is_err() {
            state.tickets.remove(&number);
        }
        drop(state);
        if next.is_err() {
            Routes::let_go(this, env, number);
        }
        routed(env, now, next)
    }

    /// The calling process waits for this request no more.
    fn let_go(this: &ResourceArc<Routes>, env: Env, ticket: u64) {
        let pid = env.pid();
        let mut state = lock(&this.state);
        if state.callers.get(&pid).is_none_or(|held| held.ticket != ticket) {
            return;
        }
        let held = state.callers.remove(&pid);
        drop(state);
        if let Some(monitor) = held.and_then(|held| held.monitor) {
            env.demonitor(this, &monitor);
        }
    }

    /// A process that waited is gone.
    pub(crate) fn down(&self, pid: LocalPid) {
        let mut state = lock(&self.state);
        if let Some(held) = state.callers.remove(&pid) {
            state.gone(self.now(), held.ticket);
        }
    }

    /// Members, each `{number, standing, microseconds of expected wait}`; requests that are with them; repeats that are left.
    pub(crate) fn info<'a>(&self, env: Env<'a>) -> Term<'a> {
        let state = lock(&self.state);
        let now = self.now();
        let member = |member: Member| {
            let standing = match state.router.standing(member) {
                Some(Standing::Open) => atoms::open(),
                Some(Standing::Rests { .. }) => atoms::rests(),
                Some(Standing::Tried { .. }) => atoms::tried(),
                None => atoms::unknown(),
            };
            let wait = state.router.expected_wait(now, member, Lane::Default).unwrap_or_default();
            (member.0, standing, micros(wait)).encode(env)
        };
        let members: Vec<Term> = state.router.members().map(member).collect();
        map(
            env,
            &[
                (atoms::members(), members.encode(env)),
                (atoms::in_flight(), state.router.in_flight().encode(env)),
                (atoms::repeats_left(), state.router.repeats_left().encode(env)),
            ],
        )
    }
}

fn routed<'a>(env: Env<'a>, now: Time, routed: Result<Route, Refused>) -> Term<'a> {
    match routed {
        Ok(Route { ticket, member, until, .. }) => {
            let wait = until.map(|until| micros(until.since(now)));
            (atoms::ok(), (ticket.number(), member.0, wait)).encode(env)
        }
        Err(refused) => refusal(env, refused.why.code(), refused.retry_after, &refused.to_string()),
    }
}

fn refusal<'a>(env: Env<'a>, code: &str, retry_after: Duration, text: &str) -> Term<'a> {
    (atoms::error(), (atom(env, code), micros(retry_after), text)).encode(env)
}

/// Codes are a fixed list: they do not fill the VM's table of atoms.
fn atom(env: Env, code: &str) -> Atom {
    Atom::from_str(env, code).unwrap_or_else(|_| atoms::unknown())
}

/// What a member said, if this can be read: it may be of another version.
fn word(said: Term) -> Option<Word> {
    let ((first, second, third), each, room, drains): WordTerm = said.decode().ok()?;
    let expected_wait = [first, second, third].map(Duration::from_nanos);
    Some(Word { expected_wait, each: Duration::from_nanos(each), room: room.into(), drains })
}

fn by_lane<'a>(env: Env<'a>, values: &[impl Encoder; 3]) -> Term<'a> {
    let pairs: Vec<(Atom, Term)> =
        Lane::ALL.into_iter().zip(values).map(|(lane, value)| (lane_atom(lane), value.encode(env))).collect();
    map(env, &pairs)
}

fn lane_atom(lane: Lane) -> Atom {
    match lane {
        Lane::Interactive => atoms::interactive(),
        Lane::Default => atoms::default(),
        Lane::Background => atoms::background(),
    }
}

fn lane(name: Atom) -> Result<Lane, Bad> {
    Lane::ALL.into_iter().find(|lane| lane_atom(*lane) == name).ok_or(Bad("lane"))
}

/// Any number, another one each time.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
