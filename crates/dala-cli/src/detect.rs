//! `dala detect`: the faces in photos.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dala_recipes::{Drawing, FACES, Faces, find};
use serde::Serialize;

use crate::args::DetectArgs;
use crate::found::Found;
use crate::output::{self, Outcome};
use crate::{device, onnx, picture, watch};

/// What boxes are drawn in.
const BOX: [u8; 3] = [255, 200, 0];
/// What eyes, noses and mouths are marked with.
const MARK: [u8; 3] = [0, 220, 120];

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    model: String,
    device: &'static str,
    photos: Vec<Seen>,
}

/// What is in one photo.
#[derive(Serialize)]
struct Seen {
    photo: String,
    height: usize,
    width: usize,
    /// What was planned and built for a photo of this size is part of it.
    milliseconds: f64,
    faces: Vec<Found>,
}

pub(crate) fn run(args: &DetectArgs, out: &mut dyn Write) -> Result<Outcome> {
    // A photo that is not there is found before the others are computed.
    for photo in args.photos.iter().filter(|photo| !picture::is_standard(photo)) {
        File::open(photo).with_context(|| format!("cannot read {}", photo.display()))?;
    }
    if let Some(output) = &args.output {
        picture::format_of(output)?;
        if args.photos.len() > 1 {
            bail!("--output is for one photo, and there are {}", args.photos.len());
        }
    }
    let file = find(FACES, args.model.clone())?;
    let device = device::open(&args.device)?;
    let faces = Faces::open(&device, &file).map_err(|error| onnx::not_opened(&file, error))?;
    let faces = faces.with_longer_side(args.longer_side);
    if let Some(folder) = &args.watch {
        return watch::run(args, folder, &device, &faces, out);
    }

    let mut photos = Vec::new();
    for name in &args.photos {
        let photo = picture::read(name, None)?.into_picture()?;
        let start = Instant::now();
        let found = faces.detect(&photo, args.threshold)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        if let Some(output) = &args.output {
            let mut drawing = Drawing::on(&photo)?;
            for face in &found {
                drawing.rectangle([face.left, face.top, face.right, face.bottom], BOX);
                face.landmarks.iter().for_each(|mark| drawing.dot(*mark, MARK));
            }
            picture::write_made(output, &drawing.into_picture())?;
        }
        let (height, width) = (photo.height, photo.width);
        let faces = found.iter().map(Found::from).collect();
        let seen = Seen { photo: name.display().to_string(), height, width, milliseconds, faces };
        if args.json {
            photos.push(seen);
        } else {
            print(out, &seen, device.info().backend.name())?;
            // The next photo may take a while.
            out.flush()?;
        }
    }
    if args.json {
        let device = device.info().backend.name();
        output::json(out, &Answer { model: file.display().to_string(), device, photos })?;
    }
    Ok(Outcome::Success)
}

fn print(out: &mut dyn Write, seen: &Seen, device: &str) -> Result<()> {
    let count = output::count(seen.faces.len(), "face", "faces");
    writeln!(out, "{}: {count} on {device}, {:.1} ms", seen.photo, seen.milliseconds)?;
    let row = |face: &Found| {
        let pixel = |name: &str, place: f32| format!("{name} {place:.0}");
        [
            format!("{:5.1} %", face.score * 100.0),
            pixel("left", face.left),
            pixel("top", face.top),
            pixel("right", face.right),
            pixel("bottom", face.bottom),
        ]
    };
    Ok(output::columns(out, "  ", &seen.faces.iter().map(row).collect::<Vec<_>>())?)
}
