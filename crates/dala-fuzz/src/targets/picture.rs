//! Picture files of every format, decoded within limits.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageEncoder, ImageFormat, Rgb, RgbImage, RgbaImage};

use dala_image::{Format, Limits, Samples, decode};

use crate::{Progress, Random, Target};

/// What callers allow.
const MAX_PIXELS: u64 = 1 << 20;

pub(super) struct PictureFile;

/// Where the checksum of each part of a PNG file is, and what it is of.
fn parts(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let mut at = 8;
    while let Some(len) = bytes.get(at..at + 4).and_then(|len| <[u8; 4]>::try_from(len).ok()) {
        let len = u32::from_be_bytes(len) as usize;
        let end = at + 8 + len;
        if end + 4 > bytes.len() {
            break;
        }
        parts.push(at + 4..end);
        at = end + 4;
    }
    parts
}

/// The checksum that PNG has behind each part.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// A PNG file of any kind there is, not compressed, so that what is in it is known.
fn png(random: &mut Random) -> Vec<u8> {
    let (colour, depth) =
        random.pick(&[(0u8, 1u8), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 4), (3, 8)]);
    let (colour, depth) =
        if random.chance(20) { random.pick(&[(4, 8), (4, 16), (6, 8), (6, 16), (5, 3)]) } else { (colour, depth) };
    let (width, height) = match random.chance(90) {
        true => (1 + random.below(12) as u32, 1 + random.below(12) as u32),
        false => (random.number() as u32, random.pick(&[0, 1, 65_535, 1 << 20, u32::MAX])),
    };
    let interlaced = u8::from(random.chance(15));
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut part = |name: &[u8; 4], content: &[u8]| {
        file.extend_from_slice(&(content.len() as u32).to_be_bytes());
        let named = [&name[..], content].concat();
        file.extend_from_slice(&named);
        file.extend_from_slice(&checksum(&named).to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    part(b"IHDR", &[&size[..], &[depth, colour, 0, 0, interlaced]].concat());
    let noise = |len: usize, random: &mut Random| -> Vec<u8> { (0..len).map(|_| random.bits() as u8).collect() };
    if colour == 3 || random.chance(5) {
        let colours = random.below(257);
        part(b"PLTE", &noise(3 * colours, random));
    }
    if random.chance(30) {
        let name = random.pick(&[b"tRNS", b"gAMA", b"eXIf", b"iCCP", b"acTL", b"zTXt", b"sRGB", b"cHRM"]);
        let len = random.pick(&[0, 1, 2, 4, 6, 8, 26, 300]);
        part(name, &noise(len, random));
    }
    let samples = match colour {
        2 => 3,
        4 => 2,
        6 => 4,
        _ => 1,
    };
    // Of a file that says it is enormous there is a little.
    let row = 1 + (width.min(4096) as usize * samples * usize::from(depth)).div_ceil(8);
    let rows = height.min(16) as usize + if interlaced == 1 { 16 } else { 0 };
    let mut data = noise(row * rows, random);
    // Each row begins with how it differs from the one above; there are five ways.
    let ways = if random.chance(3) { 256 } else { 5 };
    data.chunks_mut(row).for_each(|row| row[0] = random.below(ways) as u8);
    part(b"IDAT", &stored(&data[..data.len().min(60_000)]));
    part(b"IEND", &[]);
    file
}

/// Data as zlib holds it without compressing it.
fn stored(data: &[u8]) -> Vec<u8> {
    let len = data.len() as u16;
    let (low, high) = data.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    let mut bytes = vec![0x78, 0x01, 0x01];
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&(!len).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(&(high << 16 | low).to_be_bytes());
    bytes
}

/// A JPEG file, with an orientation at times, and a few bytes of its picture changed.
fn jpeg(random: &mut Random) -> Option<Vec<u8>> {
    let (width, height) = (1 + random.below(40) as u32, 1 + random.below(40) as u32);
    let seed = random.bits() as u32;
    let level = |x: u32, y: u32| (x.wrapping_mul(seed) >> 7 ^ y.wrapping_mul(31)) as u8;
    let picture = match random.chance(30) {
        true => DynamicImage::from(GrayImage::from_fn(width, height, |x, y| [level(x, y)].into())),
        false => DynamicImage::from(RgbImage::from_fn(width, height, |x, y| Rgb([level(x, y), level(y, x), 9]))),
    };
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 1 + random.below(100) as u8);
    if random.chance(40) {
        let mut exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
        let at = random.below(exif.len());
        exif[at] = random.bits() as u8;
        // What a decoder refuses is tried without it.
        let _ = encoder.set_exif_metadata(exif);
    }
    encoder.encode_image(&picture).ok()?;
    for _ in 0..random.below(4) {
        let at = bytes.len() - 1 - random.below(bytes.len().min(200));
        bytes[at] = random.bits() as u8;
    }
    Some(bytes)
}

