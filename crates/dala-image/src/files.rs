//! Pictures from and to files by name.

use std::fs::{self, File};
use std::path::Path;

use crate::{Format, ImageError, Limits, Picture, decode, read_bytes};

impl Picture {
    /// Reads a file whose content says what it is, within the usual [`Limits`].
    ///
    /// # Errors
    ///
    /// The file cannot be read, or [`decode`] refuses it.
    pub fn open(path: impl AsRef<Path>) -> Result<Picture, ImageError> {
        let limits = Limits::default();
        decode(&read_bytes(File::open(path)?, &limits)?, &limits)
    }

    /// Writes a file in the format that its name says. A profile that has no place there is left out.
    ///
    /// # Errors
    ///
    /// The name says no format, the format cannot hold the picture, or the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ImageError> {
        let path = path.as_ref();
        let unknown = || ImageError::UnknownExtension { name: path.display().to_string() };
        let encoded = self.encode(Format::of_path(path).ok_or_else(unknown)?)?;
        Ok(fs::write(path, encoded.bytes)?)
    }
}
