//! What happens when, and to whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dala_route::{Ran, Ticket, Word};

use super::callers::{Chooser, Nowhere, To, Wish};
use super::figures::Figures;
use super::node::{Job, Node, Reply};
use super::random::Random;
use super::{Happening, MILLI, SECOND, Scenario};

/// How long callers that are refused go on coming.
const PATIENCE: u64 = 10 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Somebody asks.
    Ask,
    /// A caller that was refused asks again.
    AskAgain {
        request: u32,
        turn: u32,
    },
    /// A request reaches a node.
    Reach {
        request: u32,
        turn: u32,
        node: u32,
    },
    /// A node asks what to run.
    Wake {
        node: u32,
        life: u32,
    },
    /// A run ends.
    Ends {
        node: u32,
        life: u32,
    },
    /// A reply reaches who asked, with the word at this place.
    Answered {
        request: u32,
        turn: u32,
        word: u32,
    },
    Refused {
        request: u32,
        turn: u32,
        word: u32,
    },
    Lost {
        request: u32,
        turn: u32,
        ran: bool,
    },
    /// Nothing was heard.
    Late {
        request: u32,
        turn: u32,
    },
    Happens {
        place: u32,
    },
    /// All callers are told that a node is not there any more, or is.
    Leaves {
        node: u32,
    },
    Joins {
        node: u32,
    },
}

/// A request, from the first that is asked until it is answered or refused.
#[derive(Clone, Copy)]
struct Asked {
    first: u64,
    deadline: u64,
    ticket: Option<Ticket>,
    /// Which of all tries in this place it is: what is said of others is not for it.
    turn: u32,
    /// The first of its own.
    born: u32,
    caller: u32,
    node: u32,
    tried: [u32; 3],
    tries: u8,
    runs: u8,
    key: u8,
    pure: bool,
    counts: bool,
    /// Whether somebody waits for it.
    waits: bool,
    /// Whether it is with a node, or on the way.
    sent: bool,
}

pub(super) struct World<'s> {
    scenario: &'s Scenario,
    random: Random,
    /// For who asks and when, which is the same however members are chosen.
    arrivals: Random,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    order: u64,
    nodes: Vec<Node>,
    /// By caller and model.
    callers: Vec<[Chooser; 2]>,
    requests: Vec<Asked>,
    free: Vec<u32>,
    /// Words on the way.
    words: Vec<Word>,
    free_words: Vec<u32>,
    cut: bool,
    /// Whether nothing is heard of nodes that are gone.
    silent: bool,
    rate: f64,
    figures: Figures,
}

