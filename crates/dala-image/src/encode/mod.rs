//! From a picture to the bytes of a file.

mod jpeg;
mod pnm;

use std::borrow::Cow;
use std::io::Cursor;

use image::codecs::bmp::BmpEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::tiff::TiffEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder};

use crate::picture::check;
use crate::{Dropped, Format, ImageError, Picture, Profile, Samples, npy, raw};

/// Of 100: what a photo loses cannot be seen.
const JPEG_QUALITY: u8 = 90;

/// The longest side of a WebP picture.
const LARGEST_WEBP: usize = 16384;

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Why the picture's colour profile is not in it, if it had one.
    pub dropped: Option<Dropped>,
}

impl Picture {
    /// The picture as a file. Takes long.
    ///
    /// [`Format::Npy`] and [`Format::Raw`] hold its samples as they are, PNG, TIFF and PNM levels of 8 or 16 bits, the others
    /// levels of 8 bits. JPEG has no transparency: it is left out.
    ///
    /// # Errors
    ///
    /// The samples are not as many as the size says, or files of that format cannot be so large.
    pub fn encode(&self, format: Format) -> Result<Encoded, ImageError> {
        self.check()?;
        let dropped = self.profile.as_ref().and_then(|profile| profile.lost_in(format, self.channels));
        let profile = self.profile.as_ref().filter(|_| dropped.is_none());
        let Picture { height, width, channels, .. } = *self;
        let bytes = match format {
            Format::Npy => npy::encode(self),
            Format::Raw => raw::encode(&self.samples),
            Format::Pnm => pnm::encode(self),
            Format::Jpeg => jpeg::encode(&self.samples.levels(), width, height, channels, JPEG_QUALITY, profile)?,
            Format::WebP if width.max(height) > LARGEST_WEBP => {
                return Err(ImageError::TooLargeToWrite { format, height, width, most: LARGEST_WEBP });
            }
            Format::Png | Format::Tiff | Format::WebP | Format::Bmp => {
                let pixels = Pixels::of(&self.samples, height, width, channels, format)?;
                let mut file = Cursor::new(Vec::new());
                let written = match format {
                    Format::Tiff => pixels.write(TiffEncoder::new(&mut file), profile),
                    Format::WebP => pixels.write(WebPEncoder::new_lossless(&mut file), profile),
                    Format::Bmp => pixels.write(BmpEncoder::new(&mut file), profile),
                    _ => pixels.write(PngEncoder::new(&mut file), profile),
                };
                written.map_err(|error| ImageError::NotEncoded { format, reason: error.to_string() })?;
                file.into_inner()
            }
        };
        Ok(Encoded { bytes, dropped })
    }
}

/// Levels of 8 bits as a PNG file, without a picture around them. Takes long.
///
/// # Errors
///
/// These are not as many levels as the size says, or more than a file can hold.
pub fn png(levels: &[u8], height: usize, width: usize, channels: usize) -> Result<Vec<u8>, ImageError> {
    check(height, width, channels, levels.len())?;
    let format = Format::Png;
    let pixels = Pixels::of_levels(Cow::Borrowed(levels), height, width, channels, format)?;
    let mut bytes = Vec::new();
    let written = pixels.write(PngEncoder::new(&mut bytes), None);
    written.map_err(|error| ImageError::NotEncoded { format, reason: error.to_string() })?;
    Ok(bytes)
}

/// What encoders of `image` take.
struct Pixels<'a> {
    bytes: Cow<'a, [u8]>,
    width: u32,
    height: u32,
    colour: ExtendedColorType,
}

impl<'a> Pixels<'a> {
    /// The samples in the depth that the format has.
    fn of(
        samples: &'a Samples,
        height: usize,
        width: usize,
        channels: usize,
        format: Format,
    ) -> Result<Pixels<'a>, ImageError> {
        match samples {
            Samples::U16(deep) if matches!(format, Format::Png | Format::Tiff) => {
                let bytes = Cow::Borrowed(bytemuck::cast_slice(deep));
                let colours = [ExtendedColorType::L16, ExtendedColorType::Rgb16, ExtendedColorType::Rgba16];
                Pixels::new(bytes, height, width, channels, colours, format)
            }
            _ => Pixels::of_levels(samples.levels(), height, width, channels, format),
        }
    }

    fn of_levels(
        levels: Cow<'a, [u8]>,
        height: usize,
        width: usize,
        channels: usize,
        format: Format,
    ) -> Result<Pixels<'a>, ImageError> {
        let colours = [ExtendedColorType::L8, ExtendedColorType::Rgb8, ExtendedColorType::Rgba8];
        Pixels::new(levels, height, width, channels, colours, format)
    }

    /// `colours` are those of 1, 3 and 4 channels.
    fn new(
        bytes: Cow<'a, [u8]>,
        height: usize,
        width: usize,
        channels: usize,
        [gray, rgb, rgba]: [ExtendedColorType; 3],
        format: Format,
    ) -> Result<Pixels<'a>, ImageError> {
        let most = i32::MAX;
        let side = |side: usize| u32::try_from(side).ok().filter(|side| *side <= most as u32);
        let (Some(wide), Some(high)) = (side(width), side(height)) else {
            return Err(ImageError::TooLargeToWrite { format, height, width, most: most as usize });
        };
        let colour = match channels {
            1 => gray,
            3 => rgb,
            _ => rgba,
        };
        Ok(Pixels { bytes, width: wide, height: high, colour })
    }

    fn write(&self, mut encoder: impl ImageEncoder, profile: Option<&Profile>) -> image::ImageResult<()> {
        if let Some(profile) = profile {
            encoder.set_icc_profile(profile.bytes().to_vec()).map_err(image::ImageError::Unsupported)?;
        }
        encoder.write_image(&self.bytes, self.width, self.height, self.colour)
    }
}

#[cfg(test)]
mod tests;
