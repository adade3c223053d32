//! Random histories, each decision beside rules that are written as plainly as can be.
//!
//! What members are expected to take is believed; who may be asked, how often, and who is passed over is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dala_route::{
    Ask, Event, Lane, Limits, Member, Pick, Ran, Refusal, Refused, Route, Router, Standing, Ticket, Time, Word,
};

use crate::simulation::random::Random;

/// A request that is with a member.
struct Held {
    ask: Ask,
    /// Everybody it was sent to, who has it now last; and which of those with that name it is.
    sent: Vec<Member>,
    life: u32,
    at: Time,
}

/// A member as it should stand.
struct Stands {
    life: u32,
    /// Since when it is asked, if it is.
    open: Option<Time>,
    probe: Option<Ticket>,
    /// When it last said something.
    heard: Time,
}

struct History {
    random: Random,
    now: Time,
    limits: Limits,
    router: Router,
    held: BTreeMap<Ticket, Held>,
    members: BTreeMap<Member, Stands>,
    lives: u32,
    asked: u32,
    repeated: u32,
    refusals: BTreeSet<&'static str>,
    picks: BTreeSet<&'static str>,
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let limits = Limits {
            tries: 1 + random.below(4) as usize,
            repeat_percent: [0, 10, 50][random.below(3) as usize],
            spare_repeats: [0, 3, 100][random.below(3) as usize],
            memory: Duration::from_secs(2),
            rest: Duration::from_millis(random.below(50)),
            longest_rest: Duration::from_millis(200),
        };
        let mut router = Router::new(limits);
        router.trace(1000);
        History {
            random,
            now: Time::default(),
            limits,
            router,
            held: BTreeMap::new(),
            members: BTreeMap::new(),
            lives: 0,
            asked: 0,
            repeated: 0,
            refusals: BTreeSet::new(),
            picks: BTreeSet::new(),
        }
    }

    fn member(&mut self) -> Member {
        Member(self.random.below(8))
    }

    fn ticket(&mut self) -> Option<Ticket> {
        let count = self.held.len() as u64;
        let place = if count == 0 { 0 } else { self.random.below(count) };
        self.held.keys().nth(place as usize).copied()
    }

    fn word(&mut self) -> Word {
        let wait = Duration::from_millis(self.random.below(200));
        let room = if self.random.chance(10) { 0 } else { 100 };
        let each = Duration::from_millis(self.random.below(10));
        Word { expected_wait: [wait / 2, wait, wait * 2], each, room: [room; 3], drains: self.random.chance(10) }
    }

    /// Who may be sent a request that was with these: asked at the moment, or rested.
    fn may_have(&self, sent: &[Member]) -> Vec<Member> {
        let may = |member: &Member| !sent.contains(member) && !self.rests(*member);
        self.members.keys().copied().filter(may).collect()
    }

    fn rests(&self, member: Member) -> bool {
        match self.router.standing(member) {
            Some(Standing::Open) => false,
            Some(Standing::Rests { until }) => until > self.now,
            Some(Standing::Tried { .. }) | None => true,
        }
    }

    /// Takes the answer to a question where a request goes.
    fn take(&mut self, ticket: Option<Ticket>, ask: Ask, mut sent: Vec<Member>, answer: Result<Route, Refused>) {
        let event = self.router.take_events().pop().map(|(_, event)| event);
        match (answer, event) {
            (Ok(route), Some(Event::Sent { member, tries, pick, expected_wait, .. })) => {
                assert!(ticket.is_none_or(|ticket| ticket == route.ticket));
                assert_eq!((member, expected_wait), (route.member, route.expected_wait));
                assert!(!sent.contains(&member), "{member} had it before");
                assert!(ask.only.is_none_or(|only| only == member));
                assert!(ask.deadline.is_none_or(|deadline| deadline > self.now && route.until <= Some(deadline)));
                let stands = self.members.get_mut(&member).unwrap();
                sent.push(member);
                assert!(sent.len() == tries && tries <= self.limits.tries);
                match pick {
                    Pick::Turn { beside } | Pick::Shorter { beside } => {
                        assert!(stands.open.is_some() && ask.only.is_none());
                        assert!(beside.is_none_or(|(other, _)| other != member));
                        let is_turn = matches!(pick, Pick::Turn { .. });
                        assert!(is_turn || beside.is_some());
                        self.picks.insert(if is_turn { "turn" } else { "shorter" });
                    }
                    Pick::Room { .. } => {
                        assert!(stands.open.is_some());
                        self.picks.insert("room");
                    }
                    Pick::Try { .. } => {
                        assert!(stands.open.is_none() && stands.probe.is_none(), "one request tries {member}");
                        assert_eq!(self.router.standing(member), Some(Standing::Tried { ticket: route.ticket }));
                    }
                    Pick::Only => assert_eq!(ask.only, Some(member)),
                }
                if stands.open.is_none() {
                    assert!(stands.probe.replace(route.ticket).is_none());
                    self.picks.insert("tried");
                }
                let life = stands.life;
                self.held.insert(route.ticket, Held { ask, sent, life, at: self.now });
            }
            (Err(refused), Some(Event::Refused { refused: told, .. })) => {
                assert_eq!(refused, told);
                self.refusals.insert(refused.why.code());
                let others = self.may_have(&sent);
                match refused.why {
                    Refusal::NoMembers => assert!(self.members.is_empty()),
                    Refusal::Away { .. } if ask.only.is_none() => {
                        // One that may not be lost does not try others at once.
                        let open = others.iter().filter(|member| self.members[member].open.is_some()).count();
                        assert!(open == 0 && (others.is_empty() || !ask.pure));
                    }
                    Refusal::Away { .. } => assert!(ask.only.is_some_and(|only| self.rests(only))),
                    Refusal::Tried { tries } => {
                        assert!(tries == sent.len() && (others.is_empty() || ask.only.is_some()));
                    }
                    Refusal::TooLate => assert!(ask.deadline.is_some_and(|deadline| deadline <= self.now)),
                    Refusal::NotThere { member } => {
                        assert!(ask.only == Some(member) && !self.members.contains_key(&member));
                    }
                    Refusal::TooOften { tries } => assert!(tries == self.limits.tries && tries == sent.len()),
                    Refusal::MayHaveRun => assert!(!ask.pure && !sent.is_empty()),
                    Refusal::TooManyRepeats => assert_eq!(self.router.repeats_left(), 0),
                    Refusal::Busy { looked, .. } => assert!(looked > 0 && ask.only.is_none()),
                    Refusal::UnknownTicket => panic!("it was held"),
                }
            }
            (answer, event) => panic!("{answer:?} was told as {event:?}"),
        }
    }

    fn ask(&mut self) {
        let lane = Lane::ALL[self.random.below(3) as usize];
        let slack = Duration::from_millis(self.random.below(300));
        let deadline = self.random.chance(80).then_some(self.now + slack);
        let only = if self.random.chance(10) { Some(self.member()) } else { None };
        let ask = Ask { lane, deadline, pure: self.random.chance(60), only };
        self.asked += 1;
        self.router.take_events();
        let answer = self.router.ask(self.now, ask, self.random.next());
        self.take(None, ask, Vec::new(), answer);
    }

    /// A member said something, or what it did without a word means that it drains.
    fn hear(&mut self, member: Member, word: Option<Word>, drains: bool) {
        let now = self.now;
        let Some(stands) = self.members.get_mut(&member) else { return };
        stands.heard = now;
        let drains = word.map_or(drains, |word| word.drains);
        if !drains {
            stands.probe = None;
            stands.open = stands.open.or(Some(now));
        } else if stands.open.is_some() || stands.probe.is_some() {
            (stands.open, stands.probe) = (None, None);
        }
    }

    /// Whether what is told of a request is of the member that has the name now.
    fn is_of(&self, held: &Held) -> Option<Member> {
        let member = *held.sent.last()?;
        self.members.get(&member).is_some_and(|stands| stands.life == held.life).then_some(member)
    }

    fn end_one(&mut self, kind: u64) {
        let Some(ticket) = self.ticket() else { return };
        let Some(held) = self.held.remove(&ticket) else { return };
        let word = if self.random.chance(80) { Some(self.word()) } else { None };
        let member = self.is_of(&held);
        self.router.take_events();
        match kind {
            0 => {
                self.router.answered(self.now, ticket, word);
                member.into_iter().for_each(|member| self.hear(member, word, false));
            }
            1 => {
                let answer = self.router.refused(self.now, ticket, word, self.random.next());
                member.into_iter().for_each(|member| self.hear(member, word, true));
                self.again(ticket, held, Ran::No, answer);
            }
            2 => {
                let ran = if self.random.chance(50) { Ran::No } else { Ran::Perhaps };
                let answer = self.router.lost(self.now, ticket, ran, self.random.next());
                self.fall(member, ticket, held.at);
                self.again(ticket, held, ran, answer);
            }
            3 => {
                let heard = member.and_then(|member| self.members.get(&member)).is_some_and(|own| own.heard > held.at);
                let answer = self.router.late(self.now, ticket, self.random.next());
                self.fall(member.filter(|_| !heard || self.is_tried_by(member, ticket)), ticket, held.at);
                self.again(ticket, held, Ran::Perhaps, answer);
            }
            _ => {
                self.router.gone(self.now, ticket);
                if let Some(stands) = member.and_then(|member| self.members.get_mut(&member))
                    && stands.probe == Some(ticket)
                {
                    stands.probe = None;
                }
            }
        }
        // Nothing is told twice.
        if !self.held.contains_key(&ticket) {
            self.router.answered(self.now, ticket, word);
            let answer = self.router.lost(self.now, ticket, Ran::No, 0);
            assert_eq!(answer.map_err(|refused| refused.why), Err(Refusal::UnknownTicket));
        }
    }

    fn is_tried_by(&self, member: Option<Member>, ticket: Ticket) -> bool {
        member.and_then(|member| self.members.get(&member)).is_some_and(|stands| stands.probe == Some(ticket))
    }

    /// A member was lost, as a request says that was sent to it at that time.
    fn fall(&mut self, member: Option<Member>, ticket: Ticket, sent: Time) {
        if let Some(stands) = member.and_then(|member| self.members.get_mut(&member))
            && (stands.open.is_some_and(|open| sent >= open) || stands.probe == Some(ticket))
        {
            (stands.open, stands.probe) = (None, None);
        }
    }

    fn again(&mut self, ticket: Ticket, held: Held, ran: Ran, answer: Result<Route, Refused>) {
        if answer.is_ok() {
            self.repeated += 1;
            assert!(ran == Ran::No || held.ask.pure, "it may have been run");
        }
        self.take(Some(ticket), held.ask, held.sent, answer);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.ask(),
            40..58 => self.end_one(0),
            58..66 => self.end_one(1),
            66..74 => self.end_one(2),
            74..77 => self.end_one(3),
            77..79 => self.end_one(4),
            79..85 => {
                let member = self.member();
                self.router.join(self.now, member);
                self.lives += 1;
                let stands = Stands { life: self.lives, open: Some(self.now), probe: None, heard: self.now };
                self.members.entry(member).or_insert(stands);
                if self.members[&member].open.is_none() {
                    let heard = self.members[&member].heard;
                    self.hear(member, None, false);
                    self.members.entry(member).and_modify(|stands| stands.heard = heard);
                }
            }
            85..88 => {
                let member = self.member();
                self.router.leave(self.now, member);
                self.members.remove(&member);
            }
            88..92 => {
                let (member, word) = (self.member(), self.word());
                self.router.heard(self.now, member, word);
                self.hear(member, Some(word), false);
            }
            92..99 => self.now = self.now + Duration::from_micros(self.random.below(30_000)),
            _ => self.now = self.now + Duration::from_secs(self.random.below(100)),
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.router.in_flight(), self.held.len());
        let there: BTreeSet<Member> = self.router.members().collect();
        assert!(there.iter().eq(self.members.keys()));
        for (member, stands) in &self.members {
            match self.router.standing(*member) {
                Some(Standing::Open) => assert!(stands.open.is_some(), "{member} is to rest"),
                Some(Standing::Rests { .. }) => assert!(stands.open.is_none() && stands.probe.is_none()),
                Some(Standing::Tried { ticket }) => {
                    assert!(stands.open.is_none() && stands.probe == Some(ticket) && self.held.contains_key(&ticket));
                }
                None => panic!("{member} is there"),
            }
        }
        let spare = f64::from(self.limits.spare_repeats);
        let seconds = self.now.0.as_secs_f64() / self.limits.memory.as_secs_f64();
        let most = spare * (1.0 + seconds) + f64::from(self.asked * self.limits.repeat_percent) / 100.0;
        assert!(f64::from(self.repeated) <= most + 1e-6, "{} repeated, {most} allowed", self.repeated);
    }

    fn end(&mut self) {
        while !self.held.is_empty() {
            let kind = self.random.below(5);
            self.end_one(kind);
            self.check();
        }
        assert!(self.router.holds_nothing());
    }
}

#[test]
fn random_histories_keep_the_rules() {
    let count = std::env::var("DALA_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(6_000);
    let (mut refusals, mut picks) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..count {
        let told = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            for _ in 0..50 + history.random.below(200) {
                history.step();
            }
            history.end();
            (history.refusals, history.picks)
        });
        let Ok(told) = told else { panic!("history {seed}") };
        refusals.extend(told.0);
        picks.extend(told.1);
    }
    println!("{count} histories: {refusals:?}, {picks:?}");
    assert_eq!((refusals.len(), picks.len()), (9, 4), "everything was seen: {refusals:?}, {picks:?}");
}
