//! `dala read`: the text in photos.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dala_compute::Shape;
use dala_recipes::text::{DETECTOR, RECOGNISER, Reader, TextLine, outline};
use serde::Serialize;

use crate::args::ReadArgs;
use crate::output::{self, Outcome};
use crate::picture::{self, HostPicture};
use crate::device;

/// What frames lines.
const FRAME: [u8; 3] = [230, 40, 40];

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    detector: String,
    recogniser: String,
    device: &'static str,
    photos: Vec<Seen>,
}

/// What is written in one photo.
#[derive(Serialize)]
struct Seen {
    photo: String,
    milliseconds: f64,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    score: f32,
    corners: [(f32, f32); 4],
}

pub(crate) fn run(args: &ReadArgs, out: &mut dyn Write) -> Result<Outcome> {
    if let Some(output) = &args.output {
        if args.photos.len() > 1 {
            bail!("cannot write {} photos to {}: read one at a time", args.photos.len(), output.display());
        }
        picture::format_of(output)?;
    }
    // A photo that is not there is found before the others are read.
    for photo in args.photos.iter().filter(|photo| !picture::is_standard(photo)) {
        File::open(photo).with_context(|| format!("cannot read {}", photo.display()))?;
    }
    let detector = dala_recipes::find(DETECTOR, args.detector.clone())?;
    let recogniser = dala_recipes::find(RECOGNISER, args.recogniser.clone())?;
    let device = device::open(&args.device)?;
    let reader = Reader::open(&device, &detector, &recogniser)?;

    let mut photos = Vec::new();
    for photo in &args.photos {
        let mut pixels = Pixels::read(photo)?;
        let start = Instant::now();
        let lines = reader.read(&pixels.levels, pixels.height, pixels.width);
        let lines = lines.with_context(|| photo.display().to_string())?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        if let Some(output) = &args.output {
            pixels.frame(&lines);
            picture::write(output, pixels.into_picture())?;
        }
        let line = |TextLine { text, score, corners }| Line { text, score, corners };
        let lines = lines.into_iter().map(line).collect();
        let seen = Seen { photo: photo.display().to_string(), milliseconds, lines };
        if !args.json {
            print(out, &seen, args.photos.len() > 1)?;
        }
        photos.push(seen);
    }
    if args.json {
        let names = (detector.display().to_string(), recogniser.display().to_string());
        let device = device.info().backend.name();
        output::json(out, &Answer { detector: names.0, recogniser: names.1, device, photos })?;
        return Ok(Outcome::Success);
    }
    Ok(match photos.iter().all(|seen| seen.lines.is_empty()) {
        true => Outcome::Negative("there is no text that can be read".to_owned()),
        false => Outcome::Success,
    })
}

/// Lines alone, so that they can go into a file; with the photo's name above them if there are several.
fn print(out: &mut dyn Write, seen: &Seen, named: bool) -> Result<()> {
    if named {
        writeln!(out, "{}: {}", seen.photo, output::count(seen.lines.len(), "line", "lines"))?;
    }
    let indent = if named { "  " } else { "" };
    for line in &seen.lines {
        writeln!(out, "{indent}{}", line.text)?;
    }
    // The next photo may take a while.
    Ok(out.flush()?)
}

/// A photo in red, green and blue.
struct Pixels {
    height: usize,
    width: usize,
    levels: Vec<u8>,
}

impl Pixels {
    /// What is transparent lies on white, as it does where it is shown.
    fn read(photo: &Path) -> Result<Pixels> {
        let picture = picture::read(photo, None)?;
        let Some(size) = picture.shape.picture() else { bail!("{} is no photo", photo.display()) };
        let levels = dala_image::rgba(picture.into_levels(), size.channels);
        let over = |level: u8, alpha: u8| {
            let (level, alpha) = (u32::from(level), u32::from(alpha));
            ((level * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        };
        let pixels = levels.as_chunks::<4>().0.iter();
        let levels = pixels.flat_map(|&[red, green, blue, alpha]| [red, green, blue].map(|level| over(level, alpha)));
        Ok(Pixels { height: size.height, width: size.width, levels: levels.collect() })
    }

    /// Draws a frame around each line, as thick as suits the photo.
    fn frame(&mut self, lines: &[TextLine]) {
        let thickness = (self.height.max(self.width) / 400).clamp(1, 8);
        for line in lines {
            outline(&mut self.levels, self.width, &line.corners, thickness, FRAME);
        }
    }

    fn into_picture(self) -> HostPicture {
        HostPicture::of_levels(Shape::from([self.height, self.width, 3]), self.levels)
    }
}
