//! Elements without a header: somebody has to say how they lie.

use std::fmt;
use std::str::FromStr;

use crate::{Format, ImageError, Limits, Picture, SampleKind, Samples};

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

impl Picture {
    /// How its samples lie in a raw file.
    pub fn layout(&self) -> RawLayout {
        let Picture { height, width, channels, .. } = *self;
        RawLayout { height, width, channels, kind: self.samples.kind() }
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
