//! Photos from files to files, beside OpenCV.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, bail};
use dala_compute::{Device, Shape};

use super::peer::Peer;
use super::report::{Row, milliseconds};
use crate::batch::{self, Batch};
use crate::picture::{self, HostPicture};
use crate::source::{OUTPUT, Source};

const OPENCV: &str = include_str!("../../../../benches/peers/opencv_batch.py");
const BASE: &str = "OpenCV, 2 threads";
const CHAIN: &str = "blur(radius=3, sigma=1.5) | sharpen(amount=0.5) | grayscale";
const PHOTOS: usize = 200;
const SIZE: (usize, usize) = (1080, 1920);
/// Photos that are kept decoded where only filters are measured.
const KEPT: usize = 16;
const ROUNDS: usize = 3;

/// A folder that goes away.
pub(super) struct Temporary(pub(super) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Left behind, it would only take room.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn measure(device: &Device) -> Result<Vec<Row>> {
    let folder = Temporary(std::env::temp_dir().join(format!("dala-batch-{}", std::process::id())));
    let [photos, ours, theirs] = ["photos", "ours", "theirs"].map(|name| folder.0.join(name));
    for path in [&photos, &ours, &theirs] {
        fs::create_dir_all(path)?;
    }
    write_photos(&photos, PHOTOS)?;
    let (from, to, count) = (photos.to_string_lossy(), theirs.to_string_lossy(), PHOTOS.to_string());
    let mut peer = Peer::start(OPENCV, &[&from, &to, &count], "OpenCV")?;

    let source = Source::chain(CHAIN)?;
    let jobs = batch::jobs(batch::expand(&[&photos])?, &[&ours], None)?;
    let whole = Batch { source: &source, device, results: &[OUTPUT], jobs: &jobs, raw: None };
    let all = || match whole.run(&|| ())?.failures.as_slice() {
        [] => Ok(()),
        [(_, reason), ..] => bail!("{reason}"),
    };
    let kept: Vec<HostPicture> =
        jobs.iter().take(KEPT).map(|job| picture::read(&job.input, None)).collect::<Result<_>>()?;
    let filters = || whole.filter(&kept, PHOTOS);

    let mut best = [(f64::INFINITY, f64::INFINITY); 2];
    // Builds kernels.
    whole.filter(&kept, KEPT)?;
    for _ in 0..ROUNDS {
        let times = [(milliseconds(all)?, peer.time("batch")?), (milliseconds(filters)?, peer.time("filters")?)];
        for (best, time) in best.iter_mut().zip(times) {
            *best = (best.0.min(time.0), best.1.min(time.1));
        }
    }
    same(&ours, &theirs)?;
    let [whole, filters] = best;
    Ok(vec![Row::new("batch-200-opencv", BASE, whole), Row::new("batch-200-filters-opencv", BASE, filters)])
}

/// Times of different pictures say nothing.
fn same(ours: &Path, theirs: &Path) -> Result<()> {
    let [ours, theirs] = [ours, theirs].map(|folder| picture::read(&folder.join("photo-000.jpg"), None));
    let (ours, theirs) = (ours?, theirs?);
    let (shape, their_shape) = (ours.shape.clone(), theirs.shape.clone());
    let (ours, theirs) = (ours.into_levels(), theirs.into_levels());
    let apart: u64 = ours.iter().zip(&theirs).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    let mean = apart as f64 / ours.len().max(1) as f64;
    if shape != their_shape || mean > 2.0 {
        bail!("OpenCV's pictures are {mean:.1} levels away from ours: {shape} and {their_shape}");
    }
    Ok(())
}

/// Made up, but as large as photos are.
pub(super) fn write_photos(folder: &Path, count: usize) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let write = |first: usize| -> Result<()> {
        (first..count).step_by(threads).try_for_each(|number| {
            picture::write(&folder.join(format!("photo-{number:03}.jpg")), photo(number, SIZE)).map(drop)
        })
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || write(first))).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.into_iter().try_for_each(|result| result.unwrap_or_else(|_| bail!("a photo could not be made")))
    })
}

/// Light that changes slowly, shapes with edges, and the noise of a sensor.
fn photo(number: usize, (height, width): (usize, usize)) -> HostPicture {
    let mut state = (number as u32 + 1).wrapping_mul(0x9E37_79B9);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let discs: Vec<[f32; 6]> = (0..24)
        .map(|_| {
            let [x, y, size, red, green, blue] = std::array::from_fn(|_| (random() >> 8) as f32 / 16_777_216.0);
            let tone = |level: f32| level * 120.0 - 60.0;
            [x * width as f32, y * height as f32, 30.0 + size * 200.0, tone(red), tone(green), tone(blue)]
        })
        .collect();
    let mut pixels = Vec::with_capacity(height * width * 3);
    for y in 0..height {
        let high = y as f32;
        // The discs that this row meets.
        let near: Vec<&[f32; 6]> = discs.iter().filter(|disc| (high - disc[1]).abs() < disc[2]).collect();
        for x in 0..width {
            let wide = x as f32;
            let slope = wide / width as f32 * 80.0;
            let mut light = [90.0 + slope, 100.0 + high / height as f32 * 60.0, 150.0 - slope * 0.7];
            for [left, top, size, tones @ ..] in &near {
                if (wide - left).powi(2) + (high - top).powi(2) < size * size {
                    light.iter_mut().zip(tones).for_each(|(level, tone)| *level += tone);
                }
            }
            let noise = random();
            for (channel, level) in light.into_iter().enumerate() {
                let noise = (noise >> (channel * 8) & 0xff) as f32 / 255.0 * 13.0 - 6.5;
                pixels.push((level + noise).clamp(0.0, 255.0) as u8);
            }
        }
    }
    HostPicture::of_levels(Shape::from([height, width, 3]), pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photos_differ_and_are_as_large_as_photos_are() {
        let (one, other) = (photo(0, (216, 384)), photo(1, (216, 384)));
        assert!(one.into_levels() != other.into_levels());
        let one = photo(0, (216, 384));
        let file = std::env::temp_dir().join(format!("dala-photo-{}.jpg", std::process::id()));
        picture::write(&file, one).unwrap();
        // A 25th of the pixels of a full-HD photo of 300 to 900 kB.
        let bytes = fs::metadata(&file).unwrap().len();
        let _ = fs::remove_file(&file);
        assert!((12_000..36_000).contains(&bytes), "{bytes} bytes");
    }
}
