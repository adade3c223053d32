//! Pictures in and out of files: one home for reading, writing, layout and levels.
//!
//! [`decode`] reads JPEG, PNG, WebP, TIFF, BMP, PNM and NumPy's `.npy`; [`RawLayout::decode`] reads elements without a header.
//! [`Picture::encode`] writes all of them. Nothing here knows a device: a picture is bytes, a size and 1, 3 or 4 channels.
//!
//! What others may rely on:
//! - A file that is cut off or damaged is an error, never a picture with a gray rest.
//! - A file cannot take more memory than [`Limits`] say, however large it claims to be.
//! - Photos are turned as their camera says; of an animation the first picture is read.
//! - A colour profile is kept where the format and the colours allow it, and [`Encoded::dropped`] says where not.
//! - [`level`] is the one definition of how a float becomes a level of 8 bits.
//!
//! JPEG is decoded by `zune-jpeg` and encoded here; the other formats go through `image`, of which only these codecs are
//! built. Every call works on its own data and may be made from any thread.
//!
//! ```
//! use dala_image::{Format, Limits, Picture, Samples, decode};
//!
//! # fn main() -> Result<(), dala_image::ImageError> {
//! let picture = Picture::new(1, 2, 3, Samples::U8(vec![255, 0, 0, 0, 0, 255]))?;
//! let file = picture.encode(Format::Png)?.bytes;
//! assert_eq!(decode(&file, &Limits::default())?, picture);
//! # Ok(())
//! # }
//! ```

mod decode;
mod encode;
mod error;
mod files;
mod format;
mod levels;
mod limits;
mod npy;
mod picture;
mod profile;
mod raw;
mod samples;
#[cfg(test)]
mod testing;

pub use decode::{decode, read_bytes};
pub use encode::{Encoded, png};
pub use error::ImageError;
pub use format::Format;
pub use levels::{level, level_of_16, levels, levels_of_bytes, rgba};
pub use limits::Limits;
pub use picture::Picture;
pub use profile::{Dropped, Profile};
pub use raw::RawLayout;
pub use samples::{SampleKind, Samples};
