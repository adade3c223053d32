//! Weighted sums over neighbourhoods of a picture.

use super::Fragment;
use crate::DeviceFacts;

/// How many elements lie between the memory that two units write again and again: a page. What one core reads ahead would take
/// lines of its cache away from the other.
pub const APART: usize = 1024;

/// What lies outside a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Border {
    /// The nearest pixel.
    Clamp,
    /// The picture mirrored, its edge not repeated.
    Reflect,
    /// The picture again.
    Wrap,
    /// Zeros.
    Zero,
}

impl Border {
    /// The words of a `border` param.
    pub const WORDS: &'static [&'static str] = &["clamp", "reflect", "wrap", "zero"];

    /// The border of that name; clamped if there is none.
    pub fn from_word(word: &str) -> Border {
        match word {
            "reflect" => Border::Reflect,
            "wrap" => Border::Wrap,
            "zero" => Border::Zero,
            _ => Border::Clamp,
        }
    }

    /// Where position `at` of an axis of `len` places is found; none if it counts as zero.
    pub fn place(self, at: i64, len: usize) -> Option<usize> {
        let size = len as i64;
        let inside = match self {
            _ if (0..size).contains(&at) => at,
            Border::Zero => return None,
            Border::Clamp => at.clamp(0, size - 1),
            Border::Wrap => at.rem_euclid(size),
            Border::Reflect if size == 1 => 0,
            Border::Reflect => {
                let period = 2 * (size - 1);
                let at = at.rem_euclid(period);
                at.min(period - at)
            }
        };
        Some(inside as usize)
    }
}

/// A separable filter: weights of `2 * radius + 1` rows and as many columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The weights of the rows, from top to bottom.
    pub down: Vec<f32>,
    /// The weights of the columns, from left to right.
    pub across: Vec<f32>,
}

/// Small separable filters of a picture, computed in one pass. The store program gets one value for each filter.
#[derive(Clone, Debug)]
pub struct Stencil {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Elements in a pixel.
    pub channels: usize,
    /// What lies outside.
    pub border: Border,
    /// How far the filters reach.
    pub radius: usize,
    /// The filters.
    pub filters: Vec<Filter>,
    /// What each element counts as: an `f32`, or an `s32` of few bits, which is summed exactly.
    pub load: Fragment,
    /// What is stored.
    pub store: Fragment,
    /// What is made of whole pixels before they are stored, if anything: value 0 is a pixel of [`Stencil::PIXEL`] elements, as
    /// `store` gives them.
    pub pixels: Option<Fragment>,
}

impl Stencil {
    /// Elements of the pixels that can be looked at as a whole.
    pub const PIXEL: usize = 4;
}

/// Weighted sums along the middle axis: from `{outer, from, inner}` to `{outer, to, inner}`.
///
/// The step's first read is a table of `to * taps` positions along the axis (`u32`, [`Weigh::NOWHERE`] for nothing), the second one of as many weights
/// (`f32`). The store program gets the sum as value 0.
#[derive(Clone, Debug)]
pub struct Weigh {
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

impl Weigh {
    /// A position that counts for nothing.
    pub const NOWHERE: u32 = u32::MAX;
}

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
