//! Writes JPEG: baseline, with full colour resolution.
//!
//! Encoders of other crates take as long for a photo as decoding and filtering it together. This one transforms eight
//! columns at a time in a form that compilers turn into vector instructions, and skips coefficients that are zero.

use crate::picture::check;
use crate::{Format, ImageError, Profile};

/// Samples along each side of a block.
const SIDE: usize = 8;
const BLOCK: usize = SIDE * SIDE;

type Rows = [[f32; SIDE]; SIDE];

/// How coarse each frequency of brightness may be at quality 50, row by row (ITU-T T.81, table K.1).
const BRIGHTNESS: [u8; BLOCK] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51,
    87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
];

/// The same of colour (table K.2).
const COLOUR: [u8; BLOCK] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99,
];

/// The order in which coefficients are written, low frequencies first.
const ZIGZAG: [u8; BLOCK] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// Where the coefficient that is written at a place is found by column.
const fn by_column(place: usize) -> usize {
    let index = ZIGZAG[place] as usize;
    index % SIDE * SIDE + index / SIDE
}

/// The place at which each coefficient is written, by column.
const PLACES: [u8; BLOCK] = {
    let (mut places, mut place) = ([0; BLOCK], 0);
    while place < BLOCK {
        places[by_column(place)] = place as u8;
        place += 1;
    }
    places
};

/// Codes as the standard recommends them (tables K.3 to K.6): how many there are of each length, and what they mean.
struct CodeSpec {
    counts: [u8; 16],
    values: &'static [u8],
}

const MEANS: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

const BRIGHTNESS_MEAN: CodeSpec = CodeSpec { counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], values: MEANS };
const COLOUR_MEAN: CodeSpec = CodeSpec { counts: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], values: MEANS };

const BRIGHTNESS_REST: CodeSpec = CodeSpec {
    counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
    values: &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
        0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
        0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37,
        0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
        0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
        0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
        0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
        0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
        0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
};

