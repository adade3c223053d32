//! Portable maps, in their binary forms: PGM for gray, PPM for RGB, PAM for RGBA.

use crate::{Picture, Samples};

pub(super) fn encode(picture: &Picture) -> Vec<u8> {
    let Picture { height, width, channels, samples, .. } = picture;
    let most = if matches!(samples, Samples::U16(_)) { 65535 } else { 255 };
    let header = match channels {
        1 => format!("P5\n{width} {height}\n{most}\n"),
        3 => format!("P6\n{width} {height}\n{most}\n"),
        _ => format!("P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH 4\nMAXVAL {most}\nTUPLTYPE RGB_ALPHA\nENDHDR\n"),
    };
    let mut bytes = header.into_bytes();
    match samples {
        Samples::U16(samples) => bytes.extend(samples.iter().flat_map(|sample| sample.to_be_bytes())),
        other => bytes.extend_from_slice(&other.levels()),
    }
    bytes
}
