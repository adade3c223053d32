//! Things by number and slot: found without a search, and never mistaken for what had the slot before.

/// Where a thing is, and its number, which nothing else ever has.
pub(crate) trait Id: Copy {
    fn new(number: u64, slot: u32) -> Self;
    fn number(self) -> u64;
    fn slot(self) -> u32;
}

pub(crate) struct Slab<I, T> {
    slots: Vec<Option<(I, T)>>,
    free: Vec<u32>,
    /// The number of the last that came.
    last: u64,
}

impl<I: Id, T> Slab<I, T> {
    pub(crate) fn with_room(room: usize) -> Slab<I, T> {
        Slab { slots: Vec::with_capacity(room), free: Vec::with_capacity(room), last: 0 }
    }

    pub(crate) fn insert(&mut self, value: T) -> I {
        self.last += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = I::new(self.last, slot);
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = Some((id, value)),
            None => self.slots.push(Some((id, value))),
        }
        id
    }

    pub(crate) fn get(&self, id: I) -> Option<&T> {
        let (own, value) = self.slots.get(id.slot() as usize)?.as_ref()?;
        (own.number() == id.number()).then_some(value)
    }

    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        let (own, value) = self.slots.get_mut(id.slot() as usize)?.as_mut()?;
        (own.number() == id.number()).then_some(value)
    }

    pub(crate) fn remove(&mut self, id: I) -> Option<T> {
        self.get(id)?;
        self.free.push(id.slot());
        self.slots.get_mut(id.slot() as usize)?.take().map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;

    #[test]
    fn a_slot_is_used_again_under_another_number() {
        let mut slab: Slab<Ticket, char> = Slab::with_room(0);
        let a = slab.insert('a');
        assert_eq!((slab.get(a), slab.len()), (Some(&'a'), 1));
        assert_eq!(slab.remove(a), Some('a'));
        let b = slab.insert('b');
        assert_eq!((a.slot, slab.get(a)), (b.slot, None));
        assert_eq!(slab.remove(a), None);
        assert_eq!((slab.get(b), slab.len()), (Some(&'b'), 1));
    }
}