const COLOUR_REST: CodeSpec = CodeSpec {
    counts: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
    values: &[
        0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
        0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
        0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36,
        0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
        0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
        0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
        0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
        0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
        0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
};

/// A run of sixteen zeros, and zeros up to the end.
const SIXTEEN_ZEROS: usize = 0xf0;
const ONLY_ZEROS: usize = 0;

/// What a segment holds of a profile, beside its name and number.
const PROFILE_PART: usize = 65519;

/// A picture as JPEG. Pixels are rows of 1 (gray), 3 (RGB) or 4 channels, of which the last is left out.
pub(super) fn encode(
    pixels: &[u8],
    width: usize,
    height: usize,
    channels: usize,
    quality: u8,
    profile: Option<&Profile>,
) -> Result<Vec<u8>, ImageError> {
    let (Ok(wide), Ok(high)) = (u16::try_from(width), u16::try_from(height)) else {
        return Err(ImageError::TooLargeToWrite { format: Format::Jpeg, height, width, most: u16::MAX.into() });
    };
    check(height, width, channels, pixels.len())?;
    let tables: Vec<Table> = match channels {
        1 => vec![Table::new(&BRIGHTNESS, quality, &BRIGHTNESS_MEAN, &BRIGHTNESS_REST)],
        _ => vec![
            Table::new(&BRIGHTNESS, quality, &BRIGHTNESS_MEAN, &BRIGHTNESS_REST),
            Table::new(&COLOUR, quality, &COLOUR_MEAN, &COLOUR_REST),
        ],
    };
    let planes = if channels == 1 { 1 } else { 3 };
    let mut bits = Bits { bytes: Vec::with_capacity(pixels.len() / 4 + 1024), waiting: 0, count: 0 };
    headers(&mut bits.bytes, (wide, high), planes, &tables, profile);

    let padded = width.next_multiple_of(SIDE);
    // Eight rows of each plane, as wide as blocks are.
    let mut strip = vec![vec![0f32; padded * SIDE]; planes];
    let mut last = [0i32; 3];
    for top in (0..height).step_by(SIDE) {
        for row in 0..SIDE {
            // Beyond its border a picture goes on as it ended.
            let from = (top + row).min(height - 1) * width * channels;
            split_row(&pixels[from..from + width * channels], channels, &mut strip, row * padded..(row + 1) * padded);
        }
        for left in (0..padded).step_by(SIDE) {
            for (plane, samples) in strip.iter().enumerate() {
                let table = &tables[plane.min(1)];
                let mut rows: Rows = [[0.0; SIDE]; SIDE];
                for (row, into) in rows.iter_mut().enumerate() {
                    into.copy_from_slice(&samples[row * padded + left..row * padded + left + SIDE]);
                }
                let block = table.quantised(transformed(&rows));
                table.write(&block, &mut last[plane], &mut bits);
            }
        }
    }
    Ok(bits.finish())
}

/// A row of pixels as one row of each plane, around zero.
fn split_row(pixels: &[u8], channels: usize, strip: &mut [Vec<f32>], row: std::ops::Range<usize>) {
    match (channels, strip) {
        (1, [gray]) => {
            let gray = &mut gray[row];
            for (into, pixel) in gray.iter_mut().zip(pixels) {
                *into = f32::from(*pixel) - 128.0;
            }
            extend(gray, pixels.len());
        }
        (_, [y, b, r]) => {
            let (y, b, r) = (&mut y[row.clone()], &mut b[row.clone()], &mut r[row]);
            let samples = y.iter_mut().zip(b.iter_mut()).zip(r.iter_mut());
            for (((y, b), r), pixel) in samples.zip(pixels.chunks_exact(channels)) {
                let [red, green, blue] = [0, 1, 2].map(|channel| f32::from(pixel[channel]));
                *y = 0.299 * red + 0.587 * green + 0.114 * blue - 128.0;
                *b = -0.168_736 * red - 0.331_264 * green + 0.5 * blue;
                *r = 0.5 * red - 0.418_688 * green - 0.081_312 * blue;
            }
            let width = pixels.len() / channels;
            [y, b, r].into_iter().for_each(|samples| extend(samples, width));
        }
        _ => {}
    }
}

fn extend(samples: &mut [f32], width: usize) {
    let last = samples[width - 1];
    samples[width..].fill(last);
}

/// Its frequencies, by column and then by row, each too large by a factor that `Table` divides by (Arai, Agui, Nakajima).
fn transformed(rows: &Rows) -> Rows {
    transform(&transposed(&transform(rows)))
}

fn transposed(rows: &Rows) -> Rows {
    std::array::from_fn(|column| std::array::from_fn(|row| rows[row][column]))
}

/// All columns at once.
fn transform(d: &Rows) -> Rows {
    let mut out: Rows = [[0.0; SIDE]; SIDE];
    for x in 0..SIDE {
        let [s0, s1, s2, s3] = [d[0][x] + d[7][x], d[1][x] + d[6][x], d[2][x] + d[5][x], d[3][x] + d[4][x]];
        let [s7, s6, s5, s4] = [d[0][x] - d[7][x], d[1][x] - d[6][x], d[2][x] - d[5][x], d[3][x] - d[4][x]];
        let (t0, t3, t1, t2) = (s0 + s3, s0 - s3, s1 + s2, s1 - s2);
        let z1 = (t2 + t3) * std::f32::consts::FRAC_1_SQRT_2;
        (out[0][x], out[4][x], out[2][x], out[6][x]) = (t0 + t1, t0 - t1, t3 + z1, t3 - z1);
        let (t0, t1, t2) = (s4 + s5, s5 + s6, s6 + s7);
        let z5 = (t0 - t2) * 0.382_683_43;
        let (z2, z4, z3) = (0.541_196_1 * t0 + z5, 1.306_563 * t2 + z5, t1 * std::f32::consts::FRAC_1_SQRT_2);
        let (z11, z13) = (s7 + z3, s7 - z3);
        (out[5][x], out[3][x], out[1][x], out[7][x]) = (z13 + z2, z13 - z2, z11 + z4, z11 - z4);
    }
    out
}

/// What is needed to write one kind of plane.
struct Table {
    /// What a coefficient is divided by, in the order in which they are written.
    steps: [u8; BLOCK],
    /// What a transformed coefficient is multiplied with.
    factors: [[f32; SIDE]; SIDE],
    mean: CodeSpec,
    rest: CodeSpec,
    mean_codes: [(u32, u32); 256],
    rest_codes: [(u32, u32); 256],
}

impl Table {
    fn new(steps: &[u8; BLOCK], quality: u8, mean: &CodeSpec, rest: &CodeSpec) -> Table {
        // As libjpeg has it.
        let quality = u32::from(quality.clamp(1, 100));
        let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
        let step = |index: usize| ((u32::from(steps[index]) * scale + 50) / 100).clamp(1, 255) as u8;
        // A cosine transform's factors, by which the quick one is too large.
        let too_large = |frequency: usize| match frequency {
            0 => 1.0,
            _ => (frequency as f64 * std::f64::consts::PI / 16.0).cos() * std::f64::consts::SQRT_2,
        };
        let factor = |column: usize, row: usize| {
            let by = f64::from(step(row * SIDE + column)) * too_large(column) * too_large(row) * SIDE as f64;
            (1.0 / by) as f32
        };
        Table {
            steps: ZIGZAG.map(|index| step(index.into())),
            factors: std::array::from_fn(|column| std::array::from_fn(|row| factor(column, row))),
            mean: CodeSpec { ..*mean },
            rest: CodeSpec { ..*rest },
            mean_codes: mean.codes(),
            rest_codes: rest.codes(),
        }
    }

    /// Whole coefficients by column, and which of them are not zero, in the order in which they are written.
    fn quantised(&self, frequencies: Rows) -> ([i32; BLOCK], u64) {
        // Added to a small float, it leaves the nearest integer in the lowest bits: quicker than to ask for it.
        const ROUND: f32 = 12_582_912.0;
        // Times eight bytes that are 0 or 1, it leaves them as the eight highest bits.
        const GATHER: u64 = 0x0102_0408_1020_4080;
        let (mut whole, mut by_column) = ([0i32; BLOCK], 0u64);
        for (column, (frequencies, factors)) in frequencies.iter().zip(&self.factors).enumerate() {
            let mut is_some = [0u8; SIDE];
            for row in 0..SIDE {
                let rounded = (frequencies[row] * factors[row] + ROUND).to_bits();
                let value = rounded.wrapping_sub(ROUND.to_bits()) as i32;
                whole[column * SIDE + row] = value;
                is_some[row] = u8::from(value != 0);
            }
            by_column |= u64::from_le_bytes(is_some).wrapping_mul(GATHER) >> 56 << (column * SIDE);
        }
        // Most are zero: only the others are brought into order.
        let mut in_order = 0u64;
        while by_column != 0 {
            in_order |= 1 << PLACES[by_column.trailing_zeros() as usize];
            by_column &= by_column - 1;
        }
        (whole, in_order)
    }

    /// `last` is the mean of the block before, of which only the difference is written.
    fn write(&self, (block, in_order): &([i32; BLOCK], u64), last: &mut i32, bits: &mut Bits) {
        let difference = block[0] - *last;
        *last = block[0];
        let (size, rest) = magnitude(difference);
        let (code, len) = self.mean_codes[size as usize];
        bits.put(code << size | rest, len + size);

        let mut others = in_order & !1;
        let mut before = 0;
        while others != 0 {
            let place = others.trailing_zeros() as usize;
            others &= others - 1;
            let mut zeros = place - before - 1;
            before = place;
            while zeros >= 16 {
                let (code, len) = self.rest_codes[SIXTEEN_ZEROS];
                bits.put(code, len);
                zeros -= 16;
            }
            let (size, rest) = magnitude(block[by_column(place)]);
            let (code, len) = self.rest_codes[zeros << 4 | size as usize];
            bits.put(code << size | rest, len + size);
        }
        if before < BLOCK - 1 {
            let (code, len) = self.rest_codes[ONLY_ZEROS];
            bits.put(code, len);
        }
    }
}

/// How many bits a number needs, and those bits; of a negative one they are one less.
fn magnitude(value: i32) -> (u32, u32) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let bits = (value + (value >> 31)) as u32;
    (size, bits & ((1 << size) - 1))
}

