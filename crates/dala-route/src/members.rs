//! Who may be asked, and who rests.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use dala_batch::Time;

use crate::known::{Known, State, Usual};
use crate::{Limits, Member, Ticket};

/// All members: found by name, and those that are asked by a random number.
#[derive(Default)]
pub(crate) struct Members {
    slots: Vec<Option<Known>>,
    free: Vec<usize>,
    by_name: HashMap<Member, usize>,
    open: Vec<usize>,
    /// Those that rest, the first to be tried first.
    resting: BTreeSet<(Time, usize)>,
    pub(crate) usual: Usual,
    joined: u64,
}

impl Members {
    /// A new member, which is asked from now on; none if it is there.
    pub(crate) fn join(&mut self, now: Time, member: Member) -> Option<usize> {
        if self.by_name.contains_key(&member) {
            return None;
        }
        self.joined += 1;
        let known = Some(Known::new(member, self.joined, now));
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(free) => *free = known,
            None => self.slots.push(known),
        }
        self.by_name.insert(member, slot);
        self.resting.insert((now, slot));
        self.open(now, slot);
        Some(slot)
    }

    pub(crate) fn leave(&mut self, member: Member) -> bool {
        let Some(slot) = self.by_name.remove(&member) else { return false };
        self.close(slot);
        if let Some(known) = self.slots.get_mut(slot) {
            *known = None;
        }
        self.free.push(slot);
        true
    }

    pub(crate) fn find(&self, member: Member) -> Option<usize> {
        self.by_name.get(&member).copied()
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Known> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Known> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The same, with what is usual.
    pub(crate) fn with_usual(&mut self, slot: usize) -> Option<(&mut Known, &mut Usual)> {
        Some((self.slots.get_mut(slot)?.as_mut()?, &mut self.usual))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Known> {
        self.slots.iter().flatten()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Those that are asked.
    pub(crate) fn opened(&self) -> &[usize] {
        &self.open
    }

    pub(crate) fn resting(&self) -> usize {
        self.by_name.len() - self.open.len()
    }

    /// When the next of those that rest is to be tried.
    pub(crate) fn next_try(&self) -> Option<Time> {
        self.resting.first().map(|(until, _)| *until)
    }

    /// Those that rested long enough, the longest first.
    pub(crate) fn rested(&self, now: Time) -> impl Iterator<Item = (Time, usize)> {
        self.resting.iter().copied().take_while(move |(until, _)| *until <= now)
    }

    /// It is asked from now on. If nobody was, others may be back as well, and are tried at once.
    pub(crate) fn open(&mut self, now: Time, slot: usize) {
        if self.open.is_empty() {
            let others: Vec<usize> = self.resting.iter().map(|(_, other)| *other).collect();
            for other in others {
                self.set_rest(other, now);
            }
        }
        self.close(slot);
        let place = self.open.len();
        if let Some(known) = self.get_mut(slot) {
            known.state = State::Open(place);
            known.losses = 0;
            known.opened = now;
            self.open.push(slot);
        }
    }

    /// It is not asked until it rested, each time longer; gives how long that is. The random number keeps callers that lost
    /// it together from trying it together.
    pub(crate) fn rest(&mut self, now: Time, slot: usize, limits: &Limits, random: u64) -> Duration {
        let Some(known) = self.get_mut(slot) else { return Duration::ZERO };
        let times = 1u32.checked_shl(known.losses).unwrap_or(u32::MAX);
        known.losses = (known.losses + 1).min(31);
        let rest = limits.rest.saturating_mul(times).min(limits.longest_rest);
        let rest = rest.mul_f64(0.75 + 0.5 * ((random >> 20) & 0xFFF) as f64 / 4096.0);
        self.set_rest(slot, now + rest);
        rest
    }

    fn set_rest(&mut self, slot: usize, until: Time) {
        self.close(slot);
        if let Some(known) = self.get_mut(slot) {
            known.state = State::Rests(until);
            self.resting.insert((until, slot));
        }
    }

    /// A request tries it.
    pub(crate) fn try_it(&mut self, slot: usize, ticket: Ticket) {
        self.close(slot);
        if let Some(known) = self.get_mut(slot) {
            known.state = State::Tried(ticket);
        }
    }

    /// Takes it from where its state has it.
    fn close(&mut self, slot: usize) {
        match self.get(slot).map(|known| known.state) {
            Some(State::Open(place)) => {
                self.open.swap_remove(place);
                if let Some(moved) = self.open.get(place).copied()
                    && let Some(known) = self.get_mut(moved)
                {
                    known.state = State::Open(place);
                }
            }
            Some(State::Rests(until)) => {
                self.resting.remove(&(until, slot));
            }
            Some(State::Tried(_)) | None => {}
        }
    }
}
