//! Priority classes.

use std::fmt;

/// A priority class of commands, and of requests that become commands.
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

    /// The lane of this name, if there is one.
    pub fn by_name(name: &str) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| lane.name() == name)
    }

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
    pub const fn guaranteed_percent(self) -> u32 {
        match self {
            Lane::Interactive => 0,
            Lane::Default => 10,
            Lane::Background => 5,
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
