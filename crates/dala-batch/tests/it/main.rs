//! The batcher on simulated devices, under a clock that is set by hand.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly and report what they ran"
)]

mod admission;
mod by_hand;
mod cost;
mod device;
mod ends;
mod histories;
mod model;
mod order;
mod overtaking;
mod random;
mod simulation;
