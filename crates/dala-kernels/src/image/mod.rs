//! Pictures.

pub mod generate_gradient;
