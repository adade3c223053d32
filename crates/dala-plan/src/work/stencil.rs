//! Small separable filters of a picture.

use super::width::dividing_width;
use super::{APART, Border, Fragment, ReadsMore, TaskKind};
use crate::DeviceFacts;
use crate::words::times;

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

    /// The largest radius on a CPU: weights are arguments of the kernel, and there are not endlessly many.
    const MAX_RADIUS: usize = 63;

    /// On a CPU lines, and the first element of a row in its line, begin at multiples of this: vectors that straddle two lines of
    /// the cache take longer.
    pub const LINE_STEP: usize = 16;

    /// Whether filters of this radius run in one pass over a picture.
    pub fn fits(height: usize, width_pixels: usize, channels: usize, radius: usize, facts: &DeviceFacts) -> bool {
        match facts.cpu {
            true => radius <= Stencil::MAX_RADIUS,
            false => row_width(height, width_pixels * channels, channels, radius, false).is_some(),
        }
    }

    /// How many floats of memory of its own each unit needs; none if it works in registers.
    pub fn scratch(
        width_pixels: usize,
        channels: usize,
        radius: usize,
        filters: usize,
        facts: &DeviceFacts,
    ) -> Option<usize> {
        facts.cpu.then(|| Stencil::lines(width_pixels, channels, radius, filters))
    }

    /// How many elements each unit's lines have on a CPU.
    pub fn lines(width_pixels: usize, channels: usize, radius: usize, filters: usize) -> usize {
        let line = Stencil::before(radius, channels) + (width_pixels + radius) * channels;
        filters * line.next_multiple_of(Stencil::LINE_STEP) + APART
    }

    /// How many elements of a line lie before those of the row.
    pub const fn before(radius: usize, channels: usize) -> usize {
        (radius * channels).next_multiple_of(Stencil::LINE_STEP)
    }

    /// How many elements a GPU computes at a time; none if the picture's rows do not allow it.
    pub fn vector_width(&self) -> Option<usize> {
        let row = self.width * self.channels;
        row_width(self.height, row, self.channels, self.radius, self.pixels.is_some())
    }
}

fn row_width(height: usize, row: usize, channels: usize, radius: usize, pixels: bool) -> Option<usize> {
    // Pixels of four, and of these a vector's worth.
    let (least, most) = if pixels { (16, 16) } else { (4, 16) };
    // A neighbour is never further away than the next vector, and a mirrored one never further than the edge's own.
    let needed = ((radius + 1) * channels).next_power_of_two().max(least);
    (needed <= most && radius < height && row > 0 && dividing_width(row, needed) == needed).then_some(needed)
}

impl TaskKind for Stencil {
    fn describe(&self) -> String {
        format!("stencil, radius {}, {}", self.radius, times(&[self.height, self.width, self.channels]))
    }

    fn fragments(&self) -> Vec<&Fragment> {
        [&self.load, &self.store].into_iter().chain(&self.pixels).collect()
    }

    fn fragments_mut(&mut self) -> Vec<&mut Fragment> {
        [&mut self.load, &mut self.store].into_iter().chain(&mut self.pixels).collect()
    }

    /// Rows must suit its vectors.
    fn launches(&self, facts: &DeviceFacts) -> bool {
        let fits = Stencil::fits(self.height, self.width, self.channels, self.radius, facts);
        let pixels =
            facts.cpu || self.pixels.is_none() || self.channels == Stencil::PIXEL && self.vector_width().is_some();
        fits && pixels
    }

    fn first_fragment_read(&self) -> Option<usize> {
        Some(0)
    }

    fn loads(&self) -> usize {
        2 * self.radius + 2
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        Some((&mut self.store, ReadsMore::Yes))
    }

    fn pixel_fragment(&mut self) -> Option<(usize, &mut Option<Fragment>)> {
        Some((self.channels, &mut self.pixels))
    }
}
