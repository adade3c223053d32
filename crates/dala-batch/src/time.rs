//! Moments, as plain data.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment: the time since a clock was started, which the caller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

impl Time {
    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment that much earlier, or the start of the clock.
    pub(crate) fn before(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(span))
    }
}

/// A span in nanoseconds: up to five hundred years, and no more.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.0.as_secs_f64())
    }
}
