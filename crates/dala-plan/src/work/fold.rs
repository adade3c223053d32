//! Lines of elements, folded.

use super::width::{cpu_width, dividing_width, fitting_width};
use super::{Fragment, ReadsMore, TaskKind};
use crate::DeviceFacts;
use crate::words::count;

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
    /// What people call it.
    const fn name(self) -> &'static str {
        match self {
            FoldOp::Sum => "sum",
            FoldOp::Product => "product",
            FoldOp::Max => "max",
            FoldOp::Min => "min",
            FoldOp::ArgMax => "argmax",
            FoldOp::ArgMin => "argmin",
        }
    }

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

impl Finish {
    /// What is written.
    pub fn fragment(&self) -> &Fragment {
        let (Finish::Each(finish) | Finish::Once(finish)) = self;
        finish
    }
}

impl Fold {
    /// How many pieces a line has; one that is empty still has one.
    pub fn pieces(&self) -> usize {
        self.length.div_ceil(self.piece.max(1)).max(1)
    }

    /// How many elements a unit takes at a time.
    pub fn width(&self, facts: &DeviceFacts) -> usize {
        let programs = self.programs();
        let inputs = programs.iter().flat_map(|program| program.inputs());
        let per_word = inputs.map(|input| facts.per_word(input.dtype)).max().unwrap_or(1);
        match self.vector_width(facts) {
            // Parts of a word are taken one by one.
            width if width < per_word => 1,
            width => width,
        }
    }

    fn vector_width(&self, facts: &DeviceFacts) -> usize {
        if !facts.cpu {
            if self.inner > 1 {
                return dividing_width(self.inner, 4);
            }
            // A line must start and end, and each of its pieces too, where a vector does.
            let length = dividing_width(self.length, 4);
            return if self.piece < self.length { length.min(dividing_width(self.piece, 4)) } else { length };
        }
        if self.inner > 1 {
            // Wide ones read more of a row at once; where too much of the last one would be done twice, narrower ones.
            let programs = self.programs().into_iter();
            let widest = programs.map(cpu_width).min().unwrap_or(16).min(fitting_width(self.inner, 64));
            let wasted = |width: usize| self.inner.next_multiple_of(width) - self.inner;
            let widths = std::iter::successors(Some(widest), |width| (*width > 16).then_some(width / 2));
            return widths.min_by_key(|width| wasted(*width) / (self.inner / 8).max(1)).unwrap_or(widest);
        }
        let shortest = self.length - (self.pieces() - 1) * self.piece;
        fitting_width(shortest.min(self.length), 16)
    }
}

impl TaskKind for Fold {
    fn describe(&self) -> String {
        let phases: Vec<&str> = self.phases.iter().map(|phase| phase.how.name()).collect();
        let lines = count(self.outer.saturating_mul(self.inner), "line");
        let pieces = match self.pieces() {
            1 => String::new(),
            pieces => format!(" in {pieces} pieces"),
        };
        format!("fold by {}, {lines} of {}{pieces}", phases.join(", "), count(self.length, "element"))
    }

    fn fragments(&self) -> Vec<&Fragment> {
        self.phases.iter().map(|phase| &phase.of).chain([self.finish.fragment()]).collect()
    }

    fn fragments_mut(&mut self) -> Vec<&mut Fragment> {
        let (Finish::Each(finish) | Finish::Once(finish)) = &mut self.finish;
        self.phases.iter_mut().map(|phase| &mut phase.of).chain([finish]).collect()
    }

    /// Elements that travel several to a word are written as many at a time.
    fn launches(&self, facts: &DeviceFacts) -> bool {
        let each = matches!(self.finish, Finish::Each(_));
        let output = self.finish.fragment().program.outputs().first();
        let written = if each || self.inner > 1 { self.width(facts) } else { 1 };
        output.is_none_or(|output| written >= facts.per_word(*output))
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(0)
    }

    fn loads(&self) -> usize {
        self.phases.len() + 1
    }

    fn columns(&self) -> Option<usize> {
        Some(if self.inner == 1 { self.length } else { self.inner })
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        match &mut self.finish {
            Finish::Each(finish) => Some((finish, ReadsMore::Yes)),
            Finish::Once(finish) => Some((finish, ReadsMore::No)),
        }
    }
}
