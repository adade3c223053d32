//! `dala describe-type`: what kinds of files these are.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use dala_recipes::{Excerpt, FILE_TYPE_MODEL, FileType, FileTypes, find};
use serde::Serialize;

use crate::args::DescribeTypeArgs;
use crate::device;
use crate::output::{self, Outcome};
use crate::picture::is_standard;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    model: String,
    device: &'static str,
    milliseconds: f64,
    files: Vec<Described>,
}

#[derive(Serialize)]
struct Described {
    file: String,
    label: String,
    description: Option<String>,
    mime_type: Option<String>,
    score: f32,
}

pub(crate) fn run(args: &DescribeTypeArgs, out: &mut dyn Write) -> Result<Outcome> {
    // A file that is not there is found before the others are computed.
    let excerpts = args.files.iter().map(|file| excerpt(file)).collect::<Result<Vec<_>>>()?;
    let model = find(FILE_TYPE_MODEL, args.model.clone())?;
    let device = device::open(&args.device)?;
    let types = FileTypes::open(&device, &model, &model.with_extension("json"))?;
    let start = Instant::now();
    let described = types.describe_all(&excerpts)?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let named = args.files.iter().map(|file| file.display().to_string()).zip(described);
    if args.json {
        let one = |(file, FileType { label, description, mime_type, score })| Described {
            file,
            label,
            description,
            mime_type,
            score,
        };
        let files = named.map(one).collect();
        let (model, device) = (model.display().to_string(), device.info().backend.name());
        output::json(out, &Answer { model, device, milliseconds, files })?;
        return Ok(Outcome::Success);
    }
    let row = |(file, kind): (String, FileType)| {
        [file, kind.label, format!("{:5.1} %", kind.score * 100.0), kind.description.unwrap_or_default()]
    };
    output::columns(out, "", &named.map(row).collect::<Vec<_>>())?;
    Ok(Outcome::Success)
}

fn excerpt(file: &Path) -> Result<Excerpt> {
    match is_standard(file) {
        true => Excerpt::of_stream(io::stdin().lock()).context("cannot read standard input"),
        false => Excerpt::of_path(file).with_context(|| format!("cannot read {}", file.display())),
    }
}
