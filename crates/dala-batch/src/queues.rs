//! What waits: a line for each key and lane, and what must be known of all of them without looking through them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::service::Service;
use crate::slab::Slab;
use crate::window::Arrivals;
use crate::{Key, Lane, Sizes, Ticket, Time};

/// Where a request stands in a lane: by its caller's turn, then by when it is due, then by when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) turn: u64,
    /// In nanoseconds: it is compared at every step down a tree.
    pub(crate) due: u64,
    pub(crate) ticket: Ticket,
}

/// Requests of one key and lane.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) order: BTreeSet<Place>,
    pub(crate) items: u64,
    /// The first, as it stands in the lane's list.
    listed: Option<Place>,
    /// Nanoseconds to run it, as they are in the lane's sum.
    counted: u64,
}

/// All that waits for one key.
pub(crate) struct Waiting {
    pub(crate) service: Service,
    pub(crate) arrivals: Arrivals,
    pub(crate) lines: [Line; 3],
    /// Deadlines of its requests that wait.
    pub(crate) deadlines: BTreeSet<(Time, Ticket)>,
    /// When the first of them cannot be met any more, as it stands in the list of all.
    listed: Option<Time>,
}

pub(crate) struct Queues {
    keys: Slab<Key, Waiting>,
    /// The first of each key, in each lane.
    heads: [BTreeSet<(Place, Key)>; 3],
    /// When a deadline of each key cannot be met any more.
    alarms: BTreeSet<(Time, Key)>,
    /// Items that wait in each lane.
    items: [u64; 3],
    /// Nanoseconds to run what waits in each lane.
    backlog: [u64; 3],
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            keys: Slab::with_room(0),
            heads: Default::default(),
            alarms: BTreeSet::new(),
            items: [0; 3],
            backlog: [0; 3],
        }
    }

    pub(crate) fn add_key(&mut self, sizes: Sizes) -> Key {
        self.keys.insert(Waiting {
            service: Service::new(sizes),
            arrivals: Arrivals::default(),
            lines: Default::default(),
            deadlines: BTreeSet::new(),
            listed: None,
        })
    }

    /// Forgets a key for which nothing waits.
    pub(crate) fn remove_key(&mut self, key: Key) {
        self.keys.remove(key);
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Waiting> {
        self.keys.get(key)
    }

    /// The first of a lane, and its key.
    pub(crate) fn head(&self, lane: Lane) -> Option<(Place, Key)> {
        self.heads[lane.index()].first().copied()
    }

    /// The first moment when a deadline cannot be met any more, and whose it is.
    pub(crate) fn alarm(&self) -> Option<(Time, Ticket)> {
        let (at, key) = self.alarms.first()?;
        let (_, ticket) = self.keys.get(*key)?.deadlines.first()?;
        Some((*at, *ticket))
    }

    pub(crate) fn items(&self, lane: Lane) -> u64 {
        self.items[lane.index()]
    }

    /// Nanoseconds to run what waits in a lane.
    pub(crate) fn backlog(&self, lane: Lane) -> u64 {
        self.backlog[lane.index()]
    }

    /// Items came, where the last batch ended at `free`.
    pub(crate) fn came(&mut self, key: Key, now: Time, items: u32, free: Option<Time>) {
        if let Some(waiting) = self.keys.get_mut(key) {
            waiting.arrivals.count(now, items, free, &waiting.service);
        }
    }

    pub(crate) fn end_batch(&mut self, key: Key, items: u32) {
        if let Some(waiting) = self.keys.get_mut(key) {
            waiting.arrivals.end_batch(items);
        }
    }

    /// A request comes into its line. Then its key has to be [listed](Queues::list).
    pub(crate) fn enter(&mut self, key: Key, lane: Lane, place: Place, items: u32) {
        let Some(waiting) = self.keys.get_mut(key) else { return };
        let line = &mut waiting.lines[lane.index()];
        line.order.insert(place);
        line.items += u64::from(items);
        self.items[lane.index()] += u64::from(items);
    }

    /// A request leaves its line. Then its key has to be [listed](Queues::list).
    pub(crate) fn leave(&mut self, key: Key, lane: Lane, place: Place, items: u32) {
        let Some(waiting) = self.keys.get_mut(key) else { return };
        let line = &mut waiting.lines[lane.index()];
        if line.order.remove(&place) {
            line.items -= u64::from(items);
            self.items[lane.index()] -= u64::from(items);
        }
    }

    /// A request that waits has a deadline. Then its key has to be [listed](Queues::list).
    pub(crate) fn add_deadline(&mut self, key: Key, deadline: Time, ticket: Ticket) {
        self.keys.get_mut(key).map(|waiting| waiting.deadlines.insert((deadline, ticket)));
    }

    /// A request with a deadline waits no more. Then its key has to be [listed](Queues::list).
    pub(crate) fn remove_deadline(&mut self, key: Key, deadline: Time, ticket: Ticket) {
        self.keys.get_mut(key).map(|waiting| waiting.deadlines.remove(&(deadline, ticket)));
    }

    /// What runs take became known, or better known.
    pub(crate) fn teach(&mut self, key: Key, teach: impl FnOnce(&mut Service)) {
        let Some(waiting) = self.keys.get_mut(key) else { return };
        teach(&mut waiting.service);
        self.list(key, &Lane::ALL);
    }

    /// Brings what is known of all keys up to date with some lanes of one, and its deadlines.
    pub(crate) fn list(&mut self, key: Key, lanes: &[Lane]) {
        for lane in lanes {
            self.list_line(key, *lane);
        }
        self.list_alarm(key);
    }

    fn list_line(&mut self, key: Key, lane: Lane) {
        let Some(waiting) = self.keys.get_mut(key) else { return };
        let line = &mut waiting.lines[lane.index()];
        let counted = if waiting.service.is_known() { waiting.service.time_for(line.items) } else { 0 };
        let backlog = &mut self.backlog[lane.index()];
        *backlog = backlog.saturating_sub(line.counted).saturating_add(counted);
        line.counted = counted;
        let first = line.order.first().copied();
        if line.listed != first {
            let heads = &mut self.heads[lane.index()];
            line.listed.map(|listed| heads.remove(&(listed, key)));
            heads.extend(first.map(|first| (first, key)));
            line.listed = first;
        }
    }

    fn list_alarm(&mut self, key: Key) {
        let Some(waiting) = self.keys.get_mut(key) else { return };
        // A request that has exactly as long as its run takes can still be met.
        let least = Duration::from_nanos(waiting.service.least(1) - 1);
        let first = waiting.deadlines.first().map(|(deadline, _)| deadline.before(least));
        if waiting.listed != first {
            waiting.listed.map(|listed| self.alarms.remove(&(listed, key)));
            self.alarms.extend(first.map(|first| (first, key)));
            waiting.listed = first;
        }
    }

    /// Whether nothing waits, and nothing is left of what did.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.iter().all(BTreeSet::is_empty)
            && self.alarms.is_empty()
            && self.items == [0; 3]
            && self.backlog == [0; 3]
    }
}

impl Waiting {
    /// Nanoseconds to run a line, as far as known.
    pub(crate) fn backlog(&self, lane: Lane) -> u64 {
        self.lines[lane.index()].counted
    }

    pub(crate) fn items(&self, lane: Lane) -> u64 {
        self.lines[lane.index()].items
    }
}
