//! Weighted sums along an axis.

use super::{Fragment, ReadsMore, TaskKind};
use crate::words::times;

/// Weighted sums along the middle axis: from `{outer, from, inner}` to `{outer, to, inner}`.
///
/// The step's first read is a table of `to * taps` positions along the axis (`u32`, [`AxisSum::NOWHERE`] for nothing), the second one of as many weights
/// (`f32`). The store program gets the sum as value 0.
#[derive(Clone, Debug)]
pub struct AxisSum {
    /// How many blocks there are.
    pub outer: usize,
    /// How many places the axis has before.
    pub from: usize,
    /// How many places the axis has after.
    pub to: usize,
    /// How many elements lie side by side at one place of the axis.
    pub inner: usize,
    /// How many elements are summed for each result.
    pub taps: usize,
    /// What each element counts as: an `f32`.
    pub load: Fragment,
    /// What is stored.
    pub store: Fragment,
}

impl AxisSum {
    /// A position that counts for nothing.
    pub const NOWHERE: u32 = u32::MAX;
}

impl TaskKind for AxisSum {
    super::fragments!(load, store);

    fn describe(&self) -> String {
        let size = |axis: usize| times(&[self.outer, axis, self.inner]);
        format!("weighted sums of {}, {} to {}", self.taps, size(self.from), size(self.to))
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(2)
    }

    fn loads(&self) -> usize {
        self.taps
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        Some((&mut self.store, ReadsMore::No))
    }
}
