//! Elements without a header: somebody has to say how they lie.

use std::fmt;
use std::str::FromStr;

use crate::{Format, ImageError, Limits, Picture, Samples};

/// The type of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// Levels of 8 bits.
    U8,
    /// Levels of 16 bits.
    U16,
    /// Floats of 32 bits.
    F32,
}

impl SampleKind {
    /// How long one is.
    pub fn size_bytes(self) -> usize {
        match self {
            SampleKind::U8 => 1,
            SampleKind::U16 => 2,
            SampleKind::F32 => 4,
        }
    }

    /// The samples that these bytes are. What is left over at the end is ignored.
    pub(crate) fn read(self, bytes: &[u8], little_endian: bool) -> Samples {
        let (halves, words) = (bytes.as_chunks::<2>().0.iter(), bytes.as_chunks::<4>().0.iter());
        match (self, little_endian) {
            (SampleKind::U8, _) => Samples::U8(bytes.to_vec()),
            (SampleKind::U16, true) => Samples::U16(halves.map(|bytes| u16::from_le_bytes(*bytes)).collect()),
            (SampleKind::U16, false) => Samples::U16(halves.map(|bytes| u16::from_be_bytes(*bytes)).collect()),
            (SampleKind::F32, true) => Samples::F32(words.map(|bytes| f32::from_le_bytes(*bytes)).collect()),
            (SampleKind::F32, false) => Samples::F32(words.map(|bytes| f32::from_be_bytes(*bytes)).collect()),
        }
    }
}

impl fmt::Display for SampleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SampleKind::U8 => "u8",
            SampleKind::U16 => "u16",
            SampleKind::F32 => "f32",
        })
    }
}

/// How the elements of a raw file lie: rows from the top, the channels of a pixel side by side, little-endian.
///
/// As text, `480x640x3` is height, width and channels of u8, and `480x640x3:f32` the same of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLayout {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// 1, 3 or 4.
    pub channels: usize,
    /// The type of each.
    pub kind: SampleKind,
}

impl RawLayout {
    /// The picture that these bytes are.
    ///
    /// # Errors
    ///
    /// There are fewer or more bytes than the layout has, or it has more than `limits` allow.
    pub fn decode(&self, bytes: &[u8], limits: &Limits) -> Result<Picture, ImageError> {
        let pixel_bytes = self.channels.saturating_mul(self.kind.size_bytes());
        limits.check(self.width as u64, self.height as u64, pixel_bytes as u64)?;
        let expected = self.height.saturating_mul(self.width).saturating_mul(pixel_bytes);
        if bytes.len() < expected {
            return Err(ImageError::Truncated { format: Format::Raw });
        }
        if bytes.len() > expected {
            let reason = format!("{self} has {expected} bytes, and the file has {}", bytes.len());
            return Err(ImageError::Malformed { format: Format::Raw, reason });
        }
        Picture::new(self.height, self.width, self.channels, self.kind.read(bytes, true))
    }
}

impl fmt::Display for RawLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}:{}", self.height, self.width, self.channels, self.kind)
    }
}

impl FromStr for RawLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<RawLayout, String> {
        let wrong = || "write height, width and 1, 3 or 4 channels, such as 480x640x3 or 480x640x3:f32".to_owned();
        let (size, kind) = match text.split_once(':') {
            None => (text, SampleKind::U8),
            Some((size, "u8")) => (size, SampleKind::U8),
            Some((size, "u16")) => (size, SampleKind::U16),
            Some((size, "f32")) => (size, SampleKind::F32),
            Some(_) => return Err(wrong()),
        };
        let sizes: Option<Vec<usize>> = size.split('x').map(|part| part.parse().ok()).collect();
        let (height, width, channels) = match sizes.as_deref() {
            Some(&[height, width]) => (height, width, 1),
            Some(&[height, width, channels @ (1 | 3 | 4)]) => (height, width, channels),
            _ => return Err(wrong()),
        };
        if height == 0 || width == 0 {
            return Err(wrong());
        }
        Ok(RawLayout { height, width, channels, kind })
    }
}

/// Elements as they lie in files.
pub(crate) fn encode(samples: &Samples) -> Vec<u8> {
    match samples {
        Samples::U8(samples) => samples.clone(),
        Samples::U16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        Samples::F32(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_as_they_were() {
        for samples in [
            Samples::U8(vec![0, 1, 255, 128, 7, 9]),
            Samples::U16(vec![0, 1, 256, 65535, 0x1234, 9]),
            Samples::F32(vec![0.0, -1.5, f32::INFINITY, 1e-30, 0.5, 3.0]),
        ] {
            let picture = Picture::new(1, 2, 3, samples).unwrap();
            let bytes = picture.encode(Format::Raw).unwrap().bytes;
            assert_eq!(picture.layout().decode(&bytes, &Limits::default()).unwrap(), picture);
        }
        let two = Picture::new(1, 2, 1, Samples::U16(vec![0x1234, 0xff])).unwrap();
        assert_eq!(two.encode(Format::Raw).unwrap().bytes, [0x34, 0x12, 0xff, 0]);
    }

    #[test]
    fn layouts_are_written_as_they_are_read() {
        for text in ["480x640x3:u8", "2x3x1:f32", "1x1x4:u16"] {
            assert_eq!(text.parse::<RawLayout>().unwrap().to_string(), text);
        }
        assert_eq!("2x3".parse::<RawLayout>().unwrap().to_string(), "2x3x1:u8");
        for bad in ["", "2", "2x3x2", "0x3x3", "2x3x3:f64", "2x3x3x1", "-1x2x3", "axb", "99999999999999999999x1"] {
            assert!(bad.parse::<RawLayout>().is_err(), "{bad}");
        }
    }

    #[test]
    fn files_of_another_length_are_refused() {
        let layout: RawLayout = "2x3x1".parse().unwrap();
        let code = |bytes: &[u8]| layout.decode(bytes, &Limits::default()).unwrap_err().code();
        assert_eq!((code(&[0; 5]), code(&[0; 7]), code(&[])), ("truncated", "malformed", "truncated"));
        let huge: RawLayout = format!("{}x{}x4:f32", usize::MAX, usize::MAX).parse().unwrap();
        assert_eq!(huge.decode(&[], &Limits::default()).unwrap_err().code(), "too_large");
    }
}
