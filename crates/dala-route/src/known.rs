//! What is known of a member: its last word, corrected by what happened since.

use std::collections::VecDeque;
use std::time::Duration;

use dala_batch::{Lane, Time};

use crate::mean::Mean;
use crate::{Member, Ticket, Word};

/// How long what is known of one member counts more than what is known of all.
const FORGET: f64 = 1e9;

/// What a request adds to a wait as long as nobody said: then the member with fewer requests is better.
const SOME: f64 = 1e6;

/// Whether a member is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is, and is at this place of those that are.
    Open(usize),
    /// Not before that time.
    Rests(Time),
    /// This one request tries it.
    Tried(Ticket),
}

/// What members usually are like, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Usual {
    waits: [Mean; 3],
    each: Mean,
    overhead: Mean,
}

/// What a member is expected to do, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// What is left of what it said. Others may have come meanwhile, and it does not get shorter by that.
    pub(crate) least: f64,
    /// With those of other callers that have come meanwhile.
    pub(crate) likely: f64,
    /// What it takes longer than it says.
    pub(crate) overhead: f64,
    /// What one more request adds.
    pub(crate) each: f64,
    /// Whether it has room.
    pub(crate) room: bool,
}

impl Forecast {
    /// When an answer is expected.
    pub(crate) fn answer(&self) -> f64 {
        self.likely + self.overhead
    }
}

#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) member: Member,
    /// A number that this one only has, even if it leaves and joins again.
    pub(crate) number: u64,
    pub(crate) state: State,
    /// Since when it is asked.
    pub(crate) opened: Time,
    /// How often in a row it was lost, or drained.
    pub(crate) losses: u32,
    word: Option<Word>,
    /// When its word was heard; without one, when it joined.
    heard: Time,
    /// When it last answered or said anything.
    pub(crate) alive: Time,
    /// Requests that it has, and that its word does not count.
    sent: VecDeque<(Time, Ticket, Lane)>,
    /// How many these are in each lane.
    since: [u32; 3],
    waits: [Mean; 3],
    overhead: Mean,
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

impl Known {
    pub(crate) fn new(member: Member, number: u64, now: Time) -> Known {
        Known {
            member,
            number,
            state: State::Rests(now),
            opened: now,
            losses: 0,
            word: None,
            heard: now,
            alive: now,
            sent: VecDeque::new(),
            since: [0; 3],
            waits: Default::default(),
            overhead: Mean::default(),
        }
    }

    /// What one more request of a lane may expect.
    pub(crate) fn forecast(&self, now: Time, lane: Lane, usual: &Usual) -> Forecast {
        let place = lane.index();
        let age = nanos(now.since(self.heard));
        // What nobody said for long is as likely as what others say.
        let fade = FORGET / (FORGET + age);
        let of_all = usual.waits[place].get().unwrap_or(0.0);
        let overhead_of_all = usual.overhead.get().unwrap_or(0.0);
        let own = self.waits[place].get().unwrap_or(of_all);
        let overhead = self.overhead.get().unwrap_or(overhead_of_all);
        let usually = of_all + (own - of_all) * fade;
        let sent: u32 = self.since.iter().take(place + 1).sum();
        let each = self.each(usual);
        let Some(word) = &self.word else {
            let least = f64::from(sent) * each;
            return Forecast { least, likely: least + usually, overhead: overhead.max(0.0), each, room: true };
        };
        // As old as all that was told of, nothing of it is left, and there is as much again as there usually is.
        let told = nanos(word.expected_wait[place]) + f64::from(sent) * each;
        let left = (told - age).max(0.0);
        let others = if told > age { age / told } else { 1.0 };
        let room = f64::from(word.room[place]) + age / each - f64::from(sent);
        Forecast {
            least: left + (overhead * fade).max(0.0),
            likely: left + others * usually,
            overhead: (overhead_of_all + (overhead - overhead_of_all) * fade).max(0.0),
            each,
            room: room >= 1.0,
        }
    }

    fn each(&self, usual: &Usual) -> f64 {
        let own = self.word.map(|word| nanos(word.each)).filter(|each| *each > 0.0);
        own.or(usual.each.get()).unwrap_or(SOME).max(1.0)
    }

    /// A request goes to it.
    pub(crate) fn send(&mut self, now: Time, ticket: Ticket, lane: Lane) {
        self.sent.push_back((now, ticket, lane));
        self.since[lane.index()] += 1;
    }

    /// A request is not with it any more.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        if let Some(place) = self.sent.iter().position(|(_, own, _)| *own == ticket)
            && let Some((_, _, lane)) = self.sent.remove(place)
        {
            self.since[lane.index()] -= 1;
        }
    }

    /// It said something. What was sent to it before is part of that, but for what was on the way.
    pub(crate) fn hear(&mut self, now: Time, word: Word, usual: &mut Usual) {
        let on_the_way = Duration::from_nanos(self.overhead.get().unwrap_or(0.0).max(0.0) as u64);
        while let Some((_, _, lane)) = self.sent.pop_front_if(|(at, _, _)| now.since(*at) >= on_the_way) {
            self.since[lane.index()] -= 1;
        }
        for lane in Lane::ALL.map(Lane::index) {
            let wait = nanos(word.expected_wait[lane]);
            self.waits[lane].learn(wait);
            usual.waits[lane].learn(wait);
        }
        if !word.each.is_zero() {
            usual.each.learn(nanos(word.each));
        }
        (self.heard, self.alive) = (now, now);
        self.word = Some(word);
    }

    /// An answer took so long, and was expected earlier or later.
    pub(crate) fn measure(&mut self, took: Duration, expected: f64, usual: &mut Usual) {
        let overhead = nanos(took) - expected;
        self.overhead.learn(overhead);
        usual.overhead.learn(overhead);
    }

    /// Whether no request counts for it.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.sent.is_empty() && self.since == [0; 3] && !matches!(self.state, State::Tried(_))
    }
}
