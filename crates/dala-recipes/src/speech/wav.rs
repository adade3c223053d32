//! Recordings from WAV files, block by block, whatever their length: PCM of 8 to 32 bits and floats, channels mixed to one.

use std::io::{self, Read, Seek, SeekFrom};

/// Chunks that a file may have: there are few in files that were not made to be slow.
const MAX_CHUNKS: usize = 1000;
const MAX_CHANNELS: u16 = 64;
/// Frames that are read at a time.
const BLOCK: usize = 8192;
/// The length that is written when it is not known yet: the chunk goes on to the end of the file.
const UNKNOWN_LENGTH: u32 = u32::MAX;

/// Why a WAV file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WavError {
    /// It is something else.
    #[error("it is no WAV file: it does not start with RIFF and WAVE")]
    NotWav,
    /// A chunk is longer than what is left of the file.
    #[error("it is cut off: the chunk `{chunk}` has {length} bytes, and {left} are left")]
    CutOff {
        /// The chunk's name.
        chunk: String,
        /// What it says of itself.
        length: u64,
        /// What there is.
        left: u64,
    },
    /// A chunk that has to be there is not.
    #[error("it has no chunk `{0}`")]
    Missing(&'static str),
    /// A chunk that may be there once is there twice.
    #[error("it has two chunks `{0}`")]
    Repeated(&'static str),
    /// More chunks than files have.
    #[error("it has more than {MAX_CHUNKS} chunks")]
    TooManyChunks,
    /// Samples of a kind that is not read.
    #[error(
        "its samples are of format {format} with {bits} bits, and PCM of 8, 16, 24 or 32 bits and floats of 32 or 64 are read"
    )]
    Format {
        /// The number of the format: 1 is PCM, 3 floats.
        format: u16,
        /// Bits of a sample.
        bits: u16,
    },
    /// What the file says of its samples cannot be.
    #[error("its format says {what}")]
    BadFormat {
        /// The field and its value.
        what: String,
    },
    /// The samples do not come out even.
    #[error("its samples end in the middle of one: {length} bytes, and {frame} for each moment")]
    Ragged {
        /// Bytes of all samples.
        length: u64,
        /// Bytes of the samples of all channels at one moment.
        frame: u64,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl WavError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            WavError::NotWav => "not_wav",
            WavError::CutOff { .. } => "wav_cut_off",
            WavError::Missing(_) => "wav_chunk_missing",
            WavError::Repeated(_) => "wav_chunk_repeated",
            WavError::TooManyChunks => "wav_too_many_chunks",
            WavError::Format { .. } => "wav_format",
            WavError::BadFormat { .. } => "wav_bad_format",
            WavError::Ragged { .. } => "wav_ragged",
            WavError::Io(_) => "io",
        }
    }
}

/// How a sample is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// From 0 to 255, and 128 is silence: the oldest format.
    U8,
    S16,
    S24,
    S32,
    F32,
    F64,
}