impl CodeSpec {
    /// Each value's code and its length.
    fn codes(&self) -> [(u32, u32); 256] {
        let mut codes = [(0, 0); 256];
        let (mut code, mut values) = (0, self.values.iter());
        for (len, count) in (1..).zip(self.counts) {
            for value in values.by_ref().take(count.into()) {
                codes[usize::from(*value)] = (code, len);
                code += 1;
            }
            code <<= 1;
        }
        codes
    }
}

/// A stream of bits, the highest first.
struct Bits {
    bytes: Vec<u8>,
    /// The last `count` bits, fewer than 32 between calls.
    waiting: u64,
    count: u32,
}

impl Bits {
    /// Adds the lowest `count` bits, at most 32.
    fn put(&mut self, bits: u32, count: u32) {
        self.waiting = self.waiting << count | u64::from(bits);
        self.count += count;
        if self.count >= 32 {
            self.count -= 32;
            self.put_word((self.waiting >> self.count) as u32);
        }
    }

    fn put_word(&mut self, word: u32) {
        // A byte of ones is followed by a zero, so that it is no marker. Most words have none.
        let has_ones = (word & 0x8080_8080 & !word.wrapping_add(0x0101_0101)) != 0;
        if has_ones {
            word.to_be_bytes().into_iter().for_each(|byte| self.put_byte(byte));
        } else {
            self.bytes.extend_from_slice(&word.to_be_bytes());
        }
    }

