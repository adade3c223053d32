//! Pictures: what a surface shows, and which buffers are some.

use dala_compute::{Buffer, DType};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

use crate::SurfaceError;

/// What a surface showed: RGBA, eight bits each, row by row from the top.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Four bytes for each pixel.
    pub rgba: Vec<u8>,
}

impl Picture {
    pub(crate) fn black(width: u32, height: u32) -> Picture {
        Picture { width, height, rgba: [0, 0, 0, 255].repeat(width as usize * height as usize) }
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    ///
    /// `rgba` has been changed to another length.
    pub fn to_png(&self) -> Result<Vec<u8>, SurfaceError> {
        let mut file = Vec::new();
        let (width, height) = (self.width, self.height);
        if self.rgba.len() != width as usize * height as usize * 4 {
            let expected = width as usize * height as usize * 4;
            return Err(SurfaceError::PixelBytes { expected, actual: self.rgba.len(), width, height });
        }
        PngEncoder::new(&mut file)
            .write_image(&self.rgba, width, height, ExtendedColorType::Rgba8)
            .map_err(|error| SurfaceError::Graphics { message: error.to_string() })?;
        Ok(file)
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture {} x {}", self.width, self.height)
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
        let (height, width, channels) = match *buffer.shape().dims() {
            [height, width] => (height, width, 1),
            [height, width, channels @ (1 | 3 | 4)] => (height, width, channels),
            _ => return Err(no_picture()),
        };
        let floats = match buffer.dtype() {
            DType::U8 => false,
            DType::F32 => true,
            _ => return Err(no_picture()),
        };
        let side = |length: usize| u32::try_from(length).map_err(|_| no_picture());
        Ok(Layout { width: side(width)?, height: side(height)?, channels: channels as u32, floats })
    }

    /// The pixels of a picture as RGBA bytes. Gray is repeated, missing alpha is opaque, floats are rounded half to even
    /// and clamped, and NaN is 0: as the shader does.
    pub(crate) fn rgba(&self, data: &[u8]) -> Vec<u8> {
        let elements: Vec<u8> = if self.floats {
            let floats = data.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            floats.map(|value| (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8).collect()
        } else {
            data.to_vec()
        };
        match self.channels {
            4 => elements,
            3 => elements.chunks_exact(3).flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 255]).collect(),
            _ => elements.iter().flat_map(|&gray| [gray, gray, gray, 255]).collect(),
        }
    }
}