impl Encoding {
    fn of(format: u16, bits: u16) -> Option<Encoding> {
        Some(match (format, bits) {
            (1, 8) => Encoding::U8,
            (1, 16) => Encoding::S16,
            (1, 24) => Encoding::S24,
            (1, 32) => Encoding::S32,
            (3, 32) => Encoding::F32,
            (3, 64) => Encoding::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Encoding::U8 => 1,
            Encoding::S16 => 2,
            Encoding::S24 => 3,
            Encoding::S32 | Encoding::F32 => 4,
            Encoding::F64 => 8,
        }
    }

    /// One sample, from -1 to 1 if it is an integer.
    fn decode(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Encoding::U8, &[a]) => (f32::from(a) - 128.0) / 128.0,
            (Encoding::S16, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32768.0,
            // The upper three bytes of four, so that the sign is where it belongs.
            (Encoding::S24, &[a, b, c]) => (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 / 8_388_608.0,
            (Encoding::S32, &[a, b, c, d]) => (f64::from(i32::from_le_bytes([a, b, c, d])) / 2_147_483_648.0) as f32,
            (Encoding::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Encoding::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
            _ => 0.0,
        }
    }
}

/// What the chunk `fmt ` says.
#[derive(Clone, Copy, Debug)]
struct Layout {
    encoding: Encoding,
    channels: u16,
    rate: u32,
}

impl Layout {
    fn frame_bytes(self) -> usize {
        self.encoding.bytes() * usize::from(self.channels)
    }

    fn read(chunk: &[u8]) -> Result<Layout, WavError> {
        let half = |at: usize| match chunk.get(at..at + 2) {
            Some(&[a, b]) => Ok(u16::from_le_bytes([a, b])),
            _ => Err(WavError::BadFormat { what: format!("too little, in {} bytes", chunk.len()) }),
        };
        let (channels, frame, bits) = (half(2)?, half(12)?, half(14)?);
        let rate = u32::from(half(4)?) | u32::from(half(6)?) << 16;
        // The extensible format has the real one at the start of a longer name.
        let format = match half(0)? {
            0xFFFE => half(24)?,
            plain => plain,
        };
        let encoding = Encoding::of(format, bits).ok_or(WavError::Format { format, bits })?;
        let layout = Layout { encoding, channels, rate };
        let bad = |what: String| Err(WavError::BadFormat { what });
        match () {
            () if channels == 0 || channels > MAX_CHANNELS => bad(format!("{channels} channels")),
            () if rate == 0 => bad("no samples in a second".to_owned()),
            () if usize::from(frame) != layout.frame_bytes() => {
                bad(format!("{frame} bytes for {channels} channels of {bits} bits"))
            }
            () => Ok(layout),
        }
    }
}

/// A WAV file that is read from its beginning to its end.
#[derive(Debug)]
pub struct Wav<R> {
    reader: R,
    layout: Layout,
    /// Moments in all, and how many of them are still to be read.
    frames: u64,
    left: u64,
}

impl<R: Read + Seek> Wav<R> {
    /// Finds format and samples, in whatever order the file has its chunks.
    ///
    /// # Errors
    /// A [`WavError`] for whatever is wrong with the file; samples themselves are not looked at yet.
    pub fn open(mut reader: R) -> Result<Wav<R>, WavError> {
        let end = reader.seek(SeekFrom::End(0))?;
        reader.rewind()?;
        let mut head = [0; 12];
        read_all(&mut reader, &mut head, WavError::NotWav)?;
        if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
            return Err(WavError::NotWav);
        }
        let (mut layout, mut data) = (None, None);
        let mut at = head.len() as u64;
        let mut chunks = 0;
        // A single byte at the end is what pads the last chunk.
        while end - at.min(end) > 1 {
            chunks += 1;
            if chunks > MAX_CHUNKS {
                return Err(WavError::TooManyChunks);
            }
            reader.seek(SeekFrom::Start(at))?;
            let left = end - at;
            let mut chunk = [0; 8];
            read_all(&mut reader, &mut chunk, WavError::CutOff { chunk: String::new(), length: 8, left })?;
            let [a, b, c, d, length @ ..] = chunk;
            let (name, length) = ([a, b, c, d], u32::from_le_bytes(length));
            let left = left - 8;
            let length = match &name == b"data" && length == UNKNOWN_LENGTH {
                true => left,
                false => u64::from(length),
            };
            if length > left {
                return Err(WavError::CutOff { chunk: name.escape_ascii().to_string(), length, left });
            }
            match &name {
                b"fmt " if layout.is_some() => return Err(WavError::Repeated("fmt ")),
                b"fmt " => {
                    // What is known of the format is in the first bytes.
                    let mut bytes = vec![0; length.min(40) as usize];
                    reader.read_exact(&mut bytes)?;
                    layout = Some(Layout::read(&bytes)?);
                }
                b"data" if data.is_some() => return Err(WavError::Repeated("data")),
                b"data" => data = Some((at + 8, length)),
                _ => {}
            }
            at += 8 + length + length % 2;
        }
        let layout = layout.ok_or(WavError::Missing("fmt "))?;
        let (start, length) = data.ok_or(WavError::Missing("data"))?;
        let frame = layout.frame_bytes() as u64;
        if length % frame != 0 {
            return Err(WavError::Ragged { length, frame });
        }
        reader.seek(SeekFrom::Start(start))?;
        let frames = length / frame;
        Ok(Wav { reader, layout, frames, left: frames })
    }

    /// How many samples a second has.
    pub fn rate(&self) -> u32 {
        self.layout.rate
    }

    /// How many channels are mixed to one.
    pub fn channels(&self) -> u16 {
        self.layout.channels
    }

    /// How many samples there are in all, of each channel.
    pub fn samples(&self) -> u64 {
        self.frames
    }

    /// The next samples, with the mean of all channels; none at the end.
    ///
    /// # Errors
    /// [`WavError::Io`] if the file cannot be read.
    pub fn next_block(&mut self) -> Result<Option<Vec<f32>>, WavError> {
        let frames = self.left.min(BLOCK as u64);
        if frames == 0 {
            return Ok(None);
        }
        let Layout { encoding, channels, .. } = self.layout;
        let mut bytes = vec![0; frames as usize * self.layout.frame_bytes()];
        self.reader.read_exact(&mut bytes)?;
        self.left -= frames;
        let mixed = |frame: &[u8]| {
            let sum: f32 = frame.chunks_exact(encoding.bytes()).map(|sample| encoding.decode(sample)).sum();
            sum / f32::from(channels)
        };
        Ok(Some(bytes.chunks_exact(self.layout.frame_bytes()).map(mixed).collect()))
    }
}

/// Fills `bytes`; where the file ends before, it is damaged in this way.
fn read_all(reader: &mut impl Read, bytes: &mut [u8], cut: WavError) -> Result<(), WavError> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut,
        _ => WavError::Io(error),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn chunk(name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut chunk = [name.as_bytes(), &(bytes.len() as u32).to_le_bytes(), bytes].concat();
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        chunk
    }

