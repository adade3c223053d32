//! A picture in memory.

use image::DynamicImage;

use crate::{Format, ImageError, Profile, Samples, rgba};

/// A picture: gray, RGB or RGBA.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// 1 (gray), 3 (RGB) or 4 (RGBA).
    pub channels: usize,
    /// As many as height, width and channels make.
    pub samples: Samples,
    /// What its colours mean, if its file says so.
    pub profile: Option<Profile>,
}

impl Picture {
    /// A picture without a profile.
    ///
    /// # Errors
    ///
    /// These are not as many samples as it has, or it has none.
    pub fn new(height: usize, width: usize, channels: usize, samples: Samples) -> Result<Picture, ImageError> {
        let picture = Picture { height, width, channels, samples, profile: None };
        picture.check()?;
        Ok(picture)
    }

    /// Refuses what is none. Fields can be changed, so writing checks again.
    pub(crate) fn check(&self) -> Result<(), ImageError> {
        check(self.height, self.width, self.channels, self.samples.len())
    }

    /// Its pixels as RGBA of 8 bits.
    pub fn into_rgba(self) -> Vec<u8> {
        rgba(self.samples.into_levels(), self.channels)
    }

    /// Gray with transparency becomes RGBA: kernels know 1, 3 and 4 channels.
    pub(crate) fn of_image(format: Format, image: DynamicImage) -> Result<Picture, ImageError> {
        let (height, width) = (image.height() as usize, image.width() as usize);
        let (channels, samples) = match image {
            DynamicImage::ImageLuma8(image) => (1, Samples::U8(image.into_raw())),
            DynamicImage::ImageRgb8(image) => (3, Samples::U8(image.into_raw())),
            DynamicImage::ImageRgba8(image) => (4, Samples::U8(image.into_raw())),
            DynamicImage::ImageLumaA8(_) => (4, Samples::U8(image.into_rgba8().into_raw())),
            DynamicImage::ImageLuma16(image) => (1, Samples::U16(image.into_raw())),
            DynamicImage::ImageRgb16(image) => (3, Samples::U16(image.into_raw())),
            DynamicImage::ImageRgba16(image) => (4, Samples::U16(image.into_raw())),
            DynamicImage::ImageLumaA16(_) => (4, Samples::U16(image.into_rgba16().into_raw())),
            DynamicImage::ImageRgb32F(image) => (3, Samples::F32(image.into_raw())),
            DynamicImage::ImageRgba32F(image) => (4, Samples::F32(image.into_raw())),
            other => {
                return Err(ImageError::Unsupported { format, reason: format!("pixels are {:?}", other.color()) });
            }
        };
        Picture::new(height, width, channels, samples)
    }
}

/// Refuses a size that is no picture's, or that so many samples do not make.
pub(crate) fn check(height: usize, width: usize, channels: usize, samples: usize) -> Result<(), ImageError> {
    let expected = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
    if [1, 3, 4].contains(&channels) && samples > 0 && expected == Some(samples) {
        return Ok(());
    }
    Err(ImageError::NotAPicture { height, width, channels, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_pictures_are_refused() {
        let samples = |count| Samples::U8(vec![0; count]);
        assert!(Picture::new(2, 3, 4, samples(24)).is_ok());
        for (height, width, channels, count) in
            [(2, 3, 4, 23), (2, 3, 2, 12), (0, 3, 1, 0), (2, 3, 0, 0), (usize::MAX, 2, 1, 2), (1, 1, 5, 5)]
        {
            let error = Picture::new(height, width, channels, samples(count)).unwrap_err();
            assert_eq!(error.code(), "no_picture");
        }
    }

    #[test]
    fn samples_of_every_type_become_levels() {
        assert_eq!(Samples::U16(vec![0, 255, 384, 65535]).into_levels(), [0, 1, 1, 255]);
        assert_eq!(Samples::F32(vec![0.5, 2.0]).into_levels(), [128, 255]);
        assert_eq!(*Samples::U8(vec![9]).levels(), [9]);
        let gray = Picture::new(1, 1, 1, Samples::F32(vec![0.5])).unwrap();
        assert_eq!(gray.into_rgba(), [128, 128, 128, 255]);
    }
}
