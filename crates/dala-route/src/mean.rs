//! Means of what was measured.

/// How much a new value counts, once there are many.
const GAIN: f64 = 1.0 / 32.0;

/// An exponential mean: the plain one of the first values, and then one of about the last 32.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    value: f64,
    count: u32,
}

impl Mean {
    pub(crate) fn learn(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        self.value += (value - self.value) * GAIN.max(1.0 / f64::from(self.count));
    }

    pub(crate) fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows() {
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        [2.0, 4.0, 9.0].into_iter().for_each(|value| mean.learn(value));
        assert_eq!(mean.get(), Some(5.0));
        (0..160).for_each(|_| mean.learn(1.0));
        assert!(mean.get().is_some_and(|mean| (1.0..1.1).contains(&mean)));
    }
}
