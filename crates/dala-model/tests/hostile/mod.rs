//! Files that are not as they should be: what they are made from, and how they are damaged.
//!
//! Whoever includes this has a `Random` beside it.
#![allow(dead_code, unused_imports, reason = "each program uses another part")]

mod bombs;
mod damage;
mod drive;
mod seeds;

pub(crate) use bombs::{bomb, never_ends};
pub(crate) use damage::{damage, scramble};
pub(crate) use drive::{Step, drive, types};
pub(crate) use seeds::{OWN, seeds};
