//! JPEG files. The headers are read as they come; the pixels strictly, because a decoder that goes on after damage fills
//! the rest with gray.

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, RgbImage};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;

use super::turned;
use crate::{Format, ImageError, Limits, Picture};

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    let any_size = usize::from(u16::MAX);
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(any_size).set_max_height(any_size);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(problem)?;
    let no_size = || malformed("it has no size");
    let (width, height) = decoder.dimensions().ok_or_else(no_size)?;
    let gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (channels, colours) = if gray { (1, ColorSpace::Luma) } else { (3, ColorSpace::RGB) };
    limits.check(width as u64, height as u64, channels)?;

    let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
    let profile = decoder.icc_profile();
    decoder.set_options(decoder.options().set_strict_mode(true).jpeg_set_out_colorspace(colours));
    let mut pixels = vec![0; width * height * channels as usize];
    decoder.decode_into(&mut pixels).map_err(problem)?;
    let (wide, high) = (width as u32, height as u32);
    let image = match gray {
        true => GrayImage::from_raw(wide, high, pixels).map(DynamicImage::from),
        false => RgbImage::from_raw(wide, high, pixels).map(DynamicImage::from),
    };
    let image = image.ok_or_else(no_size)?;
    turned(Format::Jpeg, image, orientation.unwrap_or(Orientation::NoTransforms), profile)
}

fn malformed(reason: impl Into<String>) -> ImageError {
    ImageError::Malformed { format: Format::Jpeg, reason: reason.into() }
}

fn problem(error: DecodeErrors) -> ImageError {
    match error {
        DecodeErrors::Unsupported(what) => {
            ImageError::Unsupported { format: Format::Jpeg, reason: format!("{what:?}") }
        }
        // Such as 12 bits.
        DecodeErrors::SofError(reason) => ImageError::Unsupported { format: Format::Jpeg, reason },
        other => malformed(other.to_string()),
    }
}
