//! Photos twice as large, by ESPCN: a small network that was trained to make up what is lost when photos are shrunk.
//!
//! Large photos are done in tiles, as large as the device has memory for, so that what they need of it does not grow with them. A tile is wider than what is kept of it
//! by as much as the network looks around itself, so no seam shows.

use std::ops::Range as Places;
use std::path::Path;

use dala_compute::Device;
use dala_image::{Picture, Samples, level};

use crate::picture_model::{PictureModel, Range, Size, check};
use crate::{ModelFile, RecipeError};

/// The model that enlarges photos.
pub const UPSCALE: ModelFile = ModelFile { name: "upscale", recipe: "upscale" };

/// How far the network looks in each direction, in pixels of the photo: ESPCN's filters come to 5.
const REACH: usize = 8;

/// Rows and columns of a tile at most, what it shares with others included. Larger tiles share less, and have more than caches hold.
const TILES: Places<usize> = 128..1024;

/// What ESPCN takes for a pixel of a tile, in bytes.
const PIXEL_BYTES: u64 = 800;

/// The part of a device's memory that a tile may take.
const SHARE: u64 = 16;

/// Tiles have so many rows and columns or a multiple, where that is not too many: other sizes end in parts of vectors.
const STEP: usize = 16;

/// What the network is asked about its factor with.
const PROBE: usize = 16;

/// Makes photos larger.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dala_compute::Device;
/// use dala_image::{Format, Limits, decode};
/// use dala_recipes::{UPSCALE, Upscaler, find};
///
/// let upscaler = Upscaler::open(&Device::open("auto")?, &find(UPSCALE, None)?)?;
/// let photo = decode(&std::fs::read("small.jpg")?, &Limits::default())?;
/// std::fs::write("large.png", upscaler.upscale(&photo)?.encode(Format::Png)?.bytes)?;
/// # Ok(())
/// # }
/// ```
pub struct Upscaler {
    model: PictureModel,
    factor: usize,
    tile: usize,
}

impl Upscaler {
    /// Reads the model.
    ///
    /// # Errors
    /// [`RecipeError::Unfit`] if it does not make photos larger, and what is wrong with the file.
    pub fn open(device: &Device, model: &Path) -> Result<Upscaler, RecipeError> {
        let model = PictureModel::open(device, model)?;
        let outputs = model.outputs(Size { height: PROBE, width: PROBE })?;
        let factor = match &outputs[..] {
            [output] => match *output.dims() {
                [1, 3, height, width] if height == width && height.is_multiple_of(PROBE) => height / PROBE,
                _ => 0,
            },
            _ => 0,
        };
        match factor {
            0 | 1 => Err(model.unfit("it does not make a photo some times as large")),
            _ => Ok(Upscaler { model, factor, tile: tile(device.memory()?.budget) }),
        }
    }

    /// How many times as high and wide a photo becomes.
    pub fn factor(&self) -> usize {
        self.factor
    }

    /// The same with tiles of at most so many rows and columns: larger ones take more memory, and less time for what they share.
    pub fn with_tiles_of(self, pixels: usize) -> Upscaler {
        Upscaler { tile: pixels.max(4 * REACH), ..self }
    }

    /// A photo made larger, in RGB: gray becomes colours, and transparency is left out.
    ///
    /// # Errors
    /// [`RecipeError::Input`] for what is no photo or becomes too large, and what the device says.
    pub fn upscale(&self, photo: &Picture) -> Result<Picture, RecipeError> {
        check(photo)?;
        let (height, width) = (photo.height.checked_mul(self.factor), photo.width.checked_mul(self.factor));
        let sizes = height.zip(width).and_then(|(height, width)| {
            let len = height.checked_mul(width)?.checked_mul(3).filter(|len| *len <= isize::MAX as usize)?;
            Some((height, width, len))
        });
        let too_large = || RecipeError::Input("the photo is too large to become larger".to_owned());
        let (height, width, len) = sizes.ok_or_else(too_large)?;
        let levels = photo.samples.levels();
        let mut result = vec![0; len];
        for down in windows(photo.height, self.tile) {
            for across in windows(photo.width, self.tile) {
                let tile = Picture {
                    height: down.len,
                    width: across.len,
                    channels: photo.channels,
                    samples: Samples::U8(cut(&levels, photo.width, photo.channels, &down, &across)),
                    profile: None,
                };
                let size = Size { height: down.len, width: across.len };
                let outputs = self.model.run(&tile, size, Range::Unit)?;
                let larger = outputs.first().ok_or_else(|| self.model.unfit("it gives nothing"))?;
                paste(&mut result, width, larger, self.factor, &down, &across);
            }
        }
        let profile = photo.profile.clone();
        Ok(Picture { height, width, channels: 3, samples: Samples::U8(result), profile })
    }
}

