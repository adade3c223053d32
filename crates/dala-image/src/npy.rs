//! NumPy's array files (the format is specified with `numpy.lib.format`): a header in Python's words, then the elements.

use std::fmt::Write;

use crate::{Format, ImageError, Limits, Picture, SampleKind, raw};

const MAGIC: &[u8] = b"\x93NUMPY";

/// What elements begin at a multiple of.
const ALIGNMENT: usize = 64;

fn malformed(reason: impl Into<String>) -> ImageError {
    ImageError::Malformed { format: Format::Npy, reason: reason.into() }
}

fn unsupported(reason: String) -> ImageError {
    ImageError::Unsupported { format: Format::Npy, reason }
}

/// What a header says.
struct Header {
    kind: SampleKind,
    little_endian: bool,
    height: u64,
    width: u64,
    channels: u64,
}

/// The picture in an array of shape `(height, width)` or `(height, width, channels)`.
pub(crate) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
    let (header, elements) = split(bytes)?;
    let Header { kind, little_endian, height, width, channels } = Header::read(header)?;
    let pixel_bytes = channels.saturating_mul(kind.size_bytes() as u64);
    limits.check(width, height, pixel_bytes)?;
    let wanted = width.saturating_mul(height).saturating_mul(pixel_bytes);
    let elements = usize::try_from(wanted).ok().and_then(|wanted| elements.get(..wanted));
    let elements = elements.ok_or(ImageError::Truncated { format: Format::Npy })?;
    Picture::new(height as usize, width as usize, channels as usize, kind.read(elements, little_endian))
}

/// The header's text, and what follows it.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), ImageError> {
    let cut = || ImageError::Truncated { format: Format::Npy };
    let rest = bytes.get(MAGIC.len()..).ok_or_else(cut)?;
    let (len, rest) = match rest {
        [1, _, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [version @ (0 | 4..), ..] => return Err(malformed(format!("version {version} is not known"))),
        _ => return Err(cut()),
    };
    let (header, elements) = rest.split_at_checked(len).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| malformed("the header is no text"))?;
    Ok((header, elements))
}

