//! Pictures: from files, to files, and made up.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use dala_compute::{Buffer, DType, Shape, TensorType};
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, RgbImage, RgbaImage};

use crate::jpeg;

/// Of 100: what a photo loses cannot be seen.
const JPEG_QUALITY: u8 = 90;

/// What files of pictures end in.
pub(crate) const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// Elements of a picture on the host.
pub(crate) struct Picture {
    pub(crate) shape: Shape,
    pub(crate) pixels: Vec<u8>,
}

/// Reads a PNG or JPEG file as u8 of shape `{height, width, channels}`.
pub(crate) fn read(path: &Path) -> Result<Picture> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let image = decode(&bytes).with_context(|| format!("cannot read {name}"))?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    // Kernels know 1, 3 and 4 channels of 8 bits.
    let color = image.color();
    let (channels, pixels) = match (color.has_color(), color.has_alpha()) {
        (_, true) => (4, image.into_rgba8().into_raw()),
        (true, false) => (3, image.into_rgb8().into_raw()),
        (false, false) => (1, image.into_luma8().into_raw()),
    };
    Ok(Picture { shape: Shape::from([height, width, channels]), pixels })
}

fn decode(bytes: &[u8]) -> Result<DynamicImage> {
    let format = match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => format,
        _ => bail!("it is no PNG or JPEG picture: convert it to one first"),
    };
    let mut decoder = ImageReader::with_format(Cursor::new(bytes), format).into_decoder()?;
    // Cameras store the picture as the sensor lies, and say how it is to be turned.
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// The format that a file's extension says.
pub(crate) fn format_of(path: &Path) -> Result<ImageFormat> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => Ok(ImageFormat::Png),
        "jpg" | "jpeg" => Ok(ImageFormat::Jpeg),
        _ => bail!("cannot write {}: name it .png, .jpg or .jpeg", path.display()),
    }
}

/// Whether a buffer can be written as a picture.
pub(crate) fn check(path: &Path, name: &str, buffer: &Buffer) -> Result<()> {
    let is_picture = matches!(buffer.dtype(), DType::U8 | DType::F32) && buffer.shape().image().is_some();
    if is_picture && !buffer.is_empty() {
        return Ok(());
    }
    let ty = TensorType::new(buffer.dtype(), buffer.shape().clone());
    bail!(
        "cannot write {}: `{name}` is {ty}, and a picture is u8 or f32 of shape {{height, width}} or \
         {{height, width, channels}} with 1, 3 or 4 channels",
        path.display()
    )
}

/// The picture that is in a buffer. Floats from 0 to 1 become 0 to 255.
pub(crate) fn download(buffer: &Buffer) -> Result<Picture> {
    let pixels = match buffer.dtype() {
        DType::F32 => buffer.read::<f32>()?.into_iter().map(level).collect(),
        _ => buffer.read::<u8>()?,
    };
    Ok(Picture { shape: buffer.shape().clone(), pixels })
}

/// Writes a picture in the format that the file's extension says.
pub(crate) fn write(path: &Path, picture: Picture) -> Result<()> {
    let format = format_of(path)?;
    let bytes = encode(format, &picture.shape, picture.pixels).and_then(|bytes| Ok(fs::write(path, bytes)?));
    bytes.with_context(|| format!("cannot write {}", path.display()))
}

/// 0 to 1 as a level of a pixel; NaN is 0.
fn level(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8
}

fn encode(format: ImageFormat, shape: &Shape, pixels: Vec<u8>) -> Result<Vec<u8>> {
    let wrong = || anyhow!("a picture of shape {shape} is too large for a file");
    let size = shape.image().ok_or_else(wrong)?;
    if format == ImageFormat::Jpeg {
        return jpeg::encode(&pixels, size.width, size.height, size.channels, JPEG_QUALITY);
    }
    let (width, height) = (u32::try_from(size.width)?, u32::try_from(size.height)?);
    let image = match size.channels {
        1 => GrayImage::from_raw(width, height, pixels).map(DynamicImage::from),
        3 => RgbImage::from_raw(width, height, pixels).map(DynamicImage::from),
        _ => RgbaImage::from_raw(width, height, pixels).map(DynamicImage::from),
    };
    let image = image.ok_or_else(wrong)?;
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format)?;
    Ok(bytes)
}

