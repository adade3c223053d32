//! Kinds of files, by name and by content.

use std::fmt;
use std::path::Path;

/// A kind of file that holds a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// JPEG, written with quality 90. No transparency.
    Jpeg,
    /// PNG, of 8 or 16 bits.
    Png,
    /// WebP, written without loss.
    WebP,
    /// TIFF, of 8 or 16 bits or floats; written without compression.
    Tiff,
    /// Windows bitmap.
    Bmp,
    /// Portable maps: PBM, PGM, PPM and PAM.
    Pnm,
    /// NumPy's array files: elements as they are, with a header.
    Npy,
    /// Elements as they are, row by row and little-endian, without a header.
    Raw,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 8] =
        [Format::Jpeg, Format::Png, Format::WebP, Format::Tiff, Format::Bmp, Format::Pnm, Format::Npy, Format::Raw];

    /// What names of such files end in, the usual one first.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Jpeg => &["jpg", "jpeg"],
            Format::Png => &["png"],
            Format::WebP => &["webp"],
            Format::Tiff => &["tiff", "tif"],
            Format::Bmp => &["bmp"],
            Format::Pnm => &["pnm", "pgm", "ppm", "pam"],
            Format::Npy => &["npy"],
            Format::Raw => &["raw"],
        }
    }

    /// Whether it holds elements rather than levels: floats stay floats.
    pub fn is_array(self) -> bool {
        matches!(self, Format::Npy | Format::Raw)
    }

    /// The format that a file's name says.
    pub fn of_path(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        let has = |format: &Format| format.extensions().iter().any(|own| own.eq_ignore_ascii_case(extension));
        Format::ALL.into_iter().find(has)
    }

    /// The format that a file's first bytes say. [`Format::Raw`] has none that could.
    pub fn of_bytes(bytes: &[u8]) -> Option<Format> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::WebP),
            // 43 instead of 42 are files of more than 4 GiB.
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Format::Tiff),
            [b'B', b'M', ..] => Some(Format::Bmp),
            [b'P', b'1'..=b'7', b' ' | b'\t' | b'\n' | b'\r' | b'#', ..] => Some(Format::Pnm),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(Format::Npy),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Jpeg => "JPEG",
            Format::Png => "PNG",
            Format::WebP => "WebP",
            Format::Tiff => "TIFF",
            Format::Bmp => "BMP",
            Format::Pnm => "PNM",
            Format::Npy => "NPY",
            Format::Raw => "raw",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_format() {
        for (name, format) in [
            ("a.png", Format::Png),
            ("a.PNG", Format::Png),
            ("a.b.jpg", Format::Jpeg),
            ("a.jpeg", Format::Jpeg),
            ("dir.d/a.TIF", Format::Tiff),
            ("a.ppm", Format::Pnm),
            ("a.npy", Format::Npy),
            ("a.raw", Format::Raw),
        ] {
            assert_eq!(Format::of_path(Path::new(name)), Some(format), "{name}");
        }
        for name in ["a.gif", "a", "png", ".png", "a.svg", "a.pn", "-"] {
            assert_eq!(Format::of_path(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn no_extension_has_two_formats() {
        let mut all: Vec<&str> = Format::ALL.iter().flat_map(|format| format.extensions()).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn unknown_file_endings_have_no_format() {
        for bytes in [&b""[..], b"P", b"P6", b"Pages of text", b"P8 1 1", b"GIF89a", b"RIFF\0\0\0\0WAVE", b"II*"] {
            assert_eq!(Format::of_bytes(bytes), None, "{bytes:?}");
        }
    }
}
