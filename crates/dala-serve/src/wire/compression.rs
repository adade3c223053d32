//! Bodies that come or go compressed. What comes out of one is bounded before it is made.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::Refusal;

/// How a body is compressed. Both protocols know these two, by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, which HTTP and gRPC call deflate.
    Deflate,
}

impl Encoding {
    /// What both are called in headers that list what is understood.
    pub const NAMES: &'static str = "gzip, deflate";

    /// As headers spell it.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
        }
    }

    /// What a header names; nothing for a body that is as it is.
    ///
    /// # Errors
    ///
    /// `UnsupportedMedia`.
    pub fn by_name(name: &str) -> Result<Option<Encoding>, Refusal> {
        match name.trim() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Encoding::Gzip)),
            "deflate" => Ok(Some(Encoding::Deflate)),
            other => Err(Refusal::UnsupportedMedia(format!("`{other}` is none of {}", Encoding::NAMES))),
        }
    }

    /// What was compressed.
    ///
    /// # Errors
    ///
    /// `TooLarge` as soon as there is more than is taken, `BadInput` for what is damaged.
    pub fn decompress(self, body: &[u8], limit_bytes: usize) -> Result<Bytes, Refusal> {
        let most = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
        let mut out = Vec::new();
        let read = match self {
            Encoding::Gzip => GzDecoder::new(body).take(most).read_to_end(&mut out),
            Encoding::Deflate => ZlibDecoder::new(body).take(most).read_to_end(&mut out),
        };
        if out.len() > limit_bytes {
            return Err(Refusal::TooLarge { limit_bytes });
        }
        match read {
            Ok(_) => Ok(out.into()),
            Err(error) => Err(Refusal::BadInput(format!("the {} body is damaged: {error}", self.name()))),
        }
    }

    /// The parts, one after the other, compressed. Quickly rather than well: tensors are not texts.
    ///
    /// # Errors
    ///
    /// `Internal`: memory takes everything that is written to it.
    pub fn compress(self, parts: &[Bytes]) -> Result<Bytes, Refusal> {
        let all = |out: &mut dyn Write| parts.iter().try_for_each(|part| out.write_all(part));
        let written = match self {
            Encoding::Gzip => {
                let mut out = GzEncoder::new(Vec::new(), Compression::fast());
                all(&mut out).and_then(|()| out.finish())
            }
            Encoding::Deflate => {
                let mut out = ZlibEncoder::new(Vec::new(), Compression::fast());
                all(&mut out).and_then(|()| out.finish())
            }
        };
        written.map(Bytes::from).map_err(|error| Refusal::Internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let parts = [Bytes::from_static(b"some text, "), Bytes::from(vec![7; 100_000])];
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let small = encoding.compress(&parts).unwrap();
            assert!(small.len() < 1000);
            assert_eq!(encoding.decompress(&small, 1 << 20).unwrap(), parts.concat());
            assert_eq!(Encoding::by_name(encoding.name()), Ok(Some(encoding)));
            for cut in 0..small.len() {
                let refusal = encoding.decompress(&small[..cut], 1 << 20).unwrap_err();
                assert!(matches!(refusal, Refusal::BadInput(_)), "cut at {cut}: {refusal}");
            }
        }
    }

    #[test]
    fn bombs_are_cut_off() {
        let bomb = Encoding::Gzip.compress(&[Bytes::from(vec![0; 64 << 20])]).unwrap();
        assert!(bomb.len() < 1 << 19);
        assert_eq!(Encoding::Gzip.decompress(&bomb, 1 << 20), Err(Refusal::TooLarge { limit_bytes: 1 << 20 }));
    }
}
