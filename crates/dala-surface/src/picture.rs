//! Pictures: what a surface shows, and which buffers are some.

use dala_compute::{Buffer, DType};

use crate::SurfaceError;

/// What a surface showed: RGBA, eight bits each, row by row from the top.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Four bytes for each pixel.
    pub rgba: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn black(width: u32, height: u32) -> Snapshot {
        Snapshot { width, height, rgba: [0, 0, 0, 255].repeat(width as usize * height as usize) }
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    ///
    /// `rgba` has been changed to another length.
    pub fn to_png(&self) -> Result<Vec<u8>, SurfaceError> {
        let (width, height) = (self.width, self.height);
        if self.rgba.len() != width as usize * height as usize * 4 {
            let expected = width as usize * height as usize * 4;
            return Err(SurfaceError::PixelBytes { expected, actual: self.rgba.len(), width, height });
        }
        dala_image::png(&self.rgba, height as usize, width as usize, 4)
            .map_err(|error| SurfaceError::Graphics { message: error.to_string() })
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot {} x {}", self.width, self.height)
    }
}

/// How a buffer holds a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// 1, 3 or 4.
    pub(crate) channels: u32,
    /// Whether elements are floats from 0 to 1; otherwise bytes.
    pub(crate) floats: bool,
}

impl Layout {
    /// How `buffer` holds a picture, if it does.
    pub(crate) fn of(buffer: &Buffer) -> Result<Layout, SurfaceError> {
        let no_picture = || SurfaceError::NotAPicture { dtype: buffer.dtype(), shape: buffer.shape().clone() };
        let size = buffer.shape().picture().ok_or_else(no_picture)?;
        let floats = match buffer.dtype() {
            DType::U8 => false,
            DType::F32 => true,
            _ => return Err(no_picture()),
        };
        let side = |length: usize| u32::try_from(length).map_err(|_| no_picture());
        Ok(Layout { width: side(size.width)?, height: side(size.height)?, channels: size.channels as u32, floats })
    }

    /// The pixels of a picture as RGBA bytes, as the shader makes them.
    pub(crate) fn rgba(&self, data: Vec<u8>) -> Vec<u8> {
        let levels = if self.floats { dala_image::levels_of_bytes(&data) } else { data };
        dala_image::rgba(levels, self.channels as usize)
    }
}
