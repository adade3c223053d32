//! Windows of pictures made to one pixel each.

use dala_spec::DType;

use super::width::dividing_width;
use super::{Fragment, ReadsMore, TaskKind, Windows};
use crate::DeviceFacts;

/// What is made of the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolOp {
    /// Their sum, each weighed: the step's second read is a weight for each element of a window.
    Weighted,
    /// Their sum, and how many they are: value 1.
    Sum,
    /// The largest; what is not a number counts only where there is nothing else, and nothing at all as zero.
    Max,
}

/// Windows of pictures made to one pixel each, every channel by itself. The store program gets the result as value 0; channels are
/// the places along the last axis.
#[derive(Clone, Debug)]
pub struct Pool {
    /// How many pictures there are.
    pub batch: usize,
    /// The windows.
    pub windows: Windows,
    /// What is made of them.
    pub op: PoolOp,
    /// The element type it computes in.
    pub dtype: DType,
    /// What is stored.
    pub store: Fragment,
}

impl Pool {
    /// How many of the step's reads are its own; the others are its store program's.
    pub fn operands(&self) -> usize {
        if self.op == PoolOp::Weighted { 2 } else { 1 }
    }
}

impl Pool {
    /// How many channels a unit takes at a time.
    pub fn width(&self, facts: &DeviceFacts) -> usize {
        dividing_width(self.windows.channels, if facts.cpu { 64 / self.dtype.size() } else { 4 })
    }
}

impl TaskKind for Pool {
    super::fragments!(store);

    fn describe(&self) -> String {
        let what = match self.op {
            PoolOp::Weighted => "convolution of each channel",
            PoolOp::Sum => "sums",
            PoolOp::Max => "largest",
        };
        format!("{what}, {}, {}", self.windows.describe(self.batch), self.dtype)
    }

    fn dtype(&self) -> Option<DType> {
        Some(self.dtype)
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(self.operands())
    }

    fn columns(&self) -> Option<usize> {
        Some(self.windows.channels)
    }

    /// Elements that travel several to a word are loaded and stored as many at a time.
    fn launches(&self, facts: &DeviceFacts) -> bool {
        let (program, width) = (&self.store.program, self.width(facts));
        let loaded = program.inputs().iter().filter(|input| !input.broadcast && width > 1).map(|input| input.dtype);
        loaded.chain(program.outputs().iter().copied()).all(|dtype| width >= facts.per_word(dtype))
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        Some((&mut self.store, ReadsMore::Yes))
    }
}
