//! The samples of pictures.

use std::borrow::Cow;
use std::fmt;

use crate::levels::{level_of_16, levels};

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
