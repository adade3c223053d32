//! Windows of pictures.

use crate::words::{several, times};

/// Windows of pictures as the rows of a matrix: one for each pixel of the result, its elements in the order of the window's rows,
/// its columns, and their channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Rows and columns of the pictures.
    pub from: [usize; 2],
    /// Rows and columns of the result.
    pub to: [usize; 2],
    /// Elements of a pixel.
    pub channels: usize,
    /// Whether each channel is a picture of its own, one after the other, instead of lying side by side in pixels.
    pub planar: bool,
    /// Rows and columns of a window.
    pub size: [usize; 2],
    /// How far apart windows are.
    pub stride: [usize; 2],
    /// How far apart the pixels of a window are.
    pub dilation: [usize; 2],
    /// Rows above and columns left of the picture that count as zeros.
    pub padding: [usize; 2],
}

impl Windows {
    /// How many elements a window has.
    pub fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.channels
    }

    /// Whether windows have no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each window is the pixel at its own place.
    pub fn are_pixels(&self) -> bool {
        !self.planar && self.size == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0] && self.from == self.to
    }

    /// Whether windows reach beyond the picture along an axis.
    fn leave(&self, axis: usize) -> bool {
        let reach = (self.to[axis].max(1) - 1) * self.stride[axis] + (self.size[axis].max(1) - 1) * self.dilation[axis];
        self.padding[axis] > 0 || reach >= self.from[axis] + self.padding[axis]
    }

    /// Whether windows reach beyond the picture.
    pub fn leave_the_picture(&self) -> bool {
        self.leave(0) || self.leave(1)
    }

    /// In a few words: `3 x 3 of 8 of 112 x 112 x 32`.
    pub(super) fn describe(&self, batch: usize) -> String {
        let [height, width] = self.from;
        let step = if self.stride == [1, 1] { String::new() } else { format!(" every {}", times(&self.stride)) };
        format!("{}{step} of {}{}", times(&self.size), several(batch), times(&[height, width, self.channels]))
    }
}
