//! Lines of elements, folded.

use super::Fragment;

/// How a line of values becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldOp {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Where the largest is, the first if there are several: an `s32`.
    ArgMax,
    /// Where the smallest is, the first if there are several: an `s32`.
    ArgMin,
}

impl FoldOp {
    /// Whether the result is a position.
    pub const fn is_position(self) -> bool {
        matches!(self, FoldOp::ArgMax | FoldOp::ArgMin)
    }
}

/// One pass over a line.
#[derive(Clone, Debug)]
pub struct Phase {
    /// How the values become one.
    pub how: FoldOp,
    /// The value of each element. It may use the results of earlier phases, as values numbered from 0.
    pub of: Fragment,
}

/// What is made of the results of all phases.
#[derive(Clone, Debug)]
pub enum Finish {
    /// One output element for each element of the line.
    Each(Fragment),
    /// One output element for the line.
    Once(Fragment),
}

/// Folds the middle axis of `{outer, length, inner}`, in one or several phases.
#[derive(Clone, Debug)]
pub struct Fold {
    /// How many blocks there are.
    pub outer: usize,
    /// How many elements a line has.
    pub length: usize,
    /// How many lines lie side by side.
    pub inner: usize,
    /// Lines are cut into pieces of at most this length, each of which is folded by itself.
    pub piece: usize,
    /// The passes over each line.
    pub phases: Vec<Phase>,
    /// What is written.
    pub finish: Finish,
}

impl Fold {
    /// How many pieces a line has; one that is empty still has one.
    pub fn pieces(&self) -> usize {
        self.length.div_ceil(self.piece.max(1)).max(1)
    }
}
