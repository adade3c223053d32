//! What requests hold while they are worked on: places, and memory for their bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::Refusal;

/// How long a client is told to wait when everything is taken: about as long as a request.
const SOON: Duration = Duration::from_millis(100);

/// An amount that is taken in parts and given back.
#[derive(Debug)]
pub(crate) struct Stock {
    taken: AtomicUsize,
    all: usize,
}

/// What was taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    from: Arc<Stock>,
    amount: usize,
}

impl Stock {
    pub(crate) fn new(all: usize) -> Arc<Stock> {
        Arc::new(Stock { taken: AtomicUsize::new(0), all })
    }

    /// How much is taken now.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn take(self: &Arc<Stock>, amount: usize) -> Result<Taken, Refusal> {
        let mut taken = Taken { from: self.clone(), amount: 0 };
        taken.more(amount)?;
        Ok(taken)
    }
}

impl Taken {
    /// Takes more to what is taken.
    pub(crate) fn more(&mut self, amount: usize) -> Result<(), Refusal> {
        let before = self.from.taken.fetch_add(amount, Ordering::AcqRel);
        self.amount += amount;
        if before.saturating_add(amount) > self.from.all { Err(Refusal::Full { retry_after: SOON }) } else { Ok(()) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.from.taken.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let stock = Stock::new(10);
        let mut first = stock.take(6).unwrap();
        assert!(stock.take(5).is_err());
        assert_eq!(stock.taken(), 6, "what was refused is not kept");
        first.more(4).unwrap();
        assert!(first.more(1).is_err());
        drop(first);
        assert_eq!(stock.taken(), 0);
    }
}