/// A picture for those who have none: gradients with noise, the same each time.
pub(crate) fn generate(shape: &Shape) -> Picture {
    let (height, width, channels) = match shape.image() {
        Some(image) => (image.height, image.width, image.channels),
        None => (1, 1, shape.len()),
    };
    let mut pixels = Vec::with_capacity(shape.len());
    for index in 0..shape.len() {
        let (y, x, channel) = (index / channels / width, index / channels % width, index % channels);
        let slope = match channel {
            0 => x * 223 / width,
            1 => y * 223 / height,
            2 => 223 - x * 223 / width,
            _ => (x + y) * 223 / (width + height),
        };
        pixels.push((slope + noise(index)) as u8);
    }
    Picture { shape: shape.clone(), pixels }
}

/// From 0 to 31, without a pattern.
fn noise(index: usize) -> usize {
    let mut bits = (index as u32).wrapping_mul(0x9E37_79B9);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x85EB_CA6B);
    ((bits ^ (bits >> 13)) >> 27) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_say_the_format() {
        for (name, format) in [("a.png", "Png"), ("a.PNG", "Png"), ("a.b.jpg", "Jpeg"), ("a.jpeg", "Jpeg")] {
            assert_eq!(format!("{:?}", format_of(Path::new(name)).unwrap()), format);
        }
        for name in ["a.gif", "a", "png", ".png", "a.svg"] {
            let message = format_of(Path::new(name)).unwrap_err().to_string();
            assert_eq!(message, format!("cannot write {name}: name it .png, .jpg or .jpeg"));
        }
    }

    #[test]
    fn floats_become_the_nearest_level() {
        let levels = [-1.0, 0.0, 0.0019, 0.002, 0.5, 1.0, 7.0, f32::NAN, f32::INFINITY].map(level);
        assert_eq!(levels, [0, 0, 0, 1, 128, 255, 255, 0, 255]);
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        for channels in [1, 3, 4] {
            let shape = Shape::from([5, 7, channels]);
            let pixels = generate(&shape).pixels;
            let png = encode(ImageFormat::Png, &shape, pixels.clone()).unwrap();
            assert_eq!(decode(&png).unwrap().into_bytes(), pixels);
            let jpeg = decode(&encode(ImageFormat::Jpeg, &shape, pixels).unwrap()).unwrap();
            assert_eq!((jpeg.height(), jpeg.width()), (5, 7));
        }
    }

    #[test]
    fn photos_are_turned_as_their_camera_says() {
        use image::ImageEncoder;
        use image::codecs::jpeg::JpegEncoder;
        let shape = Shape::from([5, 7, 3]);
        let mut bytes = Vec::new();
        let mut encoder = JpegEncoder::new(&mut bytes);
        // A table of one entry: the orientation is 6, a quarter turn.
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        encoder.set_exif_metadata(exif.to_vec()).unwrap();
        encoder.encode(&generate(&shape).pixels, 7, 5, image::ExtendedColorType::Rgb8).unwrap();
        let turned = decode(&bytes).unwrap();
        assert_eq!((turned.height(), turned.width()), (7, 5));
    }

    #[test]
    fn made_up_pictures_are_neither_flat_nor_new_each_time() {
        let shape = Shape::from([48, 64, 4]);
        let picture = generate(&shape);
        assert_eq!(picture.pixels, generate(&shape).pixels);
        let mut levels = picture.pixels.clone();
        levels.sort_unstable();
        levels.dedup();
        assert!(levels.len() > 200, "{} levels", levels.len());
        assert_eq!(generate(&Shape::from([1, 1])).pixels.len(), 1);
    }
}
