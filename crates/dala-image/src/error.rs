//! What can be wrong with a picture or its file.

use crate::Format;

/// Why a picture cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The first bytes are those of no format that is read.
    #[error("it is no JPEG, PNG, WebP, TIFF, BMP, PNM or NPY picture: convert it to one first")]
    UnknownFormat,
    /// The file ends before the picture does.
    #[error("the {format} picture is cut off before its end")]
    Truncated {
        /// What the file begins as.
        format: Format,
    },
    /// The file breaks the rules of its format.
    #[error("the {format} picture is damaged: {reason}")]
    Malformed {
        /// What the file begins as.
        format: Format,
        /// What was found.
        reason: String,
    },
    /// The file may be right, but this kind of it is not read.
    #[error("this kind of {format} is not read: {reason}")]
    Unsupported {
        /// What the file is.
        format: Format,
        /// What it has that is not known.
        reason: String,
    },
    /// There are more pixels than [`Limits::pixels`](crate::Limits::pixels).
    #[error("the picture has {width} x {height} pixels, and at most {max_pixels} are allowed")]
    TooManyPixels {
        /// Pixels in a row.
        width: u64,
        /// Rows.
        height: u64,
        /// What is allowed.
        max_pixels: u64,
    },
    /// The pixels take more memory than [`Limits::bytes`](crate::Limits::bytes).
    #[error("the picture has {width} x {height} pixels, which take more than the {max_bytes} bytes that are allowed")]
    TooManyBytes {
        /// Pixels in a row.
        width: u64,
        /// Rows.
        height: u64,
        /// What is allowed.
        max_bytes: u64,
    },
    /// The file itself, or something in it beside the pixels, is larger than any picture that is read.
    #[error("the file takes more than the {max_bytes} bytes that are allowed")]
    FileTooLarge {
        /// What is allowed.
        max_bytes: u64,
    },
    /// The samples do not make a picture of that size.
    #[error(
        "{samples} samples are no picture of {height} x {width} x {channels}: it has 1, 3 or 4 channels, and at least one \
         pixel"
    )]
    NotAPicture {
        /// Rows.
        height: usize,
        /// Pixels in a row.
        width: usize,
        /// Samples in a pixel.
        channels: usize,
        /// How many there are.
        samples: usize,
    },
    /// The picture is larger than files of that format can be.
    #[error(
        "a {format} picture has at most {most} rows and columns, and this has {height} and {width}: write it as .png"
    )]
    TooLargeToWrite {
        /// What was to be written.
        format: Format,
        /// Rows.
        height: usize,
        /// Pixels in a row.
        width: usize,
        /// The longest side.
        most: usize,
    },
    /// The encoder refused.
    #[error("the {format} encoder failed: {reason}")]
    NotEncoded {
        /// What was to be written.
        format: Format,
        /// What it said.
        reason: String,
    },
    /// No format has files that are called so.
    #[error("no format is known by the name {name}")]
    UnknownExtension {
        /// The file's name.
        name: String,
    },
    /// The file cannot be read or written at all.
    #[error("{message}")]
    Io {
        /// What the system says.
        message: String,
        /// The same for programs.
        kind: std::io::ErrorKind,
    },
}

impl ImageError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            ImageError::UnknownFormat | ImageError::UnknownExtension { .. } => "unknown_format",
            ImageError::Truncated { .. } => "truncated",
            ImageError::Malformed { .. } => "malformed",
            ImageError::Unsupported { .. } => "unsupported_picture",
            ImageError::TooManyPixels { .. }
            | ImageError::TooManyBytes { .. }
            | ImageError::FileTooLarge { .. }
            | ImageError::TooLargeToWrite { .. } => "too_large",
            ImageError::NotAPicture { .. } => "no_picture",
            ImageError::NotEncoded { .. } => "not_encoded",
            ImageError::Io { .. } => "io",
        }
    }
}

impl From<std::io::Error> for ImageError {
    fn from(error: std::io::Error) -> ImageError {
        ImageError::Io { message: error.to_string(), kind: error.kind() }
    }
}
