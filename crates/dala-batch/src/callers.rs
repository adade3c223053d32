//! Fairness between callers: what each of them has, and whose turn is when.

use std::collections::HashMap;

use crate::slab::{Id, Slab};
use crate::{Caller, Lane, Ticket};

/// Items that a caller may have in a turn: those of one turn go by their deadlines.
const TURN: u64 = 8;

/// Parts of an item that turns are counted in.
const PARTS: u64 = 1 << 10;

/// Where a caller is, as long as it has requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerId {
    number: u64,
    slot: u32,
}

impl Id for CallerId {
    fn new(number: u64, slot: u32) -> CallerId {
        CallerId { number, slot }
    }
    fn number(self) -> u64 {
        self.number
    }
    fn slot(self) -> u32 {
        self.slot
    }
}

/// What a caller has.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Items and bytes of its requests that have not ended, and how many these are.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    requests: u32,
    /// The last of them, which knows the one before it.
    pub(crate) last: Option<Ticket>,
    /// Items that wait in each lane.
    waiting: [u64; 3],
    /// In each lane, where its next request comes in, in parts of items.
    next: [u64; 3],
}

/// One lane, as far as callers are concerned.
#[derive(Debug)]
struct Turns {
    /// What a caller was given by now that always had something waiting, in parts of items.
    given: u64,
    /// Callers that have something waiting.
    callers: u64,
    /// The same callers and their items, by the number of bits of how many items each has.
    lengths: [(u64, u64); 33],
}

/// All callers that have requests.
///
/// A caller gets items in turns: what it has waiting beyond the first turn comes after the first turns of all others, and so
/// on. Nobody is looked for: a request is given its turn when it comes.
pub(crate) struct Callers {
    ids: HashMap<Caller, CallerId>,
    own: Slab<CallerId, Own>,
    lanes: [Turns; 3],
}

impl Callers {
    pub(crate) fn new() -> Callers {
        let turns = || Turns { given: 0, callers: 0, lengths: [(0, 0); 33] };
        Callers { ids: HashMap::new(), own: Slab::with_room(0), lanes: [turns(), turns(), turns()] }
    }

    pub(crate) fn find(&self, caller: Caller) -> Option<CallerId> {
        self.ids.get(&caller).copied()
    }

    pub(crate) fn get(&self, id: CallerId) -> Option<&Own> {
        self.own.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: CallerId) -> Option<&mut Own> {
        self.own.get_mut(id)
    }

    /// Where a caller is that sends a request, which has to [enter](Callers::enter).
    pub(crate) fn find_or_add(&mut self, caller: Caller) -> CallerId {
        *self.ids.entry(caller).or_insert_with(|| self.own.insert(Own::default()))
    }

    /// A request was taken. Says its turn: those with lower numbers go before it.
    pub(crate) fn enter(&mut self, caller: CallerId, lane: Lane, items: u32, bytes: u64) -> u64 {
        let Some(own) = self.own.get_mut(caller) else { return 0 };
        let turns = &mut self.lanes[lane.index()];
        own.items += u64::from(items);
        own.bytes += bytes;
        own.requests += 1;
        turns.resize(&mut own.waiting[lane.index()], |waiting| waiting + u64::from(items));
        let next = &mut own.next[lane.index()];
        let start = turns.given.max(*next);
        *next = start.saturating_add(u64::from(items) * PARTS);
        // Whoever is less than a turn ahead of the others is not behind anybody.
        turns.given / (TURN * PARTS) + (start - turns.given) / (TURN * PARTS)
    }

    /// A request that waited runs.
    pub(crate) fn start(&mut self, caller: CallerId, lane: Lane, items: u32) {
        let turns = &mut self.lanes[lane.index()];
        turns.given = turns.given.saturating_add(u64::from(items) * PARTS / turns.callers.max(1));
        if let Some(own) = self.own.get_mut(caller) {
            turns.resize(&mut own.waiting[lane.index()], |waiting| waiting.saturating_sub(items.into()));
        }
    }

    /// A request that waited ends without a run: it took nothing of its caller's turns.
    pub(crate) fn leave(&mut self, caller: CallerId, lane: Lane, items: u32) {
        if let Some(own) = self.own.get_mut(caller) {
            let next = &mut own.next[lane.index()];
            *next = next.saturating_sub(u64::from(items) * PARTS);
            let turns = &mut self.lanes[lane.index()];
            turns.resize(&mut own.waiting[lane.index()], |waiting| waiting.saturating_sub(items.into()));
        }
    }

    /// It is the turn of that number: nobody that comes now is given an earlier one.
    pub(crate) fn reach(&mut self, lane: Lane, turn: u64) {
        let given = &mut self.lanes[lane.index()].given;
        *given = (*given).max(turn.saturating_mul(TURN * PARTS));
    }

    /// A request ended: its room is free. A caller without requests is forgotten.
    pub(crate) fn end(&mut self, caller: Caller, id: CallerId, items: u32, bytes: u64) {
        let Some(own) = self.own.get_mut(id) else { return };
        own.items = own.items.saturating_sub(items.into());
        own.bytes = own.bytes.saturating_sub(bytes);
        own.requests -= 1;
        if own.requests == 0 {
            self.own.remove(id);
            self.ids.remove(&caller);
        }
    }

    /// Items of a lane that go before the next ones of a caller: of others no more than its own and a turn.
    pub(crate) fn ahead(&self, caller: Option<Caller>, lane: Lane) -> u64 {
        let own = caller.and_then(|caller| self.get(self.find(caller)?)).map_or(0, |own| own.waiting[lane.index()]);
        let each = (own / TURN + 1) * TURN;
        self.lanes[lane.index()].lengths.iter().map(|(callers, items)| (*items).min(callers * each)).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.own.len() == 0
    }
}

impl Turns {
    /// The items of a caller that wait become more or fewer.
    fn resize(&mut self, waiting: &mut u64, change: impl FnOnce(u64) -> u64) {
        let before = *waiting;
        *waiting = change(before);
        for (items, sign) in [(before, -1), (*waiting, 1)] {
            let bits = (u64::BITS - items.leading_zeros()) as usize;
            if let Some((callers, all)) = self.lengths.get_mut(bits)
                && items > 0
            {
                *callers = callers.wrapping_add_signed(sign);
                *all = if sign > 0 { *all + items } else { *all - items };
                self.callers = self.callers.wrapping_add_signed(sign);
            }
        }
    }
}
