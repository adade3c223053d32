//! How many requests may be repeated: a share of all.

use std::time::Duration;

use dala_batch::Time;

use crate::Limits;

/// Every request earns a part of a repeat, and a repeat costs one. What is not used fades, so that a quiet day does not pay
/// for a storm; and what is missing comes back slowly, so that a caller with few requests may repeat some.
pub(crate) struct Budget {
    left: f64,
    at: Time,
    spare: f64,
    part: f64,
    memory: Duration,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Budget {
        let spare = f64::from(limits.spare_repeats);
        let part = f64::from(limits.repeat_percent) / 100.0;
        Budget { left: spare, at: Time::default(), spare, part, memory: limits.memory }
    }

    /// A request came.
    pub(crate) fn earn(&mut self, now: Time) {
        self.fade(now);
        self.left += self.part;
    }

    /// Whether one more may be repeated.
    pub(crate) fn spend(&mut self, now: Time) -> bool {
        self.fade(now);
        let has = self.left >= 1.0;
        self.left -= if has { 1.0 } else { 0.0 };
        has
    }

    /// How many may be repeated now.
    pub(crate) fn left(&self) -> f64 {
        self.left
    }

    fn fade(&mut self, now: Time) {
        let span = now.since(self.at).as_secs_f64() / self.memory.as_secs_f64().max(1e-9);
        self.at = self.at.max(now);
        self.left = self.spare + (self.left - self.spare) * (-span).exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn spend_all(budget: &mut Budget, now: Time) -> usize {
        (0..10_000).take_while(|_| budget.spend(now)).count()
    }

    #[test]
    fn repeats_are_a_share_of_requests() {
        let mut budget = Budget::new(&Limits::default());
        assert_eq!(spend_all(&mut budget, at(0)), 10);
        (0..995).for_each(|_| budget.earn(at(0)));
        assert_eq!(spend_all(&mut budget, at(0)), 99);
        // Spare ones come back, and no more than these.
        assert_eq!(spend_all(&mut budget, at(2_000)), 6);
        assert_eq!(spend_all(&mut budget, at(60_000)), 9);
        assert_eq!(spend_all(&mut budget, at(200_000)), 10);
        // What was earned fades.
        (0..1_000).for_each(|_| budget.earn(at(200_000)));
        assert_eq!(spend_all(&mut budget, at(202_000)), 43);
        // A clock that goes back changes nothing.
        assert_eq!(spend_all(&mut budget, at(0)), 0);
    }
}