impl Target for PictureFile {
    fn name(&self) -> &'static str {
        "picture"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["known", "decoded"]
    }

    fn short(&self) -> usize {
        250_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let level = |x: u32, y: u32| (x * 31 + y * 17) as u8;
        let gray = DynamicImage::from(GrayImage::from_fn(7, 5, |x, y| [level(x, y)].into()));
        let colour = DynamicImage::from(RgbImage::from_fn(19, 9, |x, y| Rgb([level(x, y), level(y, x), 7])));
        let clear = DynamicImage::from(RgbaImage::from_fn(5, 8, |x, y| [level(x, y), 1, 2, level(y, x)].into()));
        let deep = DynamicImage::from(colour.to_rgb16());
        let mut seeds = Vec::new();
        for picture in [&gray, &colour, &clear, &deep] {
            let mut bytes = Vec::new();
            if picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).is_ok() {
                seeds.push(bytes);
            }
        }
        for picture in [&gray, &colour] {
            let mut bytes = Vec::new();
            if JpegEncoder::new_with_quality(&mut bytes, 80).encode_image(picture).is_ok() {
                seeds.push(bytes);
            }
        }
        for format in [Format::WebP, Format::Tiff, Format::Bmp, Format::Pnm, Format::Npy] {
            for (channels, samples) in [(1, Samples::U8((0..35).collect())), (3, Samples::U8((0..105).collect()))] {
                let picture = dala_image::Picture::new(7, 5, channels, samples);
                seeds.extend(picture.and_then(|picture| picture.encode(format)).map(|file| file.bytes));
            }
        }
        seeds.push(include_bytes!("../../../dala-model/tests/data/cat_chelsea.jpg").to_vec());
        seeds
    }

    fn words(&self) -> Vec<&'static str> {
        vec![
            "IHDR", "IDAT", "IEND", "PLTE", "tRNS", "iCCP", "eXIf", "acTL", "fcTL", "fdAT", "gAMA", "zTXt", "JFIF",
            "Exif\0\0", "II*\0", "MM\0*",
        ]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        if random.chance(25) {
            return jpeg(random);
        }
        Some(png(random))
    }

    fn mend(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        if !bytes.starts_with(b"\x89PNG") || random.chance(20) {
            return;
        }
        for part in parts(bytes) {
            let sum = checksum(&bytes[part.clone()]);
            bytes[part.end..part.end + 4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        if Format::of_bytes(input).is_some() {
            progress.past("known");
        }
        match decode(input, &Limits::pixels(MAX_PIXELS)) {
            Ok(picture) => {
                let (height, width, channels) = (picture.height, picture.width, picture.channels);
                assert!([1, 3, 4].contains(&channels), "{channels} channels");
                assert_eq!(picture.samples.len(), height * width * channels, "pixels are missing");
                assert!((height * width) as u64 <= MAX_PIXELS, "more than allowed");
                progress.note((channels, height.max(1).ilog2(), width.max(1).ilog2()));
                progress.past("decoded");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() < 4000, "a long message");
                progress.note(error.code());
                progress.note_message(&message);
            }
        }
    }
}