    fn format(format: u16, channels: u16, bits: u16) -> Vec<u8> {
        let frame = channels * bits / 8;
        let mut bytes = [format.to_le_bytes(), channels.to_le_bytes()].concat();
        bytes.extend(8000u32.to_le_bytes());
        bytes.extend((8000 * u32::from(frame)).to_le_bytes());
        bytes.extend([frame.to_le_bytes(), bits.to_le_bytes()].concat());
        chunk("fmt ", &bytes)
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        let body = chunks.concat();
        [b"RIFF".as_slice(), &(body.len() as u32 + 4).to_le_bytes(), b"WAVE", &body].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<f32>, WavError> {
        let mut wav = Wav::open(Cursor::new(bytes))?;
        let mut samples = Vec::new();
        while let Some(block) = wav.next_block()? {
            samples.extend(block);
        }
        assert_eq!(samples.len() as u64, wav.samples());
        Ok(samples)
    }

    #[test]
    fn samples_of_every_kind_are_read() {
        for (code, bits, bytes, expected) in [
            (1, 8, vec![0, 128, 192, 255], vec![-1.0, 0.0, 0.5, 127.0 / 128.0]),
            (1, 16, vec![0, 0x80, 0, 0x40], vec![-1.0, 0.5]),
            (1, 24, vec![0, 0, 0x80, 0, 0, 0x40, 1, 0, 0], vec![-1.0, 0.5, 1.0 / 8_388_608.0]),
            (1, 32, vec![0, 0, 0, 0x80, 0, 0, 0, 0x40], vec![-1.0, 0.5]),
            (3, 32, (-0.75f32).to_le_bytes().to_vec(), vec![-0.75]),
            (3, 64, 0.625f64.to_le_bytes().to_vec(), vec![0.625]),
        ] {
            let file = file(&[format(code, 1, bits), chunk("data", &bytes)]);
            assert_eq!(read(&file).unwrap(), expected, "{bits} bits");
        }
    }

    #[test]
    fn channels_are_mixed_and_chunks_come_in_any_order() {
        let data = chunk("data", &[0, 0x40, 0, 0xC0, 0, 0x40, 0, 0x20]);
        let other = chunk("LIST", b"odd");
        for chunks in [
            vec![format(1, 2, 16), data.clone()],
            vec![data.clone(), format(1, 2, 16)],
            vec![other.clone(), format(1, 2, 16), other.clone(), data.clone(), other.clone()],
        ] {
            assert_eq!(read(&file(&chunks)).unwrap(), [0.0, 0.375]);
        }
        // The extensible format, and a length that was not known.
        let mut long = format(0xFFFE, 1, 8)[8..].to_vec();
        long.extend([22, 0, 8, 0, 0, 0, 0, 0, 1, 0]);
        long.extend([0; 14]);
        let mut open = file(&[chunk("fmt ", &long), b"data\xFF\xFF\xFF\xFF\x80\xC0".to_vec()]);
        assert_eq!(read(&open).unwrap(), [0.0, 0.5]);
        open.truncate(open.len() - 2);
        assert_eq!(read(&open).unwrap(), Vec::<f32>::new());
    }

    #[test]
    fn long_files_come_in_blocks() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 5).map(|place| place as u8).collect();
        let samples = read(&file(&[format(1, 1, 8), chunk("data", &bytes)])).unwrap();
        assert!(samples.iter().zip(&bytes).all(|(sample, byte)| *sample == (f32::from(*byte) - 128.0) / 128.0));
    }

    #[test]
    fn damage_has_a_name() {
        let (plain, data) = (format(1, 1, 16), chunk("data", &[1, 2, 3, 4]));
        let wrong_frame = {
            let mut chunk = plain.clone();
            chunk[8 + 12] = 3;
            chunk
        };
        let no_rate = {
            let mut chunk = plain.clone();
            chunk[8 + 4..8 + 8].fill(0);
            chunk
        };
        for (bytes, expected) in [
            (Vec::new(), "not_wav"),
            (b"RIFF\0\0\0\0AVI LIST".to_vec(), "not_wav"),
            (file(&[]), "wav_chunk_missing"),
            (file(std::slice::from_ref(&plain)), "wav_chunk_missing"),
            (file(std::slice::from_ref(&data)), "wav_chunk_missing"),
            (file(&[plain.clone(), plain.clone(), data.clone()]), "wav_chunk_repeated"),
            (file(&[plain.clone(), data.clone(), data.clone()]), "wav_chunk_repeated"),
            (file(&[plain.clone(), chunk("data", &[1, 2, 3])]), "wav_ragged"),
            (file(&[format(2, 1, 16), data.clone()]), "wav_format"),
            (file(&[format(1, 1, 12), data.clone()]), "wav_format"),
            (file(&[format(1, 0, 16), data.clone()]), "wav_bad_format"),
            (file(&[format(1, 65, 16), data.clone()]), "wav_bad_format"),
            (file(&[wrong_frame, data.clone()]), "wav_bad_format"),
            (file(&[no_rate, data.clone()]), "wav_bad_format"),
            (file(&[chunk("fmt ", &[1, 0]), data.clone()]), "wav_bad_format"),
            (file(&vec![chunk("LIST", b""); MAX_CHUNKS + 1]), "wav_too_many_chunks"),
        ] {
            assert_eq!(read(&bytes).unwrap_err().code(), expected);
        }
        // Cut anywhere, it is an error that says so.
        let whole = file(&[plain, data]);
        for length in 0..whole.len() {
            let error = read(&whole[..length]).unwrap_err();
            let expected = match length {
                ..12 => "not_wav",
                12 | 13 | 36 | 37 => "wav_chunk_missing",
                _ => "wav_cut_off",
            };
            assert_eq!(error.code(), expected, "{length} bytes: {error}");
        }
    }

    #[test]
    fn no_byte_of_a_header_does_harm() {
        let whole = file(&[format(1, 2, 16), chunk("LIST", b"odd"), chunk("data", &[7; 400])]);
        for place in 0..60 {
            for value in [0, 1, 2, 3, 32, 64, 127, 128, 254, 255] {
                let mut bytes = whole.clone();
                bytes[place] = value;
                // Whatever it is, it ends, with no more samples than there are bytes.
                if let Ok(samples) = read(&bytes) {
                    assert!(samples.len() <= bytes.len());
                }
            }
        }
    }
}
