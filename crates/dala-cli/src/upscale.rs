//! `dala upscale`: a photo made larger.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use dala_recipes::{UPSCALE, Upscaler, find};
use serde::Serialize;

use crate::args::UpscaleArgs;
use crate::output::{self, Outcome};
use crate::{device, onnx, picture};

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    model: String,
    device: &'static str,
    photo: String,
    output: String,
    /// Of the result.
    height: usize,
    width: usize,
    /// What was planned and built is part of it.
    milliseconds: f64,
}

pub(crate) fn run(args: &UpscaleArgs, out: &mut dyn Write) -> Result<Outcome> {
    picture::format_of(&args.output)?;
    let photo = picture::read(&args.photo, None)?.into_picture()?;
    let file = find(UPSCALE, args.model.clone())?;
    let device = device::open(&args.device)?;
    let upscaler = Upscaler::open(&device, &file).map_err(|error| onnx::not_opened(&file, error))?;
    let start = Instant::now();
    let larger = upscaler.upscale(&photo)?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    picture::write_made(&args.output, &larger)?;
    let (height, width, device) = (larger.height, larger.width, device.info().backend.name());
    let (from, to) = (args.photo.display().to_string(), args.output.display().to_string());
    if args.json {
        let model = file.display().to_string();
        output::json(out, &Answer { model, device, photo: from, output: to, height, width, milliseconds })?;
    } else {
        writeln!(
            out,
            "{from} -> {to}: {} x {} pixels became {width} x {height} on {device}, {milliseconds:.1} ms",
            photo.width, photo.height
        )?;
    }
    Ok(Outcome::Success)
}
