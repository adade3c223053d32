//! A picture in memory.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;

use image::DynamicImage;

use crate::{
    Format, ImageError, Limits, Profile, RawLayout, SampleKind, decode, level_of_16, levels, read_bytes, rgba,
};

/// The samples of a picture, row by row from the top, the channels of a pixel side by side.
#[derive(Clone, PartialEq)]
pub enum Samples {
    /// Levels from 0 to 255.
    U8(Vec<u8>),
    /// Levels from 0 to 65535.
    U16(Vec<u16>),
    /// From 0 to 1 where they are to be seen.
    F32(Vec<f32>),
}

impl Samples {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Samples::U8(samples) => samples.len(),
            Samples::U16(samples) => samples.len(),
            Samples::F32(samples) => samples.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    pub fn kind(&self) -> SampleKind {
        match self {
            Samples::U8(_) => SampleKind::U8,
            Samples::U16(_) => SampleKind::U16,
            Samples::F32(_) => SampleKind::F32,
        }
    }

    /// As the nearest levels of 8 bits.
    pub fn levels(&self) -> Cow<'_, [u8]> {
        match self {
            Samples::U8(samples) => Cow::Borrowed(samples),
            Samples::U16(samples) => Cow::Owned(samples.iter().copied().map(level_of_16).collect()),
            Samples::F32(samples) => Cow::Owned(levels(samples)),
        }
    }

    /// The same where the samples are not needed any more.
    pub fn into_levels(self) -> Vec<u8> {
        match self {
            Samples::U8(samples) => samples,
            other => other.levels().into_owned(),
        }
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of {}", self.len(), self.kind())
    }
}

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

    /// Reads a file whose content says what it is, within the usual [`Limits`].
    ///
    /// # Errors
    ///
    /// The file cannot be read, or [`decode`] refuses it.
    pub fn open(path: impl AsRef<Path>) -> Result<Picture, ImageError> {
        let limits = Limits::default();
        decode(&read_bytes(File::open(path)?, &limits)?, &limits)
    }

    /// Writes a file in the format that its name says. A profile that has no place there is left out.
    ///
    /// # Errors
    ///
    /// The name says no format, the format cannot hold the picture, or the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ImageError> {
        let path = path.as_ref();
        let unknown = || ImageError::UnknownExtension { name: path.display().to_string() };
        let encoded = self.encode(Format::of_path(path).ok_or_else(unknown)?)?;
        Ok(fs::write(path, encoded.bytes)?)
    }

    /// How its samples lie in a raw file.
    pub fn layout(&self) -> RawLayout {
        let Picture { height, width, channels, .. } = *self;
        RawLayout { height, width, channels, kind: self.samples.kind() }
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
    fn what_is_no_picture_is_refused() {
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
