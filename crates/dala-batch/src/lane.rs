//! Priority classes.

use std::fmt;
use std::time::Duration;

/// A priority class of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Someone is waiting for it: it goes first.
    Interactive,
    /// Ordinary work.
    #[default]
    Default,
    /// Work that may take its time; it gets what the others leave, and a small share in any case.
    Background,
}

impl Lane {
    /// Every lane, the highest first.
    pub const ALL: [Lane; 3] = [Lane::Interactive, Lane::Default, Lane::Background];

    /// Its place in [`ALL`](Lane::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name, as a user writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Interactive => "interactive",
            Lane::Default => "default",
            Lane::Background => "background",
        }
    }

    /// The share of device time, in percent, that higher lanes cannot take from it.
    pub(crate) const fn guaranteed_percent(self) -> u32 {
        match self {
            Lane::Interactive => 0,
            Lane::Default => 10,
            Lane::Background => 5,
        }
    }

    /// How much of all room, in percent, is there for it: what is above is kept for higher lanes.
    pub(crate) const fn room_percent(self) -> u64 {
        match self {
            Lane::Interactive => 100,
            Lane::Default => 90,
            Lane::Background => 75,
        }
    }

    /// When a request without a deadline counts as due: among requests with deadlines it must not wait for ever.
    pub(crate) const fn patience(self) -> Duration {
        match self {
            Lane::Interactive => Duration::from_millis(100),
            Lane::Default => Duration::from_secs(1),
            Lane::Background => Duration::from_secs(10),
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
