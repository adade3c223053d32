//! Members, and what they say of themselves.

use std::fmt;
use std::time::Duration;

use dala_batch::{Batcher, Key, Lane, Time};

/// A node, a process or an address that answers requests. Whoever calls gives it a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u64);

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.0)
    }
}

/// What a member says of itself, with every answer and refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// When one more request would be answered, in the order of [`Lane::ALL`].
    pub expected_wait: [Duration; 3],
    /// By how much each request that goes before makes that longer; zero if it does not know.
    pub each: Duration,
    /// Requests that it has room for, in the order of [`Lane::ALL`].
    pub room: [u32; 3],
    /// Whether it takes nothing new.
    pub drains: bool,
}

impl Word {
    /// What a member with this batcher says to those who ask for a key.
    pub fn of(batcher: &Batcher, now: Time, key: Key) -> Word {
        let load = batcher.load(now);
        Word {
            expected_wait: Lane::ALL.map(|lane| batcher.expected_wait(now, key, lane)),
            each: batcher.item_time(key).unwrap_or_default(),
            room: load.room,
            drains: load.draining,
        }
    }
}
