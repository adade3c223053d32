//! How large a picture may be.

use crate::ImageError;

/// What tables, texts and profiles of a file may take beside its pixels.
const OTHER_BYTES: u64 = 32 * 1024 * 1024;

/// The most bytes of a pixel: four floats.
const LARGEST_PIXEL: u64 = 16;

/// How much a file may take, however large it says that it is. Checked before memory is taken for its pixels.
///
/// Decoders have tables and rows of their own: while they work, up to about three times as much is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most pixels.
    pub pixels: u64,
    /// The most bytes of all pixels together, in the depth that the file has.
    pub bytes: u64,
}

impl Default for Limits {
    /// 1 GiB of pixels: 357 million of 8 bits in colour.
    fn default() -> Limits {
        Limits { pixels: u64::MAX, bytes: 1 << 30 }
    }
}

impl Limits {
    /// So many pixels of any depth.
    pub fn pixels(pixels: u64) -> Limits {
        Limits { pixels, bytes: pixels.saturating_mul(LARGEST_PIXEL) }
    }

    /// The longest file that is read. Only text maps are longer than their pixels.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.saturating_add(OTHER_BYTES)
    }

    /// Refuses a picture that is too large.
    pub(crate) fn check(&self, width: u64, height: u64, pixel_bytes: u64) -> Result<(), ImageError> {
        let pixels = width.saturating_mul(height);
        if pixels > self.pixels {
            return Err(ImageError::TooManyPixels { width, height, max_pixels: self.pixels });
        }
        if pixels.saturating_mul(pixel_bytes) > self.bytes {
            return Err(ImageError::TooManyBytes { width, height, max_bytes: self.bytes });
        }
        Ok(())
    }

    /// The same for decoders of `image`, which count what they read and what they make of it.
    pub(crate) fn of_decoder(&self) -> image::Limits {
        let mut limits = image::Limits::no_limits();
        limits.max_alloc = Some(self.bytes.saturating_mul(2).saturating_add(OTHER_BYTES));
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_sizes_do_not_overflow() {
        let limits = Limits { pixels: 6, bytes: 17 };
        assert!(limits.check(3, 2, 2).is_ok());
        assert!(matches!(limits.check(7, 1, 1), Err(ImageError::TooManyPixels { max_pixels: 6, .. })));
        assert!(matches!(limits.check(3, 2, 3), Err(ImageError::TooManyBytes { max_bytes: 17, .. })));
        assert!(Limits::default().check(u64::MAX, u64::MAX, 4).is_err());
        assert!(Limits::pixels(6).check(3, 2, LARGEST_PIXEL).is_ok());
    }
}
