//! `dala read`: the text in photos.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dala_recipes::text::{DETECTOR, RECOGNISER, Reader, TextLine, on_white};
use dala_recipes::{Drawing, find};
use serde::Serialize;

use crate::args::ReadArgs;
use crate::output::{self, Outcome};
use crate::{device, picture};

/// What lines are framed with.
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
    // A photo that is not there is found before the others are read.
    for photo in args.photos.iter().filter(|photo| !picture::is_standard(photo)) {
        File::open(photo).with_context(|| format!("cannot read {}", photo.display()))?;
    }
    if let Some(output) = &args.output {
        picture::format_of(output)?;
        if args.photos.len() > 1 {
            bail!("--output is for one photo, and there are {}", args.photos.len());
        }
    }
    let detector = find(DETECTOR, args.detector.clone())?;
    let recogniser = find(RECOGNISER, args.recogniser.clone())?;
    let device = device::open(&args.device)?;
    let reader = Reader::open(&device, &detector, &recogniser)?;

    let mut photos = Vec::new();
    for name in &args.photos {
        let photo = on_white(picture::read(name, None)?.into_picture()?)?;
        let start = Instant::now();
        let lines = reader.read(&photo.samples.levels(), photo.height, photo.width);
        let lines = lines.with_context(|| name.display().to_string())?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        if let Some(output) = &args.output {
            let mut drawing = Drawing::on(&photo)?;
            lines.iter().for_each(|line| drawing.polygon(&line.corners, FRAME));
            picture::write_made(output, &drawing.into_picture())?;
        }
        let line = |TextLine { text, score, corners }| Line { text, score, corners };
        let lines = lines.into_iter().map(line).collect();
        let seen = Seen { photo: name.display().to_string(), milliseconds, lines };
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