    fn put_byte(&mut self, byte: u8) {
        self.bytes.push(byte);
        if byte == 0xff {
            self.bytes.push(0);
        }
    }

    /// Fills the last byte with ones and ends the picture.
    fn finish(mut self) -> Vec<u8> {
        self.put(0x7f, 7);
        while self.count >= 8 {
            self.count -= 8;
            self.put_byte((self.waiting >> self.count) as u8);
        }
        self.bytes.extend_from_slice(&[0xff, 0xd9]);
        self.bytes
    }
}

/// All that comes before the coefficients.
fn headers(
    bytes: &mut Vec<u8>,
    (width, height): (u16, u16),
    planes: usize,
    tables: &[Table],
    profile: Option<&Profile>,
) {
    let mut segment = |marker: u8, content: &[u8]| {
        bytes.extend_from_slice(&[0xff, marker]);
        bytes.extend_from_slice(&(content.len() as u16 + 2).to_be_bytes());
        bytes.extend_from_slice(content);
    };
    // The picture's start, which has no length of its own, is put before all of them.
    segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    let parts = profile.map_or(&[][..], Profile::bytes).chunks(PROFILE_PART);
    let count = parts.len() as u8;
    for (number, part) in (1u32..).zip(parts) {
        segment(0xe2, &[b"ICC_PROFILE\0", &[number as u8, count][..], part].concat());
    }
    for (number, table) in (0..).zip(tables) {
        segment(0xdb, &[&[number][..], &table.steps].concat());
        for (class, codes) in [(0x00, &table.mean), (0x10, &table.rest)] {
            segment(0xc4, &[&[class | number][..], &codes.counts, codes.values].concat());
        }
    }
    let table_of = |plane: u8| if plane == 0 { 0u8 } else { 1 };
    let (mut frame, mut scan) = (vec![8], vec![planes as u8]);
    frame.extend_from_slice(&height.to_be_bytes());
    frame.extend_from_slice(&width.to_be_bytes());
    frame.push(planes as u8);
    for plane in 0..planes as u8 {
        frame.extend_from_slice(&[plane + 1, 0x11, table_of(plane)]);
        scan.extend_from_slice(&[plane + 1, table_of(plane) * 0x11]);
    }
    scan.extend_from_slice(&[0, 63, 0]);
    segment(0xc0, &frame);
    segment(0xda, &scan);
    bytes.splice(0..0, [0xff, 0xd8]);
}

#[cfg(test)]
mod tests {
    use image::codecs::jpeg::JpegEncoder;
    use image::{ExtendedColorType, ImageFormat};

    use super::*;

    fn decoded(jpeg: &[u8]) -> Vec<u8> {
        image::load_from_memory_with_format(jpeg, ImageFormat::Jpeg).unwrap().into_bytes()
    }

    /// The mean of squares of what is lost.
    fn loss(before: &[u8], after: &[u8]) -> f64 {
        assert_eq!(before.len(), after.len());
        let squares = before.iter().zip(after).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
        squares.sum::<f64>() / before.len() as f64
    }

