//! Those who ask: by our router, or plainly.

use dala_route::{Ask, Limits, Member, Ran, Refused, Router, Ticket, Word};

use super::node::time;

/// How a member is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Random,
    RoundRobin,
    Ours,
}

impl How {
    pub(crate) const ALL: [How; 3] = [How::Random, How::RoundRobin, How::Ours];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            How::Random => "random",
            How::RoundRobin => "round robin",
            How::Ours => "ours",
        }
    }
}

/// Where a try of a request goes.
pub(crate) struct To {
    pub(crate) node: usize,
    /// What our router knows it by.
    pub(crate) ticket: Option<Ticket>,
    /// When it is given up, if nothing is heard.
    pub(crate) until: u64,
}

/// Why it goes nowhere.
pub(crate) struct Nowhere {
    pub(crate) retry_after: u64,
    pub(crate) in_doubt: bool,
}

/// A request as whoever asks has it.
pub(crate) struct Wish {
    pub(crate) ticket: Option<Ticket>,
    pub(crate) deadline: u64,
    pub(crate) pure: bool,
    /// Where it was, for those that remember it themselves.
    pub(crate) tried: [u32; 3],
    pub(crate) tries: usize,
}

/// What a plain caller says of when to come again.
const PLAIN_RETRY: u64 = 100 * super::MILLI;

/// The node of a caller, for one model.
pub(crate) enum Chooser {
    Ours(Box<Router>),
    /// Any member that the request was not with, three times at most.
    Plain {
        members: Vec<usize>,
        next: usize,
        random: bool,
    },
}

impl Chooser {
    pub(crate) fn new(how: How, nodes: usize, number: usize) -> Chooser {
        match how {
            How::Ours => {
                let mut router = Router::new(Limits::default());
                (0..nodes).for_each(|node| router.join(time(0), Member(node as u64)));
                Chooser::Ours(Box::new(router))
            }
            How::Random | How::RoundRobin => {
                // Callers that begin at the same member would go on together.
                let next = number * 37 % nodes;
                Chooser::Plain { members: (0..nodes).collect(), next, random: how == How::Random }
            }
        }
    }

    pub(crate) fn join(&mut self, now: u64, node: usize) {
        match self {
            Chooser::Ours(router) => router.join(time(now), Member(node as u64)),
            Chooser::Plain { members, .. } if members.contains(&node) => {}
            Chooser::Plain { members, .. } => members.push(node),
        }
    }

    pub(crate) fn leave(&mut self, now: u64, node: usize) {
        match self {
            Chooser::Ours(router) => router.leave(time(now), Member(node as u64)),
            Chooser::Plain { members, .. } => members.retain(|own| *own != node),
        }
    }

    pub(crate) fn ask(&mut self, now: u64, wish: &Wish, random: u64) -> Result<To, Nowhere> {
        match self {
            Chooser::Ours(router) => {
                let ask = Ask { deadline: Some(time(wish.deadline)), pure: wish.pure, ..Ask::default() };
                routed(router.ask(time(now), ask, random))
            }
            Chooser::Plain { .. } => self.any(now, wish, random),
        }
    }

    pub(crate) fn answered(&mut self, now: u64, ticket: Option<Ticket>, word: Word) {
        if let (Chooser::Ours(router), Some(ticket)) = (self, ticket) {
            router.answered(time(now), ticket, Some(word));
        }
    }

    pub(crate) fn refused(&mut self, now: u64, wish: &Wish, word: Word, random: u64) -> Result<To, Nowhere> {
        match (&mut *self, wish.ticket) {
            (Chooser::Ours(router), Some(ticket)) => routed(router.refused(time(now), ticket, Some(word), random)),
            _ => self.any(now, wish, random),
        }
    }

    pub(crate) fn lost(&mut self, now: u64, wish: &Wish, ran: Ran, random: u64) -> Result<To, Nowhere> {
        match (&mut *self, wish.ticket) {
            (Chooser::Ours(router), Some(ticket)) => routed(router.lost(time(now), ticket, ran, random)),
            _ if ran == Ran::Perhaps && !wish.pure => Err(Nowhere { retry_after: PLAIN_RETRY, in_doubt: true }),
            _ => self.any(now, wish, random),
        }
    }

    pub(crate) fn late(&mut self, now: u64, wish: &Wish, random: u64) -> Result<To, Nowhere> {
        match (&mut *self, wish.ticket) {
            (Chooser::Ours(router), Some(ticket)) => routed(router.late(time(now), ticket, random)),
            _ => self.lost(now, wish, Ran::Perhaps, random),
        }
    }

    /// Whether it holds nothing of any request.
    pub(crate) fn holds_nothing(&self) -> bool {
        match self {
            Chooser::Ours(router) => router.holds_nothing(),
            Chooser::Plain { .. } => true,
        }
    }

    fn any(&mut self, now: u64, wish: &Wish, number: u64) -> Result<To, Nowhere> {
        let Chooser::Plain { members, next, random } = self else {
            return Err(Nowhere { retry_after: 0, in_doubt: false });
        };
        let tried = &wish.tried[..wish.tries.min(3)];
        let start = if *random { number as usize } else { *next };
        let node = (0..members.len())
            .map(|step| members[(start + step) % members.len()])
            .find(|node| !tried.contains(&(*node as u32)));
        *next = (*next + 1) % members.len().max(1);
        match node {
            Some(node) if wish.tries < 3 && now < wish.deadline => Ok(To { node, ticket: None, until: wish.deadline }),
            _ => Err(Nowhere { retry_after: PLAIN_RETRY, in_doubt: false }),
        }
    }
}

fn routed(route: Result<dala_route::Route, Refused>) -> Result<To, Nowhere> {
    match route {
        Ok(route) => {
            let until = route.until.map_or(u64::MAX, |until| until.0.as_nanos() as u64);
            Ok(To { node: route.member.0 as usize, ticket: Some(route.ticket), until })
        }
        Err(refused) => Err(Nowhere {
            retry_after: refused.retry_after.as_nanos() as u64,
            in_doubt: refused.why == dala_route::Refusal::MayHaveRun,
        }),
    }
}
