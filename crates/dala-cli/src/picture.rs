//! Pictures: from files and pipes, to files and pipes, and made up.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use dala_compute::{Buffer, DType, Device, Shape, TensorType};
use dala_image::{Dropped, Format, Limits, Picture, Profile, RawLayout, Samples};

use crate::output;

/// Standard input or output instead of a file.
const STANDARD: &str = "-";

/// What a picture has for each of its shape's elements.
pub(crate) enum Elements {
    U8(Vec<u8>),
    /// From 0 to 1 where they are to be seen.
    F32(Vec<f32>),
}

/// A picture on the host.
pub(crate) struct HostPicture {
    pub(crate) shape: Shape,
    pub(crate) elements: Elements,
    /// What its colours mean.
    pub(crate) profile: Option<Profile>,
    /// What its file is.
    pub(crate) format: Option<Format>,
}

impl HostPicture {
    /// Levels that are from no file.
    pub(crate) fn of_levels(shape: Shape, levels: Vec<u8>) -> HostPicture {
        HostPicture { shape, elements: Elements::U8(levels), profile: None, format: None }
    }

    pub(crate) fn ty(&self) -> TensorType {
        let dtype = match self.elements {
            Elements::U8(_) => DType::U8,
            Elements::F32(_) => DType::F32,
        };
        TensorType::new(dtype, self.shape.clone())
    }

    pub(crate) fn upload(&self, device: &Device) -> Result<Buffer> {
        Ok(match &self.elements {
            Elements::U8(levels) => Buffer::from_slice(device, levels, self.shape.clone())?,
            Elements::F32(floats) => Buffer::from_slice(device, floats, self.shape.clone())?,
        })
    }

    /// Replaces what is in a buffer of its type.
    pub(crate) fn write_to(&self, buffer: &Buffer) -> Result<()> {
        match &self.elements {
            Elements::U8(levels) => buffer.write(levels)?,
            Elements::F32(floats) => buffer.write(floats)?,
        }
        Ok(())
    }

    /// As what recipes and files take.
    pub(crate) fn into_picture(self) -> Result<Picture> {
        let HostPicture { shape, elements, profile, .. } = self;
        let Some(size) = shape.picture() else { bail!("{shape} is no picture's shape") };
        let samples = match elements {
            Elements::U8(levels) => Samples::U8(levels),
            Elements::F32(floats) => Samples::F32(floats),
        };
        Ok(Picture { profile, ..Picture::new(size.height, size.width, size.channels, samples)? })
    }

    /// As levels of 8 bits.
    pub(crate) fn into_levels(self) -> Vec<u8> {
        match self.elements {
            Elements::U8(levels) => levels,
            Elements::F32(floats) => dala_image::levels(&floats),
        }
    }
}

/// Whether a path is standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD
}

/// Reads a picture whose content says what it is, unless it is called .raw or is a pipe with a layout.
pub(crate) fn read(path: &Path, raw: Option<RawLayout>) -> Result<HostPicture> {
    let name = if is_standard(path) { "standard input".to_owned() } else { path.display().to_string() };
    read_bytes(path, raw).with_context(|| format!("cannot read {name}"))
}

fn read_bytes(path: &Path, raw: Option<RawLayout>) -> Result<HostPicture> {
    let limits = Limits::default();
    let bytes = match is_standard(path) {
        true => dala_image::read_bytes(io::stdin().lock(), &limits)?,
        false => dala_image::read_bytes(File::open(path)?, &limits)?,
    };
    if bytes.is_empty() {
        bail!("it is empty");
    }
    let is_raw = is_standard(path) || Format::of_path(path) == Some(Format::Raw);
    let (format, picture) = match raw {
        Some(layout) if is_raw => (Some(Format::Raw), layout.decode(&bytes, &limits)?),
        None if Format::of_path(path) == Some(Format::Raw) => {
            bail!("a raw file does not say how large it is: say it by --raw HxWxC, or HxWxC:f32")
        }
        _ => (Format::of_bytes(&bytes), dala_image::decode(&bytes, &limits)?),
    };
    let shape = Shape::from([picture.height, picture.width, picture.channels]);
    let elements = match picture.samples {
        Samples::F32(floats) => Elements::F32(floats),
        // Kernels know pictures of u8 and f32.
        other => Elements::U8(other.into_levels()),
    };
    Ok(HostPicture { shape, elements, profile: picture.profile, format })
}

/// The format that a file's extension says.
pub(crate) fn format_of(path: &Path) -> Result<Format> {
    match Format::of_path(path) {
        Some(format) => Ok(format),
        None => bail!("cannot write {}: name it {}", path.display(), extensions(|_| true)),
    }
}

