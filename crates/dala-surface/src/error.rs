//! The error of every call.

use dala_compute::{DType, Shape};

/// Why a call failed. Each case has a stable [`code`](SurfaceError::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// The device or the buffer is at fault.
    #[error(transparent)]
    Compute(#[from] dala_compute::Error),
    /// No surface has such sides.
    #[error("a surface of {width} x {height} pixels: its sides are 1 to {max}")]
    InvalidSize {
        /// The width asked for.
        width: u32,
        /// The height asked for.
        height: u32,
        /// The largest side on this device.
        max: u32,
    },
    /// The pixels are not as many as the surface has.
    #[error("{actual} bytes of pixels: a surface of {width} x {height} takes {expected} (four for each pixel, RGBA)")]
    PixelBytes {
        /// Bytes that the surface takes.
        expected: usize,
        /// Bytes that there were.
        actual: usize,
        /// The surface's width.
        width: u32,
        /// The surface's height.
        height: u32,
    },
    /// The buffer is no picture.
    #[error(
        "a buffer of {dtype} {shape} is no picture: pictures are u8 or f32, {{height, width}} or {{height, width, channels}} with 1, 3 or 4 channels"
    )]
    NotAPicture {
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
    },
    /// The buffer is a picture of another size.
    #[error(
        "a picture of {found_width} x {found_height} pixels on a surface of {width} x {height}: resize one of them first"
    )]
    PictureSize {
        /// The picture's width.
        found_width: u32,
        /// The picture's height.
        found_height: u32,
        /// The surface's width.
        width: u32,
        /// The surface's height.
        height: u32,
    },
    /// There is nowhere to open a window.
    #[error("no window can be opened: {reason}; an off-screen surface needs none")]
    NoWindow {
        /// Why not.
        reason: String,
    },
    /// The window was closed.
    #[error("the surface was closed")]
    Closed,
    /// The graphics device refused something.
    #[error("the graphics device failed: {message}")]
    Graphics {
        /// What it said.
        message: String,
    },
}

impl SurfaceError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            SurfaceError::Compute(error) => error.code(),
            SurfaceError::InvalidSize { .. } => "invalid_size",
            SurfaceError::PixelBytes { .. } | SurfaceError::PictureSize { .. } => "size_mismatch",
            SurfaceError::NotAPicture { .. } => "not_a_picture",
            SurfaceError::NoWindow { .. } => "no_window",
            SurfaceError::Closed => "surface_closed",
            SurfaceError::Graphics { .. } => "graphics_failed",
        }
    }
}
