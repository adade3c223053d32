//! Colour profiles, and where they get lost.

use std::fmt;

use crate::Format;

/// How long the header of a profile is.
const HEADER: usize = 128;

/// What JPEG files hold at most: 255 segments.
const LARGEST_IN_JPEG: usize = 255 * 65519;

/// What the colours of a picture mean: an ICC profile as a file has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile(Vec<u8>);

impl Profile {
    /// A profile out of a file; none if there is not even a header.
    pub fn new(bytes: Vec<u8>) -> Option<Profile> {
        (bytes.len() >= HEADER).then_some(Profile(bytes))
    }

    /// The profile as files have it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The colours that it is for, as the profile names them: `RGB`, `GRAY`, `CMYK`.
    pub fn colours(&self) -> String {
        String::from_utf8_lossy(&self.0[16..20]).trim_end().to_owned()
    }

    /// Why it cannot go into a file of this format whose pixels have so many channels.
    pub(crate) fn lost_in(&self, format: Format, channels: usize) -> Option<Dropped> {
        let fits = match self.colours().as_str() {
            "GRAY" => channels == 1,
            "RGB" => channels > 1,
            _ => false,
        };
        match format {
            Format::Bmp | Format::Pnm | Format::Npy | Format::Raw => Some(Dropped::NoPlace { format }),
            Format::Jpeg if self.0.len() > LARGEST_IN_JPEG => Some(Dropped::NoPlace { format }),
            _ if !fits => Some(Dropped::OtherColours { profile: self.colours(), gray: channels == 1 }),
            _ => None,
        }
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile of {} bytes for {}", self.0.len(), self.colours())
    }
}

/// Why a colour profile is not in a file that was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// Files of this format have no place for it.
    NoPlace {
        /// What was written.
        format: Format,
    },
    /// It is for other colours than the pixels have now, as after a conversion to gray.
    OtherColours {
        /// The colours that it is for.
        profile: String,
        /// Whether the pixels are gray; they are RGB otherwise.
        gray: bool,
    },
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dropped::NoPlace { format } => write!(f, "{format} files hold none"),
            Dropped::OtherColours { profile, gray } => {
                write!(f, "it is for {profile}, and the result is {}", if *gray { "gray" } else { "RGB" })
            }
        }
    }
}
