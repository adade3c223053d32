//! The batcher on simulated devices, under a clock that is set by hand.

mod histories;
mod model;
mod random;
mod simulation;
