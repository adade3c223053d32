//! WAV files: chunks in any order, samples of every kind, read block by block.

use std::io::Cursor;

use dala_recipes::Wav;

use crate::{Progress, Random, Target};

pub(super) struct Recording;

/// A chunk as it is written.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    told(name, content.len() as u32, content)
}

/// A chunk whose length is told wrongly at times.
fn odd_chunk(name: &[u8; 4], content: &[u8], random: &mut Random) -> Vec<u8> {
    match random.chance(5) {
        true => told(name, random.number() as u32, content),
        false => chunk(name, content),
    }
}

fn told(name: &[u8; 4], told: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = [&name[..], &told.to_le_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes
}

/// What the chunk `fmt ` holds.
fn layout(format: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let frame = channels.wrapping_mul(bits / 8);
    let mut bytes = [format.to_le_bytes(), channels.to_le_bytes()].concat();
    bytes.extend(rate.to_le_bytes());
    bytes.extend(rate.wrapping_mul(u32::from(frame)).to_le_bytes());
    bytes.extend([frame.to_le_bytes(), bits.to_le_bytes()].concat());
    bytes
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = chunks.concat();
    [b"RIFF".as_slice(), &(body.len() as u32).wrapping_add(4).to_le_bytes(), b"WAVE", &body].concat()
}

impl Target for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["opened", "read"]
    }

    fn short(&self) -> usize {
        400_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let kinds = [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)];
        let file_of = |(format, bits): (u16, u16)| {
            let samples = vec![0x40; 6 * usize::from(bits / 8)];
            file(&[chunk(b"fmt ", &layout(format, 2, 16_000, bits)), chunk(b"data", &samples)])
        };
        kinds.map(file_of).to_vec()
    }

    fn words(&self) -> Vec<&'static str> {
        vec!["RIFF", "WAVE", "fmt ", "data", "LIST", "fact", "\u{1}\0", "\u{3}\0", "\0\0"]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let (format, bits) = random.pick(&[(1u16, 8u16), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64), (0xFFFE, 16)]);
        let channels = if random.chance(90) { 1 + random.below(8) as u16 } else { random.number() as u16 };
        let rate = if random.chance(90) { 16_000 } else { random.number() as u32 };
        let mut head = layout(format, channels, rate, bits);
        if format == 0xFFFE {
            // The extensible format says at its end which one it is.
            head.extend([22, 0, bits as u8, 0, 3, 0, 0, 0, random.below(4) as u8, 0]);
            head.extend([0; 14]);
        }
        let frame = usize::from(channels.min(64)) * usize::from(bits / 8);
        let odd = usize::from(random.chance(5));
        let samples: Vec<u8> = (0..frame * random.below(40) + odd).map(|_| random.bits() as u8).collect();
        let mut chunks = vec![odd_chunk(b"fmt ", &head, random), odd_chunk(b"data", &samples, random)];
        for _ in 0..random.below(4) {
            let name = random.pick(&[b"LIST", b"fact", b"fmt ", b"data", b"\0\0\0\0"]);
            let content = vec![7; random.below(30)];
            let other = odd_chunk(name, &content, random);
            chunks.insert(random.below(chunks.len() + 1), other);
        }
        Some(file(&chunks))
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let mut wav = match Wav::open(Cursor::new(input)) {
            Ok(wav) => wav,
            Err(error) => return progress.note(error.code()),
        };
        progress.past("opened");
        let mut samples = 0;
        loop {
            match wav.next_block() {
                Ok(Some(block)) => samples += block.len() as u64,
                Ok(None) => break,
                Err(error) => return progress.note(error.code()),
            }
        }
        assert_eq!(samples, wav.samples(), "other samples than it says");
        progress.past("read");
        progress.note((wav.channels(), samples.min(4)));
    }
}