/// The rows and columns of tiles that a device with so much memory has room for.
fn tile(budget: u64) -> usize {
    ((budget / SHARE / PIXEL_BYTES).isqrt() as usize).clamp(TILES.start, TILES.end)
}

/// A part of an axis that the network sees at once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    start: usize,
    len: usize,
    /// What is taken from it: further from its ends than the network looks, unless these are those of the axis.
    kept: Places<usize>,
}

/// As few windows as can be, all of one length and no longer than a tile, whose kept parts follow each other.
fn windows(size: usize, tile: usize) -> Vec<Window> {
    if size <= tile {
        return vec![Window { start: 0, len: size, kept: 0..size }];
    }
    let count = (size - 2 * REACH).div_ceil(tile - 2 * REACH);
    let len = (size + 2 * REACH * (count - 1)).div_ceil(count).next_multiple_of(STEP).min(tile);
    let (mut windows, mut done) = (Vec::new(), 0);
    while done < size {
        let start = done.saturating_sub(REACH).min(size - len);
        let end = start + len;
        let to = if end == size { size } else { end - REACH };
        windows.push(Window { start, len, kept: done..to });
        done = to;
    }
    windows
}

/// The levels of a tile.
fn cut(levels: &[u8], width: usize, channels: usize, down: &Window, across: &Window) -> Vec<u8> {
    let rows = levels.chunks_exact(width * channels).skip(down.start).take(down.len);
    let part = across.start * channels..(across.start + across.len) * channels;
    rows.flat_map(|row| row.get(part.clone()).unwrap_or_default()).copied().collect()
}