impl<'s> World<'s> {
    pub(super) fn new(scenario: &'s Scenario) -> World<'s> {
        let node = |number| Node::new(&scenario.table, if number == 0 { scenario.slow } else { 1.0 });
        let chooser = |caller| [0, 1].map(|_| Chooser::new(scenario.how, scenario.nodes, caller));
        World {
            scenario,
            random: Random(1),
            arrivals: Random(2),
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            nodes: (0..scenario.nodes).map(node).collect(),
            callers: (0..scenario.callers).map(chooser).collect(),
            requests: Vec::new(),
            free: Vec::new(),
            words: Vec::new(),
            free_words: Vec::new(),
            cut: false,
            silent: false,
            rate: scenario.table.saturation() * scenario.nodes as f64 * scenario.load,
            figures: Figures { nodes: vec![0; scenario.nodes], ..Figures::default() },
        }
    }

    fn at(&mut self, time: u64, what: What) {
        self.order += 1;
        self.queue.push(Reverse((time, self.order, what)));
    }

    /// When a message arrives that is sent now.
    fn arrival(&mut self) -> u64 {
        self.now + (self.scenario.latency as f64 * (0.9 + 0.2 * self.random.unit())) as u64
    }

    pub(super) fn run(mut self) -> Figures {
        // Callers in a closed loop do not begin all at once.
        for caller in 0..self.scenario.closed.unwrap_or(1) as u64 {
            self.at(caller * MILLI / 10, What::Ask);
        }
        for (place, (time, _)) in self.scenario.happenings.iter().enumerate() {
            self.at(*time, What::Happens { place: place as u32 });
        }
        while let Some(Reverse((time, _, what))) = self.queue.pop() {
            self.now = time;
            self.figures.events += 1;
            self.step(what);
        }
        self.figures.lost = self.requests.iter().filter(|asked| asked.waits && asked.counts).count() as u64;
        assert!(self.callers.iter().flatten().all(Chooser::holds_nothing), "a router holds something of no request");
        assert!(self.nodes.iter().all(Node::is_empty), "a node holds something of no request");
        self.figures.seconds = (self.scenario.until - self.scenario.warm) as f64 / SECOND as f64;
        self.figures.sort();
        self.figures
    }

    fn step(&mut self, what: What) {
        match what {
            What::Ask => self.ask(),
            What::AskAgain { request, turn } => {
                if self.is(request, turn) {
                    let useful = self.scenario.table.useful.as_nanos() as u64;
                    let asked = &mut self.requests[request as usize];
                    (asked.deadline, asked.tries) = (self.now + useful, 0);
                    self.route(request);
                }
            }
            What::Reach { request, turn, node } => self.reach(request, turn, node as usize),
            What::Wake { node, life } => {
                let own = &self.nodes[node as usize];
                if own.life == life && own.wake.is_some_and(|wake| wake <= self.now) {
                    self.drive(node as usize);
                }
            }
            What::Ends { node, life } => {
                if self.nodes[node as usize].life == life {
                    self.nodes[node as usize].finished(self.now);
                    self.drive(node as usize);
                }
            }
            What::Answered { request, turn, word } => self.answered(request, turn, word),
            What::Refused { request, turn, word } => {
                let word = self.take_word(word);
                if self.is(request, turn) {
                    let (wish, random) = (self.wish(request), self.random.next());
                    let to = self.chooser(request).refused_by(wish, word, random);
                    self.go(request, to);
                }
            }
            What::Lost { request, turn, ran } => {
                if self.is(request, turn) {
                    self.lose(request, if ran { Ran::Perhaps } else { Ran::No });
                }
            }
            What::Late { request, turn } => {
                if self.is(request, turn) {
                    let (wish, random) = (self.wish(request), self.random.next());
                    let to = self.chooser(request).late(wish, random);
                    self.go(request, to);
                }
            }
            What::Happens { place } => self.happen(self.scenario.happenings[place as usize].1),
            What::Leaves { node } => {
                self.callers.iter_mut().flatten().for_each(|chooser| chooser.leave(self.now, node as usize));
            }
            What::Joins { node } => {
                if !self.nodes[node as usize].up {
                    self.nodes[node as usize].restart(&self.scenario.table);
                }
                if self.scenario.notice.is_some() {
                    self.callers.iter_mut().flatten().for_each(|chooser| chooser.join(self.now, node as usize));
                }
            }
        }
    }

    /// Whether a request is the one that is meant.
    fn is(&self, request: u32, turn: u32) -> bool {
        let asked = &self.requests[request as usize];
        asked.turn == turn && asked.waits
    }

    fn ask(&mut self) {
        if self.scenario.closed.is_none() {
            let gap = self.arrivals.gap(self.rate);
            self.ask_after(gap);
        }
        let useful = self.scenario.table.useful.as_nanos() as u64;
        let counts = self.now >= self.scenario.warm;
        let request = self.free.pop().unwrap_or(self.requests.len() as u32);
        let born = self.requests.get(request as usize).map_or(0, |last| last.turn + 1);
        let asked = Asked {
            first: self.now,
            deadline: self.now + useful,
            ticket: None,
            turn: born,
            born,
            caller: self.arrivals.below(self.scenario.callers as u64) as u32,
            node: 0,
            tried: [0; 3],
            tries: 0,
            runs: 0,
            key: u8::from(!self.arrivals.chance(self.scenario.hot_percent)),
            pure: self.arrivals.chance(self.scenario.pure_percent),
            counts,
            waits: true,
            sent: false,
        };
        match self.requests.get_mut(request as usize) {
            Some(free) => *free = asked,
            None => self.requests.push(asked),
        }
        self.figures.asked += u64::from(counts);
        self.route(request);
    }

    /// Somebody asks then, if it is not too late for all.
    fn ask_after(&mut self, gap: u64) {
        if self.now + gap < self.scenario.until {
            self.at(self.now + gap, What::Ask);
        }
    }

    fn wish(&self, request: u32) -> Wish {
        let Asked { ticket, deadline, pure, tried, tries, .. } = self.requests[request as usize];
        Wish { ticket, deadline, pure, tried, tries: tries.into() }
    }

    fn chooser(&mut self, request: u32) -> At<'_> {
        let asked = &self.requests[request as usize];
        At(&mut self.callers[asked.caller as usize][usize::from(asked.key)], self.now)
    }

