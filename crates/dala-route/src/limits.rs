//! How often requests are repeated, and how long members rest.

use std::time::Duration;

/// How often requests are repeated, and how long members rest that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How often one request may be sent in all.
    pub tries: usize,
    /// Of a hundred requests, how many may be repeated.
    pub repeat_percent: u32,
    /// Repeats that are allowed where there are few requests: as many are there at the start, and come back in
    /// [`memory`](Limits::memory).
    pub spare_repeats: u32,
    /// How long requests count that were not repeated.
    pub memory: Duration,
    /// How long a member that drains or was lost is passed over before one request tries it. Each time in a row that is twice
    /// as long.
    pub rest: Duration,
    /// The longest rest.
    pub longest_rest: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tries: 3,
            repeat_percent: 10,
            spare_repeats: 10,
            memory: Duration::from_secs(2),
            rest: Duration::from_millis(100),
            longest_rest: Duration::from_secs(5),
        }
    }
}
