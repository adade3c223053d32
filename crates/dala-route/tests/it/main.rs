//! The router under a clock that is set by hand, and in simulated fleets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly and report what they ran"
)]

mod by_hand;
mod fleet;
mod histories;
mod simulation;