    fn route(&mut self, request: u32) {
        let (wish, random) = (self.wish(request), self.random.next());
        let to = self.chooser(request).ask(wish, random);
        self.go(request, to);
    }

    fn lose(&mut self, request: u32, ran: Ran) {
        let (wish, random) = (self.wish(request), self.random.next());
        let to = self.chooser(request).lost(wish, ran, random);
        self.go(request, to);
    }

    /// Sends a request where it goes, or ends it.
    fn go(&mut self, request: u32, to: Result<To, Nowhere>) {
        let now = self.now;
        let arrival = self.arrival();
        let asked = &mut self.requests[request as usize];
        asked.turn += 1;
        match to {
            Ok(To { node, ticket, until }) => {
                self.figures.repeated += u64::from(asked.tries > 0 && asked.counts);
                if let Some(tried) = asked.tried.get_mut(usize::from(asked.tries)) {
                    *tried = node as u32;
                }
                asked.tries += 1;
                (asked.ticket, asked.node, asked.sent) = (ticket, node as u32, true);
                let turn = asked.turn;
                self.at(arrival, What::Reach { request, turn, node: node as u32 });
                self.at(until.max(now), What::Late { request, turn });
            }
            Err(Nowhere { retry_after, in_doubt }) => {
                asked.sent = false;
                if self.scenario.returns && now + retry_after < asked.first + PATIENCE {
                    let turn = asked.turn;
                    self.figures.returned += u64::from(asked.counts);
                    self.at(now + retry_after.max(MILLI), What::AskAgain { request, turn });
                    return;
                }
                asked.waits = false;
                self.figures.refused += u64::from(asked.counts);
                self.figures.in_doubt += u64::from(asked.counts && in_doubt);
                self.figures.part(now).refused += 1;
                self.end(request, retry_after.max(MILLI));
            }
        }
    }

    /// A request is over; in a closed loop its caller has another one, after so long.
    fn end(&mut self, request: u32, gap: u64) {
        let asked = &mut self.requests[request as usize];
        let twice = asked.runs > 1 && asked.counts;
        self.figures.rerun += u64::from(twice && asked.pure);
        self.figures.doubled += u64::from(twice && !asked.pure);
        asked.turn += 1;
        self.free.push(request);
        if self.scenario.closed.is_some() {
            self.ask_after(gap);
        }
    }

    fn put_word(&mut self, word: Word) -> u32 {
        let place = self.free_words.pop().unwrap_or(self.words.len() as u32);
        match self.words.get_mut(place as usize) {
            Some(free) => *free = word,
            None => self.words.push(word),
        }
        place
    }

    fn take_word(&mut self, place: u32) -> Word {
        self.free_words.push(place);
        self.words[place as usize]
    }

    fn reach(&mut self, request: u32, turn: u32, number: usize) {
        let Asked { key, deadline, .. } = self.requests[request as usize];
        let wanted = self.is(request, turn);
        let arrival = self.arrival();
        let person = u64::from(request) % self.scenario.people;
        let node = &mut self.nodes[number];
        if !node.up || self.cut {
            if wanted && !self.silent {
                self.at(arrival, What::Lost { request, turn, ran: false });
            }
        } else if wanted && node.offer(self.now, Job { request, turn }, person, key, deadline) {
            self.drive(number);
        } else if wanted {
            let word = node.word(self.now, key);
            let word = self.put_word(word);
            self.at(arrival, What::Refused { request, turn, word });
        }
    }

