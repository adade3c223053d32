//! Whether a file goes on to its end. Decoders stop at the last pixel, or make up what is missing.

use crate::{Format, ImageError};

/// Refuses a file that is cut off, as far as its parts and their lengths tell. Files of the other formats have no end that
/// could be missed: their decoders find out.
pub(super) fn check(format: Format, bytes: &[u8]) -> Result<(), ImageError> {
    match format {
        Format::Jpeg if !jpeg_ends(bytes) => Err(ImageError::Truncated { format }),
        Format::Png if !png_ends(bytes) => Err(ImageError::Truncated { format }),
        Format::WebP => webp_ends(bytes),
        _ => Ok(()),
    }
}

/// Whether there is an end marker that belongs to the picture: not one of a thumbnail, nor one by chance in a table.
fn jpeg_ends(bytes: &[u8]) -> bool {
    let mut at = 2;
    loop {
        // Between segments there may be bytes that nobody needs; among pixels, 255 is followed by 0 or a restart.
        let Some(marker) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0xff)) else {
            return false;
        };
        at += marker + 1;
        match bytes.get(at) {
            None => return false,
            Some(0xd9) => return true,
            Some(0xff) => {}
            Some(0x00 | 0x01 | 0xd0..=0xd8) => at += 1,
            Some(_) => match bytes.get(at + 1..at + 3) {
                Some(&[high, low]) => at += 1 + usize::from(u16::from_be_bytes([high, low])).max(2),
                _ => return false,
            },
        }
    }
}

/// The parts of a PNG file after its signature: a length, four letters, as many bytes, and a checksum.
fn png_ends(bytes: &[u8]) -> bool {
    let mut at = 8;
    while let Some(&[a, b, c, d, ref name @ ..]) = bytes.get(at..at + 8) {
        let len = u32::from_be_bytes([a, b, c, d]);
        if len > i32::MAX as u32 {
            // No such length is allowed: the decoder says what is wrong.
            return true;
        }
        at += 12 + len as usize;
        if name == b"IEND" {
            return at <= bytes.len();
        }
    }
    false
}

/// Width and height of a PNG file, which its first part has.
pub(super) fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match *bytes.get(16..24)? {
        [a, b, c, d, e, f, g, h] => Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))),
        _ => None,
    }
}

/// The parts of a WebP file. Their lengths are checked here, because the decoder takes memory for what they say.
fn webp_ends(bytes: &[u8]) -> Result<(), ImageError> {
    let format = Format::WebP;
    let cut = ImageError::Truncated { format };
    let Some(&[a, b, c, d]) = bytes.get(4..8) else { return Err(cut) };
    let end = (u32::from_le_bytes([a, b, c, d]) as usize).saturating_add(8);
    match bytes.get(12..end) {
        Some(parts) if riff_parts_fit(parts, true) => Ok(()),
        Some(_) => Err(ImageError::Malformed { format, reason: "a part is longer than the file".to_owned() }),
        None => Err(cut),
    }
}

/// Four letters, a length and as many bytes, padded to an even number; the pictures of an animation have parts themselves.
fn riff_parts_fit(mut bytes: &[u8], outside: bool) -> bool {
    while let [name @ .., a, b, c, d] = bytes.get(..8).unwrap_or_default() {
        let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let Some(content) = bytes.get(8..).and_then(|rest| rest.get(..len)) else { return false };
        if outside && name == b"ANMF" && !riff_parts_fit(content.get(16..).unwrap_or_default(), false) {
            return false;
        }
        bytes = bytes.get(8 + len + len % 2..).unwrap_or_default();
    }
    true
}
