//! Arithmetic and functions on numbers, element by element.

pub mod abs;
pub mod cast;
pub mod clamp;
pub mod copy;
pub mod elementwise_add;
pub mod elementwise_div;
pub mod elementwise_max;
pub mod elementwise_min;
pub mod elementwise_mul;
pub mod elementwise_sub;
pub mod exp;
pub mod fill;
pub mod gelu;
pub mod log;
pub mod neg;
pub mod relu;
pub mod scalar_add;
pub mod scalar_mul;
pub mod sigmoid;
pub mod sqrt;
pub mod tanh;
