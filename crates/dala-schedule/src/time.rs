//! Moments, as plain data.

use std::ops::Add;
use std::time::{Duration, Instant};

/// A moment: the time since a clock was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl Time {
    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The same in nanoseconds: enough for five hundred years.
    pub(crate) fn as_nanos(self) -> u64 {
        self.0.as_nanos() as u64
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span))
    }
}

/// A clock that started when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts a clock.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time(self.0.elapsed())
    }
}
