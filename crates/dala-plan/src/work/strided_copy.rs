//! Words moved from one order to another.

use super::TaskKind;
use crate::words::count;
use crate::{DeviceFacts, Support};

/// How many axes there are beside the columns.
pub const COPY_AXES: usize = 3;

/// Moves words: element `(a, b, c, column)` of an output `{axes..., columns}` is found at `from + a * strides[0] + b *
/// strides[1] + c * strides[2] + column * column_stride`, and goes to `to + row * row_stride + column`, where `row` counts the
/// axes row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridedCopy {
    /// Bytes of a word: four, or one where a device has such.
    pub word: usize,
    /// The sizes of the axes beside the columns.
    pub axes: [usize; COPY_AXES],
    /// How far one step along each of them moves in the input.
    pub strides: [i64; COPY_AXES],
    /// How many words lie side by side in the output.
    pub columns: usize,
    /// How far one step along them moves in the input.
    pub column_stride: i64,
    /// Where the first word is found.
    pub from: usize,
    /// Where the first word goes.
    pub to: usize,
    /// How far apart rows are in the output.
    pub row_stride: usize,
    /// How many words the input has, and how many the output.
    pub sizes: (usize, usize),
}

impl StridedCopy {
    /// Whether a device moves words of so many bytes.
    pub fn fits(word: usize, facts: &DeviceFacts) -> bool {
        word == 4 || facts.narrow == Support::Native
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.axes.iter().product()
    }

    /// Whether every word is found, and goes, inside.
    pub fn is_inside(&self) -> bool {
        if self.rows() * self.columns == 0 {
            return true;
        }
        let columns = [(self.columns, self.column_stride)];
        let steps = self.axes.into_iter().zip(self.strides).chain(columns);
        // Wide enough for whatever sizes and strides are asked for.
        let (mut first, mut last) = (self.from as i128, self.from as i128);
        for (size, stride) in steps {
            let reach = (size as i128 - 1) * i128::from(stride);
            first += reach.min(0);
            last += reach.max(0);
        }
        let written = self.to as i128 + (self.rows() as i128 - 1) * self.row_stride as i128 + self.columns as i128;
        first >= 0 && last < self.sizes.0 as i128 && written <= self.sizes.1 as i128
    }
}

impl TaskKind for StridedCopy {
    fn describe(&self) -> String {
        let word = if self.word == 1 { "byte" } else { "word" };
        format!("move, {} of {}", count(self.rows(), "row"), count(self.columns, word))
    }

    fn indexed(&self, longest: usize) -> usize {
        self.sizes.0.max(self.sizes.1).max(longest)
    }
}