    /// Tells what ended on a node, and starts what is next.
    fn drive(&mut self, number: usize) {
        let ends = self.nodes[number].next(self.now, &self.scenario.table, &mut self.random);
        let mut ended = Vec::new();
        self.nodes[number].take_ended(|job, key, reply| ended.push((job, key, reply)));
        // All that end together say the same.
        let words = if ended.is_empty() {
            [Word::default(); 2]
        } else {
            [0, 1].map(|key| self.nodes[number].word(self.now, key))
        };
        for (Job { request, turn }, key, reply) in ended {
            let asked = &mut self.requests[request as usize];
            let is_answer = reply == Reply::Answer;
            if asked.waits && turn >= asked.born {
                asked.runs += u8::from(is_answer);
                self.figures.nodes[number] += u32::from(is_answer && asked.counts);
            }
            if !self.cut {
                let (arrival, word) = (self.arrival(), self.put_word(words[usize::from(key)]));
                let told = match reply {
                    Reply::Answer => What::Answered { request, turn, word },
                    Reply::Refusal => What::Refused { request, turn, word },
                };
                self.at(arrival, told);
            }
        }
        let life = self.nodes[number].life;
        if let Some(ends) = ends {
            self.at(ends, What::Ends { node: number as u32, life });
        } else if let Some(wake) = self.nodes[number].wake {
            self.at(wake, What::Wake { node: number as u32, life });
        }
        let node = &mut self.nodes[number];
        if node.drains && node.up && node.is_empty() {
            (node.up, node.life) = (false, node.life + 1);
            self.at(self.now + SECOND, What::Joins { node: number as u32 });
        }
    }

    fn answered(&mut self, request: u32, turn: u32, word: u32) {
        let word = self.take_word(word);
        if !self.is(request, turn) {
            return;
        }
        let ticket = self.requests[request as usize].ticket;
        self.chooser(request).answered(ticket, word);
        let asked = &mut self.requests[request as usize];
        asked.waits = false;
        let in_time = self.now <= asked.deadline;
        let took = ((self.now - asked.first) / 1_000) as u32;
        if asked.counts {
            self.figures.answered += 1;
            self.figures.in_time += u64::from(in_time);
            self.figures.took.push(took);
        }
        let part = self.figures.part(self.now);
        part.in_time += u32::from(in_time);
        part.took.push(took);
        self.end(request, 0);
    }

    /// What was sent to somebody is lost to who asked, and may have been run.
    fn break_off(&mut self, request: u32, turn: u32) {
        if self.is(request, turn) && self.requests[request as usize].sent {
            let arrival = self.arrival();
            self.at(arrival, What::Lost { request, turn, ran: true });
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Kill { percent, silent } => {
                self.silent = silent;
                for number in 0..self.nodes.len() * percent / 100 {
                    let node = &mut self.nodes[number];
                    (node.up, node.life) = (false, node.life + 1);
                    for Job { request, turn } in node.take_jobs() {
                        if !silent {
                            self.break_off(request, turn);
                        }
                    }
                    if let Some(notice) = self.scenario.notice {
                        self.at(self.now + notice, What::Leaves { node: number as u32 });
                    }
                }
            }
            Happening::Restart { from, to } => {
                for number in from..to.min(self.nodes.len()) {
                    self.nodes[number].drain(self.now);
                    if let Some(notice) = self.scenario.notice {
                        self.at(self.now + notice, What::Leaves { node: number as u32 });
                    }
                    self.drive(number);
                }
            }
            Happening::Cut => {
                self.cut = true;
                for request in 0..self.requests.len() as u32 {
                    let turn = self.requests[request as usize].turn;
                    self.break_off(request, turn);
                }
            }
            Happening::Mend => self.cut = false,
        }
    }
}

/// A chooser, now.
struct At<'a>(&'a mut Chooser, u64);

impl At<'_> {
    fn ask(self, wish: Wish, random: u64) -> Result<To, Nowhere> {
        self.0.ask(self.1, &wish, random)
    }

    fn refused_by(self, wish: Wish, word: Word, random: u64) -> Result<To, Nowhere> {
        self.0.refused(self.1, &wish, word, random)
    }

    fn lost(self, wish: Wish, ran: Ran, random: u64) -> Result<To, Nowhere> {
        self.0.lost(self.1, &wish, ran, random)
    }

    fn late(self, wish: Wish, random: u64) -> Result<To, Nowhere> {
        self.0.late(self.1, &wish, random)
    }

    fn answered(self, ticket: Option<Ticket>, word: Word) {
        self.0.answered(self.1, ticket, word);
    }
}