    /// Slopes, an edge and noise.
    fn picture(width: usize, height: usize, channels: usize, noise: usize) -> Vec<u8> {
        let mut state = 1u32;
        let sample = |index: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (x, y) = (index / channels % width, index / channels / width);
            let edge = if (x / 13 + y / 11) % 2 == 0 { 90 } else { 0 };
            let random = (state >> 20) as usize * noise / 4096;
            (20 + edge + (x * 40 / width) * (index % channels) + y * 30 / height + random).min(255) as u8
        };
        (0..width * height * channels).map(sample).collect()
    }

    #[test]
    fn pictures_are_as_good_and_as_small_as_those_of_the_image_crate() {
        for (channels, kind) in [(1, ExtendedColorType::L8), (3, ExtendedColorType::Rgb8)] {
            for (width, height) in [(61, 83), (131, 64)] {
                for (quality, noise) in [(90, 0), (90, 40), (100, 200), (30, 20)] {
                    let pixels = picture(width, height, channels, noise);
                    let ours = encode(&pixels, width, height, channels, quality, None).unwrap();
                    let mut theirs = Vec::new();
                    let encoder = JpegEncoder::new_with_quality(&mut theirs, quality);
                    { encoder }.encode(&pixels, width as u32, height as u32, kind).unwrap();
                    let [our_loss, their_loss] = [&ours, &theirs].map(|jpeg| loss(&pixels, &decoded(jpeg)));
                    let what = format!("{channels} channels, {height} x {width}, quality {quality}, noise {noise}");
                    assert!(our_loss <= their_loss * 1.05 + 0.3, "{what}: {our_loss} is lost, not {their_loss}");
                    let (len, their_len) = (ours.len() as f64, theirs.len() as f64);
                    assert!(len <= their_len * 1.03 + 40.0, "{what}: {len} bytes, not {their_len}");
                }
            }
        }
    }

    #[test]
    fn the_smallest_pictures_are_pictures() {
        for (width, height) in [(1, 1), (7, 5), (1, 9), (9, 1)] {
            for channels in [1, 3] {
                let pixels = picture(width, height, channels, 20);
                let jpeg = encode(&pixels, width, height, channels, 100, None).unwrap();
                let lost = loss(&pixels, &decoded(&jpeg));
                assert!(lost < 3.0, "{channels} channels, {height} x {width}: {lost} is lost");
            }
        }
    }

    #[test]
    fn transparency_is_left_out() {
        let rgb = picture(19, 9, 3, 50);
        let rgba: Vec<u8> = rgb.chunks(3).flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 7]).collect();
        assert_eq!(encode(&rgba, 19, 9, 4, 90, None).unwrap(), encode(&rgb, 19, 9, 3, 90, None).unwrap());
    }

    #[test]
    fn bytes_of_ones_are_no_markers() {
        // So much noise gives every byte: none of them may look like the end of the picture.
        let pixels = picture(256, 256, 1, 255);
        let jpeg = encode(&pixels, 256, 256, 1, 95, None).unwrap();
        let scan = jpeg.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 10;
        let data = &jpeg[scan..jpeg.len() - 2];
        let after_ones: Vec<u8> = data.windows(2).filter(|pair| pair[0] == 0xff).map(|pair| pair[1]).collect();
        assert!(after_ones.len() > 100 && after_ones.iter().all(|byte| *byte == 0), "{}", after_ones.len());
        assert!(loss(&pixels, &decoded(&jpeg)) < 60.0);
    }

    #[test]
    fn files_that_are_no_pictures_are_refused() {
        assert!(encode(&[], 0, 0, 1, 90, None).is_err());
        assert!(encode(&[1, 2], 1, 1, 2, 90, None).is_err());
        assert!(encode(&[1, 2, 3], 2, 1, 3, 90, None).is_err());
        let message = encode(&[0; 65_536], 65_536, 1, 1, 90, None).unwrap_err().to_string();
        assert!(message.ends_with("write it as .png"), "{message}");
    }

    #[test]
    fn numbers_are_written_by_size() {
        assert_eq!(magnitude(0), (0, 0));
        assert_eq!((magnitude(1), magnitude(-1)), ((1, 1), (1, 0)));
        assert_eq!((magnitude(5), magnitude(-5)), ((3, 5), (3, 2)));
    }
}