/// `.jpg, .png or .bmp`: the usual extension of each format that is meant.
pub(crate) fn extensions(meant: impl Fn(Format) -> bool) -> String {
    let all = Format::ALL.into_iter().filter(|format| meant(*format)).filter_map(|format| format.extensions().first());
    let mut all: Vec<String> = all.map(|extension| format!(".{extension}")).collect();
    let last = all.pop().unwrap_or_default();
    if all.is_empty() { last } else { format!("{} or {last}", all.join(", ")) }
}

/// Whether a buffer can be written as a picture.
pub(crate) fn check(path: &Path, name: &str, buffer: &Buffer) -> Result<()> {
    let is_picture = matches!(buffer.dtype(), DType::U8 | DType::F32) && buffer.shape().picture().is_some();
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

/// Refuses to send a picture to a terminal.
pub(crate) fn check_standard_output() -> Result<()> {
    if io::stdout().is_terminal() {
        bail!("cannot write a picture to a terminal: name a file, or pipe it into another command");
    }
    Ok(())
}

/// The picture that is in a buffer, with the profile of what it was made of.
pub(crate) fn download(buffer: &Buffer, profile: Option<Profile>) -> Result<HostPicture> {
    let elements = match buffer.dtype() {
        DType::F32 => Elements::F32(buffer.read()?),
        _ => Elements::U8(buffer.read()?),
    };
    Ok(HostPicture { shape: buffer.shape().clone(), elements, profile, format: None })
}

/// Writes what a recipe made to a file in the format that its extension says; warns if its profile got lost.
pub(crate) fn write_made(path: &Path, made: &Picture) -> Result<()> {
    let format = format_of(path)?;
    let cannot = || format!("cannot write {}", path.display());
    let encoded = made.encode(format).with_context(cannot)?;
    fs::write(path, encoded.bytes).with_context(cannot)?;
    if let Some(why) = encoded.dropped {
        output::warn(&format!("{}: the colour profile is left out: {why}", path.display()));
    }
    Ok(())
}

/// Writes a picture to a file in the format that its extension says, and says whether its profile got lost.
pub(crate) fn write(path: &Path, picture: HostPicture) -> Result<Option<Dropped>> {
    let format = format_of(path)?;
    let written = encode(picture, format).and_then(|(bytes, dropped)| {
        fs::write(path, bytes)?;
        Ok(dropped)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The same into a pipe.
pub(crate) fn write_standard(out: &mut dyn Write, picture: HostPicture, format: Format) -> Result<Option<Dropped>> {
    let (bytes, dropped) = encode(picture, format).context("cannot write standard output")?;
    out.write_all(&bytes).context("cannot write standard output")?;
    Ok(dropped)
}

fn encode(picture: HostPicture, format: Format) -> Result<(Vec<u8>, Option<Dropped>)> {
    let encoded = picture.into_picture()?.encode(format)?;
    Ok((encoded.bytes, encoded.dropped))
}

/// A picture for those who have none: gradients with noise, the same each time.
pub(crate) fn generate(shape: &Shape) -> HostPicture {
    let (height, width, channels) = match shape.image() {
        Some(image) => (image.height, image.width, image.channels),
        None => (1, 1, shape.len()),
    };
    let mut levels = Vec::with_capacity(shape.len());
    for index in 0..shape.len() {
        let (y, x, channel) = (index / channels / width, index / channels % width, index % channels);
        let slope = match channel {
            0 => x * 223 / width,
            1 => y * 223 / height,
            2 => 223 - x * 223 / width,
            _ => (x + y) * 223 / (width + height),
        };
        levels.push((slope + noise(index)) as u8);
    }
    HostPicture::of_levels(shape.clone(), levels)
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
        assert_eq!(format_of(Path::new("a.b.jpeg")).unwrap(), Format::Jpeg);
        for name in ["a.gif", "a", "png", ".png", "a.svg"] {
            let message = format_of(Path::new(name)).unwrap_err().to_string();
            let all = ".jpg, .png, .webp, .tiff, .bmp, .pnm, .npy or .raw";
            assert_eq!(message, format!("cannot write {name}: name it {all}"));
        }
        assert_eq!(extensions(|format| format == Format::Bmp), ".bmp");
    }

    #[test]
    fn made_up_pictures_are_neither_flat_nor_new_each_time() {
        let shape = Shape::from([48, 64, 4]);
        let mut levels = generate(&shape).into_levels();
        assert_eq!(levels, generate(&shape).into_levels());
        levels.sort_unstable();
        levels.dedup();
        assert!(levels.len() > 200, "{} levels", levels.len());
        assert_eq!(generate(&Shape::from([1, 1])).into_levels().len(), 1);
    }
}
