//! The one kernel behind every pointwise expression.
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
//! - There is no 8-bit type in WGSL: four elements travel in one 32-bit word.

mod args;
mod arithmetic;
mod bytes;
mod emit;
mod launch;

pub use launch::{CompileCount, Geometry, Launch, LaunchRefused, launch};

use dala_spec::Program;
use dala_spec::expr::Op;

/// Every buffer's size in bytes is a multiple of this, so that whole vectors can be read and written at its end.
pub const CAPACITY_STEP: usize = 512;

/// Whether `slot` is read at other places than an element's own, in a way that vectors of `width` do not cover.
pub(crate) fn is_gathered(program: &Program, slot: usize, width: usize) -> bool {
    program
        .ops()
        .iter()
        .any(|op| matches!(op, Op::Channel { slot: own, of, .. } if *own == slot && !width.is_multiple_of(*of)))
}
