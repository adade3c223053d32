//! A picture of another size.

use super::{APART, Fragment, ReadsMore, TaskKind};
use crate::DeviceFacts;
use crate::words::times;

/// A picture resampled in both directions in one pass, row by row, where a few rows fit a unit's cache.
///
/// The step reads the first row and the weights of each new row (`s32`, `f32`), the first column and the weights of each new column,
/// and the picture. It writes the output, and a line of `f32` for each unit.
#[derive(Clone, Debug)]
pub struct Resample {
    /// Rows and columns before.
    pub from: (usize, usize),
    /// Rows and columns after.
    pub to: (usize, usize),
    /// Elements of a pixel: at most four.
    pub channels: usize,
    /// How many rows, and how many columns, are summed for each result: windows of them lie inside the picture.
    pub taps: (usize, usize),
    /// What each element counts as: an `f32`.
    pub load: Fragment,
    /// What is stored; the sum is value 0.
    pub store: Fragment,
}

impl Resample {
    /// Whether a device suits it: cores walk through rows; a GPU has too many units for lines of their own.
    pub fn fits(facts: &DeviceFacts) -> bool {
        facts.cpu
    }

    /// How many elements of a line of its own each unit needs: pixels are read four elements at a time.
    pub fn line(columns: usize, channels: usize) -> usize {
        (columns * channels + 4).next_multiple_of(16) + APART
    }
}

impl TaskKind for Resample {
    super::fragments!(load, store);

    fn describe(&self) -> String {
        let size = |(rows, columns): (usize, usize)| times(&[rows, columns]);
        format!("resample, {} taps, {} to {}", size(self.taps), size(self.from), size(self.to))
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(4)
    }

    fn loads(&self) -> usize {
        self.taps.0
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        Some((&mut self.store, ReadsMore::No))
    }
}
