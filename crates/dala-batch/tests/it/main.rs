//! The batcher on simulated devices, under a clock that is set by hand.

mod device;
mod histories;
mod model;
mod random;
mod simulation;
