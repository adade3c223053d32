//! From the bytes of a file to a picture.

mod jpeg;
mod whole;

use std::io::{Cursor, ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::bmp::BmpDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::pnm::PnmDecoder;
use image::codecs::tiff::TiffDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder};

use crate::{Format, ImageError, Limits, Picture, Profile, npy};

/// All that a reader gives, but not more than a file of a picture may have.
///
/// # Errors
///
/// Reading fails, or there is more.
pub fn read_bytes(reader: impl Read, limits: &Limits) -> Result<Vec<u8>, ImageError> {
    let max_bytes = limits.file_bytes();
    let mut bytes = Vec::new();
    reader.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ImageError::FileTooLarge { max_bytes });
    }
    Ok(bytes)
}

/// The picture in a file. Its content says what it is. Takes long.
///
/// # Errors
///
/// It is no picture, is cut off or damaged, is of a kind that is not read, or larger than `limits`.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    let format = Format::of_bytes(bytes).ok_or(ImageError::UnknownFormat)?;
    // Files come from anywhere: one that breaks its decoder is an error like the others.
    let decoded = catch_unwind(AssertUnwindSafe(|| decode_as(format, bytes, limits)));
    decoded.unwrap_or_else(|_| Err(ImageError::Malformed { format, reason: "its decoder gave up".to_owned() }))
}

fn decode_as(format: Format, bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    if format == Format::Png {
        // Looked at first: the decoder takes memory for rows, and a file that claims too much need not be whole.
        let (width, height) = whole::png_size(bytes).ok_or(ImageError::Truncated { format })?;
        limits.check(width.into(), height.into(), 1)?;
    }
    whole::check(format, bytes)?;
    let (file, refused) = (Cursor::new(bytes), |error| problem(format, error, limits));
    match format {
        Format::Jpeg => jpeg::decode(bytes, limits),
        Format::Png => finish(format, PngDecoder::with_limits(file, limits.of_decoder()).map_err(refused)?, limits),
        Format::WebP => finish(format, WebPDecoder::new(file).map_err(refused)?, limits),
        Format::Tiff => finish(format, TiffDecoder::new(file).map_err(refused)?, limits),
        Format::Bmp => finish(format, BmpDecoder::new(file).map_err(refused)?, limits),
        Format::Pnm => finish(format, PnmDecoder::new(file).map_err(refused)?, limits),
        Format::Npy => npy::decode(bytes, limits),
        // No content says so.
        Format::Raw => Err(ImageError::UnknownFormat),
    }
}

/// What remains once a decoder knows the size.
fn finish(format: Format, mut decoder: impl ImageDecoder, limits: &Limits) -> Result<Picture, ImageError> {
    let refused = |error| problem(format, error, limits);
    let (width, height) = decoder.dimensions();
    limits.check(width.into(), height.into(), decoder.color_type().bytes_per_pixel().into())?;
    // Before limits are set, by which the TIFF decoder would refuse a profile that is larger than the pixels.
    let profile = decoder.icc_profile().map_err(refused)?;
    decoder.set_limits(limits.of_decoder()).map_err(refused)?;
    let orientation = decoder.orientation().map_err(refused)?;
    let image = DynamicImage::from_decoder(decoder).map_err(refused)?;
    turned(format, image, orientation, profile)
}

/// The picture as it is to be seen. Cameras store what their sensor saw, and say how it lay.
fn turned(
    format: Format,
    mut image: DynamicImage,
    orientation: Orientation,
    profile: Option<Vec<u8>>,
) -> Result<Picture, ImageError> {
    image.apply_orientation(orientation);
    let picture = Picture::of_image(format, image)?;
    Ok(Picture { profile: profile.and_then(Profile::new), ..picture })
}

/// What a decoder of `image` says, in our words.
fn problem(format: Format, error: image::ImageError, limits: &Limits) -> ImageError {
    match error {
        image::ImageError::Limits(_) => ImageError::FileTooLarge { max_bytes: limits.file_bytes() },
        image::ImageError::Unsupported(error) => ImageError::Unsupported { format, reason: error.to_string() },
        image::ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            ImageError::Truncated { format }
        }
        other => ImageError::Malformed { format, reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