/// Puts what is kept of a tile that was made larger, three planes of floats, where it belongs.
fn paste(result: &mut [u8], width: usize, larger: &[f32], factor: usize, down: &Window, across: &Window) {
    let columns = across.len * factor;
    let planes = larger.chunks_exact((down.len * factor * columns).max(1));
    for (channel, plane) in planes.enumerate() {
        let from = plane.chunks_exact(columns.max(1)).skip((down.kept.start - down.start) * factor);
        let rows = result.chunks_exact_mut(width * 3).skip(down.kept.start * factor).take(down.kept.len() * factor);
        for (row, values) in rows.zip(from) {
            let places = row.iter_mut().skip(across.kept.start * factor * 3 + channel).step_by(3);
            let values = values.iter().skip((across.kept.start - across.start) * factor);
            for (place, value) in places.zip(values.take(across.kept.len() * factor)) {
                *place = level(*value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    /// Seams would show where networks see black beyond the end of a tile.
    #[test]
    fn tiles_and_the_whole_agree() {
        let file = match find(UPSCALE, None) {
            Ok(file) => file,
            Err(error) => return println!("skipped: {error}"),
        };
        let upscaler = Upscaler::open(&Device::open("cpu").unwrap(), &file).unwrap();
        assert_eq!(upscaler.factor(), 2);
        let (height, width) = (83, 101);
        let levels = (0..height * width * 3).map(|place| 255 - (place * place % 97) as u8).collect();
        let photo = Picture::new(height, width, 3, Samples::U8(levels)).unwrap();
        let whole = upscaler.upscale(&photo).unwrap();
        assert_eq!((whole.height, whole.width, whole.channels), (166, 202, 3));
        let tiled = upscaler.with_tiles_of(48).upscale(&photo).unwrap();
        let (whole, tiled) = (whole.samples.levels(), tiled.samples.levels());
        let differ = whole.iter().zip(tiled.iter()).filter(|(a, b)| a != b).count();
        assert!(whole.iter().zip(tiled.iter()).all(|(a, b)| a.abs_diff(*b) <= 1), "a seam shows");
        // Sums may end in another last bit, which is seldom the one that rounds a level.
        assert!(differ * 1000 < whole.len(), "{differ} of {} differ", whole.len());
    }

    #[test]
    fn what_is_no_photo_is_refused_and_one_pixel_is_not() {
        let file = match find(UPSCALE, None) {
            Ok(file) => file,
            Err(error) => return println!("skipped: {error}"),
        };
        let upscaler = Upscaler::open(&Device::open("cpu").unwrap(), &file).unwrap();
        for (channels, samples) in [(1, Samples::U8(vec![7])), (4, Samples::F32(vec![f32::NAN, 0.5, 9.0, 1.0]))] {
            let larger = upscaler.upscale(&Picture::new(1, 1, channels, samples).unwrap()).unwrap();
            assert_eq!((larger.height, larger.width, larger.samples.len()), (2, 2, 12));
        }
        let gray = Picture::new(1, 1, 1, Samples::U8(vec![7])).unwrap();
        for wrong in [
            Picture { height: 0, ..gray.clone() },
            Picture { width: usize::MAX, height: 2, ..gray.clone() },
            Picture { samples: Samples::U8(Vec::new()), ..gray },
        ] {
            assert_eq!(upscaler.upscale(&wrong).unwrap_err().code(), "bad_input");
        }
    }

    #[test]
    fn tiles_take_a_part_of_the_memory() {
        assert_eq!((tile(0), tile(1 << 31), tile(16 << 30), tile(u64::MAX)), (128, 409, 1024, 1024));
    }

    #[test]
    fn kept_parts_follow_each_other_and_are_far_from_seams() {
        for tile in [32, 33, 256] {
            for size in [1, 31, 32, 33, 47, 48, 49, 64, 255, 256, 257, 496, 497, 1000] {
                let windows = windows(size, tile);
                let mut done = 0;
                // No more is computed than a step for each window, beside what they share.
                let (all, shared) =
                    (windows.iter().map(|window| window.len).sum::<usize>(), 2 * REACH * (windows.len() - 1));
                assert!(all <= size + shared + STEP * windows.len(), "{size} by {tile}: {all}");
                for window in &windows {
                    assert_eq!(window.kept.start, done, "{size} by {tile}");
                    assert!(window.len <= tile && window.len == windows[0].len);
                    let end = window.start + window.len;
                    assert!(end <= size && window.kept.end > done);
                    assert!(window.start == 0 || window.kept.start >= window.start + REACH);
                    assert!(end == size || window.kept.end + REACH <= end);
                    done = window.kept.end;
                }
                assert_eq!(done, size);
            }
        }
        assert_eq!(windows(256, 256).len(), 1);
        assert_eq!(windows(257, 256).len(), 2);
    }

    /// A network that repeats every pixel, in tiles.
    #[test]
    fn tiles_come_together_as_they_were_cut() {
        let (height, width, factor) = (70, 45, 2);
        let levels: Vec<u8> = (0..height * width * 3).map(|place| (place * 7 % 251) as u8).collect();
        let mut result = vec![0; levels.len() * factor * factor];
        for down in windows(height, 32) {
            for across in windows(width, 32) {
                let tile = cut(&levels, width, 3, &down, &across);
                let (rows, columns) = (down.len * factor, across.len * factor);
                let larger: Vec<f32> = (0..3 * rows * columns)
                    .map(|place| {
                        let (channel, y, x) = (place / (rows * columns), place / columns % rows, place % columns);
                        f32::from(tile[(y / factor * across.len + x / factor) * 3 + channel]) / 255.0
                    })
                    .collect();
                paste(&mut result, width * factor, &larger, factor, &down, &across);
            }
        }
        for (place, level) in result.iter().enumerate() {
            let (y, x, channel) = (place / (width * factor * 3), place / 3 % (width * factor), place % 3);
            assert_eq!(*level, levels[(y / factor * width + x / factor) * 3 + channel], "{y}, {x}");
        }
    }
}