impl Header {
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (480, 640, 3), }`.
    fn read(text: &str) -> Result<Header, ImageError> {
        let descr = value(text, "descr")?;
        let quoted = descr.strip_prefix(['\'', '"']).and_then(|rest| rest.split(['\'', '"']).next());
        let descr = quoted.ok_or_else(|| unsupported(format!("elements of several parts, {descr}")))?;
        let (little_endian, kind) = match descr {
            "|u1" | "<u1" | ">u1" | "u1" => (true, SampleKind::U8),
            "<u2" | "u2" => (true, SampleKind::U16),
            ">u2" => (false, SampleKind::U16),
            "<f4" | "f4" => (true, SampleKind::F32),
            ">f4" => (false, SampleKind::F32),
            other => {
                return Err(unsupported(format!(
                    "elements are {other}, and those of pictures are u1, u2 or f4: convert them by astype"
                )));
            }
        };
        if value(text, "fortran_order")?.starts_with("True") {
            return Err(unsupported("columns come before rows: use numpy.ascontiguousarray".to_owned()));
        }
        let (height, width, channels) = shape(value(text, "shape")?)?;
        Ok(Header { kind, little_endian, height, width, channels })
    }
}

/// What comes after a name and its colon.
fn value<'a>(text: &'a str, name: &str) -> Result<&'a str, ImageError> {
    let after = ['\'', '"'].into_iter().find_map(|quote| text.split_once(&format!("{quote}{name}{quote}")));
    let value = after.and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    value.map(str::trim_start).ok_or_else(|| malformed(format!("the header says no {name}")))
}

/// `(480, 640, 3)` and what follows.
fn shape(text: &str) -> Result<(u64, u64, u64), ImageError> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inside, _) = inside.ok_or_else(|| malformed("the header says no shape"))?;
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    let dims: Result<Vec<u64>, _> = parts.map(str::parse).collect();
    match dims.map_err(|_| malformed(format!("the shape is ({inside})")))?[..] {
        [height, width] if height > 0 && width > 0 => Ok((height, width, 1)),
        [height, width, channels @ (1 | 3 | 4)] if height > 0 && width > 0 => Ok((height, width, channels)),
        _ => Err(unsupported(format!(
            "the shape is ({inside}), and that of a picture is (height, width) or (height, width, channels) with 1, 3 or \
             4 channels"
        ))),
    }
}

/// An array file. Gray is an array of two dimensions, as NumPy's users have it.
pub(crate) fn encode(picture: &Picture) -> Vec<u8> {
    let Picture { height, width, channels, samples, .. } = picture;
    let descr = match samples.kind() {
        SampleKind::U8 => "|u1",
        SampleKind::U16 => "<u2",
        SampleKind::F32 => "<f4",
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({height}, {width}");
    if *channels > 1 {
        // A string takes whatever it is given.
        let _ = write!(header, ", {channels}");
    }
    header.push_str("), }");
    let start = MAGIC.len() + 4;
    // The line break is part of the header.
    let len = (start + header.len() + 1).next_multiple_of(ALIGNMENT) - start;
    header.push_str(&" ".repeat(len - header.len() - 1));
    header.push('\n');
    let len = (len as u16).to_le_bytes();
    [MAGIC, &[1, 0], &len, header.as_bytes(), &raw::encode(samples)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Samples, decode as read};

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), elements].concat()
    }

    fn code(header: &str, elements: &[u8]) -> &'static str {
        read(&file(header, elements), &Limits::default()).unwrap_err().code()
    }

    #[test]
    fn arrays_come_back_as_they_were() {
        for (channels, samples) in [
            (1, Samples::U8((0..6).collect())),
            (3, Samples::U8((0..18).collect())),
            (4, Samples::U16((0..24).map(|n| n * 2700).collect())),
            (1, Samples::F32(vec![0.1, -2.0, f32::MAX, f32::NEG_INFINITY, 1e-40, 0.5])),
        ] {
            let picture = Picture::new(2, 3, channels, samples).unwrap();
            let bytes = picture.encode(Format::Npy).unwrap().bytes;
            assert_eq!(bytes.iter().position(|byte| *byte == b'\n').unwrap() % ALIGNMENT, ALIGNMENT - 1);
            assert_eq!(read(&bytes, &Limits::default()).unwrap(), picture);
        }
    }

    /// As `numpy.save` writes them.
    #[test]
    fn files_of_numpy_are_read_and_written() {
        let bytes = include_bytes!("../tests/data/floats.npy");
        let picture = read(bytes, &Limits::default()).unwrap();
        assert_eq!((picture.height, picture.width, picture.channels), (2, 3, 1));
        assert_eq!(picture.samples, Samples::F32(vec![0.0, 0.25, 0.5, 0.75, 1.0, 1.25]));
        assert_eq!(picture.encode(Format::Npy).unwrap().bytes, bytes);

        let bytes = include_bytes!("../tests/data/levels.npy");
        let picture = read(bytes, &Limits::default()).unwrap();
        assert_eq!((picture.height, picture.width, picture.channels), (2, 2, 3));
        assert_eq!(picture.samples, Samples::U8((0..12).map(|n| n * 20).collect()));
        assert_eq!(picture.encode(Format::Npy).unwrap().bytes, bytes);

        // Version 2, and big-endian.
        let picture = read(include_bytes!("../tests/data/big_endian.npy"), &Limits::default()).unwrap();
        assert_eq!(picture.samples, Samples::U16(vec![1, 256, 65535, 4660]));
    }

    #[test]
    fn other_arrays_are_told_apart_from_broken_ones() {
        let header = |descr: &str, order: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")
        };
        assert!(read(&file(&header("'|u1'", "False", "(1, 2)"), &[1, 2]), &Limits::default()).is_ok());
        for (descr, order, shape) in [
            ("'<f8'", "False", "(1, 2)"),
            ("[('a', '<f4')]", "False", "(1, 2)"),
            ("'|u1'", "True", "(1, 2)"),
            ("'|u1'", "False", "()"),
            ("'|u1'", "False", "(2,)"),
            ("'|u1'", "False", "(0, 2)"),
            ("'|u1'", "False", "(1, 1, 2)"),
            ("'|u1'", "False", "(1, 1, 1, 1)"),
        ] {
            assert_eq!(code(&header(descr, order, shape), &[1, 2]), "unsupported_picture", "{descr} {order} {shape}");
        }
        for broken in ["", "{}", "{'descr': '|u1'}", "{'descr': '|u1', 'fortran_order': False, 'shape': (a, 2)}"] {
            assert_eq!(code(broken, &[1, 2]), "malformed", "{broken}");
        }
        assert_eq!(code(&header("'|u1'", "False", "(2, 2)"), &[1, 2, 3]), "truncated");
        assert_eq!(code(&header("'|u1'", "False", "(99999999999, 99999999999, 4)"), &[1]), "too_large");
        assert_eq!(code(&header("'|u1'", "False", "(999999999999999999999, 1)"), &[1]), "malformed");
    }
}
