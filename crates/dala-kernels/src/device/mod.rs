//! Device code: how a program becomes instructions, in the kernel behind every pointwise expression and in the kernels that
//! run programs at their edges.
//!
//! A [`Program`] is unrolled into straight-line device code while the kernel is built: `emit` is
//! ordinary Rust that runs once per new program and device. Params, lengths and buffers are run-time values, so only a
//! new program, or new element types, compiles anything.
//!
//! Traps of the engine and its drivers that this code keeps away from users:
//!
//! - Integer division by zero kills the process on x86: divisors are made safe first.
//! - Float to integer conversion out of range differs between devices: values are clamped first.
//! - The engine contracts `a * b + c` into one rounding where it can, and graphics drivers reorder sums and products:
//!   both are kept apart, so that every device and every fusion gives the same answer.
//! - `x != y` is false for NaN in SPIR-V: it is emitted as `!(x == y)`.
//! - A cast between `s32` and `u32` retypes its operand for every later use on LLVM and SPIR-V: it gets a copy.
//! - A shift down of signed integers fills with zeros on vectors of the CPU runtime: only values from zero on are shifted.
//! - There are no types of 8 and 16 bits in WGSL: several elements travel in one 32-bit word.

pub(crate) mod args;
pub(crate) mod arithmetic;
pub(crate) mod emit;
mod exponential;
mod floats;
pub(crate) mod fragment;
mod functions;
mod pixels;
mod storage;
mod trigonometric;
