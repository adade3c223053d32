//! How many elements are worked on at a time.

use dala_spec::Program;
use dala_spec::expr::{BinaryOp, Op, UnaryOp};

/// How many elements lie between the memory that two units write again and again: a page. What one core reads ahead would take
/// lines of its cache away from the other.
pub const APART: usize = 1024;

/// On a core: wide vectors for plain arithmetic; narrow ones where each lane costs much code.
pub fn cpu_width(program: &Program) -> usize {
    let heavy = program.ops().iter().any(|op| match op {
        Op::Unary(op, _) => op.is_approximate() && *op != UnaryOp::Sqrt,
        Op::Binary(BinaryOp::Pow | BinaryOp::Atan2 | BinaryOp::Rem, ..)
        | Op::Channel { .. }
        | Op::Gather { .. }
        | Op::Coord(_) => true,
        _ => false,
    });
    if heavy { 16 } else { 64 }
}

/// The largest power of two up to `max` that divides `len`: vectors of so many elements never straddle a line's end.
pub fn dividing_width(len: usize, max: usize) -> usize {
    if len == 0 { max } else { (1 << len.trailing_zeros().min(16)).min(max) }
}

/// The largest power of two up to `max` that is not longer than `len`: vectors of so many elements cover a line of any length,
/// if two of them may overlap.
pub fn fitting_width(len: usize, max: usize) -> usize {
    len.checked_ilog2().map_or(1, |log| 1 << log).min(max)
}
