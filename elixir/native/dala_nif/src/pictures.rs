//! Pixels from picture files, and files from pixels.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::png::PngEncoder;
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageError, ImageFormat, ImageReader, Limits,
};

/// What a decoder may use besides the pixels: tables, texts, colour profiles.
const OTHER_BYTES: u64 = 32 * 1024 * 1024;

/// Pixels of 8 bits, row by row.
pub(crate) struct Picture {
    pub(crate) height: u32,
    pub(crate) width: u32,
    /// 1 (gray), 3 (RGB) or 4 (RGBA).
    pub(crate) channels: u8,
    pub(crate) pixels: Vec<u8>,
}

/// Why a file is no picture.
pub(crate) struct NotDecoded {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

fn no(code: &'static str, message: impl Into<String>) -> NotDecoded {
    NotDecoded { code, message: message.into() }
}

/// The pixels of a PNG or JPEG file, as its camera says that they are to be turned. Takes long.
pub(crate) fn decode(bytes: &[u8], max_pixels: u64) -> Result<Picture, NotDecoded> {
    // Files come from anywhere: one that breaks the decoder is an error like the others.
    catch_unwind(AssertUnwindSafe(|| decode_checked(bytes, max_pixels)))
        .unwrap_or_else(|_| Err(no("malformed", "the picture is damaged: its decoder gave up")))
}

fn decode_checked(bytes: &[u8], max_pixels: u64) -> Result<Picture, NotDecoded> {
    let format = match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => format,
        _ => return Err(no("unknown_format", "this is no PNG or JPEG picture")),
    };
    if format == ImageFormat::Jpeg && !is_whole_jpeg(bytes) {
        return Err(no("truncated", "the picture is cut off before its end"));
    }
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(max_pixels.saturating_mul(8).saturating_add(OTHER_BYTES));
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(problem)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > max_pixels {
        let message = format!("the picture has {width} x {height} pixels, and at most {max_pixels} are allowed");
        return Err(no("too_large", message));
    }
    let orientation = decoder.orientation().map_err(problem)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(problem)?;
    image.apply_orientation(orientation);
    let (width, height, color) = (image.width(), image.height(), image.color());
    // Kernels know 1, 3 and 4 channels of 8 bits.
    let (channels, pixels) = match (color.has_color(), color.has_alpha()) {
        (_, true) => (4, image.into_rgba8().into_raw()),
        (true, false) => (3, image.into_rgb8().into_raw()),
        (false, false) => (1, image.into_luma8().into_raw()),
    };
    Ok(Picture { height, width, channels, pixels })
}

fn problem(error: ImageError) -> NotDecoded {
    let code = match &error {
        ImageError::Limits(_) => "too_large",
        ImageError::Unsupported(_) => "unsupported_picture",
        ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "truncated",
        _ => "malformed",
    };
    no(code, format!("cannot decode the picture: {error}"))
}

/// Whether a JPEG file goes on to its end. The decoder fills what is missing with gray and says nothing.
fn is_whole_jpeg(bytes: &[u8]) -> bool {
    let mut at = 2;
    // Segments have a marker and a length, up to the first one that is followed by pixels.
    while let Some(&[0xFF, marker, high, low]) = bytes.get(at..at + 4) {
        match marker {
            0xFF => at += 1,
            0xDA => {
                // A byte of 255 among pixels is followed by 0, so that this can only be the end.
                return bytes[at..].windows(2).any(|pair| pair == [0xFF, 0xD9]);
            }
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2),
        }
    }
    false
}

/// A PNG file of pixels of 8 bits. Takes long.
pub(crate) fn encode(picture: &Picture) -> Result<Vec<u8>, String> {
    let color = match picture.channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        4 => ExtendedColorType::Rgba8,
        other => return Err(format!("a picture has 1, 3 or 4 channels, found {other}")),
    };
    let Picture { width, height, pixels, .. } = picture;
    let expected = [*height, *width, u32::from(picture.channels)].map(u64::from).iter().product::<u64>();
    if pixels.len() as u64 != expected {
        return Err(format!("{expected} bytes are {height} x {width} pixels, found {}", pixels.len()));
    }
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    encoder.write_image(pixels, *width, *height, color).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Floats from 0 to 1 as levels, as kernels round them: half to even, and NaN is 0.
pub(crate) fn levels(floats: &[u8]) -> Vec<u8> {
    let level = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8;
    floats.chunks_exact(4).map(|bytes| level(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))).collect()
}
