//! How often each bin occurs.

use super::{Fragment, TaskKind};
use crate::words;

/// Counts elements by bins, in `parts` parts: `{parts, bins}` counts of type `u32`.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// How many elements there are.
    pub len: usize,
    /// How many bins there are.
    pub bins: usize,
    /// How many parts the elements are cut into.
    pub parts: usize,
    /// The bin of each element, an `s32`; outside of the bins it does not count.
    pub bin: Fragment,
}

impl TaskKind for Histogram {
    super::fragments!(bin);

    fn describe(&self) -> String {
        format!("count, {} in {}", words::count(self.len, "element"), words::count(self.bins, "bin"))
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(0)
    }
}
