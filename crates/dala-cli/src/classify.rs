//! `dala classify`: what a network sees in photos.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use dala_compute::{Buffer, DType, Device, Params, Pipeline, Plan, Shape, Stage, Transient};
use dala_model::{Dim, LoadModel, Model, imagenet_classes};
use serde::Serialize;

use crate::args::ClassifyArgs;
use crate::device;
use crate::onnx::{self, KERNEL, described};
use crate::output::{self, Outcome};
use crate::picture::{self, HostPicture};
use crate::source::summary;
use crate::terminal::is_utf8;

/// The model that is used if none is named.
const DEFAULT_MODEL: &str = "mobilenet_v2.onnx";
/// How long the bar of a certain class is.
const BAR_WIDTH: usize = 24;

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
    milliseconds: f64,
    classes: Vec<Class>,
}

#[derive(Serialize)]
struct Class {
    index: usize,
    label: String,
    #[serde(flatten)]
    score: Score,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Score {
    Probability(f32),
    /// Whatever the model gives.
    Value(f32),
}

pub(crate) fn run(args: &ClassifyArgs, out: &mut dyn Write) -> Result<Outcome> {
    // A photo that is not there is found before the others are computed.
    for photo in args.photos.iter().filter(|photo| !picture::is_standard(photo)) {
        File::open(photo).with_context(|| format!("cannot read {}", photo.display()))?;
    }
    let file = match &args.model {
        Some(file) => file.clone(),
        None => {
            onnx::installed(DEFAULT_MODEL).map_err(|error| anyhow!("{error}, or name a model by --model FILE.onnx"))?
        }
    };
    let model = onnx::open(&file)?;
    let network = Classifier::of(&model, args.raw).with_context(|| file.display().to_string())?;
    let labels = labels(args.labels.as_deref(), network.classes)?;
    let device = device::open(&args.device)?;
    device.add_model(KERNEL, &model).with_context(|| file.display().to_string())?;

    let bar = if is_utf8() { unicode_bar } else { plain_bar };
    let mut ready: Option<Ready> = None;
    let mut photos = Vec::new();
    for photo in &args.photos {
        let picture = picture::read(photo, None)?;
        let picture = HostPicture::of_levels(picture.shape.clone(), picture.into_levels());
        // Photos of one size share their plan.
        let plan = match ready.take() {
            Some(own) if own.photo.shape() == &picture.shape => own,
            _ => network.prepare(&device, &picture)?,
        };
        let (scores, milliseconds) = plan.run(&picture)?;
        let seen = network.seen(photo, &scores, milliseconds, &labels, args.top);
        if args.json {
            photos.push(seen);
        } else {
            if photo != &args.photos[0] {
                writeln!(out)?;
            }
            print(out, &seen, &summary(&plan.plan), bar)?;
            // The next photo may take a while.
            out.flush()?;
        }
        ready = Some(plan);
    }
    if args.json {
        let device = device.info().backend.name();
        output::json(out, &Answer { model: file.display().to_string(), device, photos })?;
    }
    Ok(Outcome::Success)
}

/// What is known of a model that tells pictures apart.
struct Classifier {
    height: usize,
    width: usize,
    /// The shape of its output, of which one axis counts the classes.
    output: Shape,
    axis: usize,
    classes: usize,
    /// Whether its outputs become probabilities by softmax.
    softmax: bool,
    /// Whether its outputs are shown as they are.
    raw: bool,
}

impl Classifier {
    fn of(model: &Model, raw: bool) -> Result<Classifier> {
        let picture = match model.inputs() {
            [input] if input.dtype == DType::F32 => match &input.dims[..] {
                [Dim::Batch | Dim::Known(1), Dim::Known(3), Dim::Known(height), Dim::Known(width)] => {
                    Some((*height, *width))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((height, width)) = picture.filter(|(height, width)| height * width > 0) else {
            let inputs: Vec<String> = model.inputs().iter().map(described).collect();
            bail!(
                "the model does not take one picture in colours, f32 {{batch, 3, height, width}}: it takes {}",
                if inputs.is_empty() { "nothing".to_owned() } else { inputs.join(" and ") }
            );
        };
        let outputs: Vec<String> = model.outputs().iter().map(described).collect();
        let output = match model.outputs() {
            [output] if output.dtype == DType::F32 => output.shape(1),
            _ => None,
        };
        let Some(output) = output else {
            bail!("the model does not give one number for each class: it gives {}", outputs.join(" and "));
        };
        let classes = output.len();
        let Some(axis) = output.dims().iter().position(|size| *size == classes && classes > 0) else {
            bail!("the model does not give one number for each class: it gives {}", outputs.join(" and "));
        };
        let softmax = !raw && !ends_in_softmax(model)?;
        Ok(Classifier { height, width, output, axis, classes, softmax, raw })
    }

    /// From the photo to probabilities as one plan.
    fn prepare(&self, device: &Device, picture: &HostPicture) -> Result<Ready> {
        let photo = Buffer::reserve(device, DType::U8, picture.shape.clone())?;
        let scores = Buffer::reserve(device, DType::F32, self.output.clone())?;
        let input = Transient::new().named("input").shape([1, 3, self.height, self.width]);
        // The margin that networks for 224 by 224 pixels are tested with.
        let short = (self.height.max(self.width) * 256).div_ceil(224);
        let fit = Params::new()
            .with("size", vec![self.height as i64, self.width as i64])
            .with("fit", "crop")
            .with("resize", short as i64)
            .with("normalize", true);
        let mut pipeline = Pipeline::new().named(&photo, "photo").named(&scores, "scores").stage(Stage::run_kernel(
            "preprocess",
            [&photo],
            &input,
            fit,
        ));
        if self.softmax {
            let logits = Transient::new().named("logits");
            let along = [("axis", self.axis as i64)];
            pipeline.push(Stage::run_kernel(KERNEL, [&input], &logits, ()));
            pipeline.push(Stage::run_kernel("softmax", [&logits], &scores, along));
        } else {
            pipeline.push(Stage::run_kernel(KERNEL, [&input], &scores, ()));
        }
        let plan = device.compile(&pipeline)?;
        plan.warm_up()?;
        Ok(Ready { plan, photo, scores })
    }

    /// The best classes of a photo, the best first.
    fn seen(&self, photo: &Path, scores: &[f32], milliseconds: f64, labels: &[String], top: usize) -> Seen {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let class = |index: usize| Class {
            index,
            label: labels.get(index).cloned().unwrap_or_else(|| format!("class {index}")),
            score: if self.raw { Score::Value(scores[index]) } else { Score::Probability(scores[index]) },
        };
        let classes = order.into_iter().take(top).map(class).collect();
        Seen { photo: photo.display().to_string(), milliseconds, classes }
    }
}

/// Whether the model's outputs are probabilities already.
fn ends_in_softmax(model: &Model) -> Result<bool> {
    let network = model.resolve(1)?;
    let is_output = |number: &usize| network.outputs.contains(number);
    let mut ends = network.layers.iter().filter(|layer| layer.outputs.iter().any(is_output));
    Ok(ends.any(|layer| layer.op.name() == "Softmax"))
}

/// A plan for photos of one size.
struct Ready {
    plan: Plan,
    photo: Buffer,
    scores: Buffer,
}

impl Ready {
    /// The scores of a photo, and how many milliseconds the device took.
    fn run(&self, picture: &HostPicture) -> Result<(Vec<f32>, f64)> {
        picture.write_to(&self.photo)?;
        let start = Instant::now();
        self.plan.run()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        Ok((self.scores.read::<f32>()?, milliseconds))
    }
}

/// The names of the classes; none if nobody knows them.
fn labels(file: Option<&Path>, classes: usize) -> Result<Vec<String>> {
    let Some(file) = file else {
        let known = imagenet_classes().map(str::to_owned).collect::<Vec<_>>();
        return Ok(if known.len() == classes { known } else { Vec::new() });
    };
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let labels: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    if labels.len() != classes {
        bail!("{} has {} lines, and the model has {classes} classes", file.display(), labels.len());
    }
    Ok(labels)
}

fn print(out: &mut dyn Write, seen: &Seen, done: &str, bar: fn(f32) -> String) -> Result<()> {
    writeln!(out, "{}: {done}, {:.1} ms", seen.photo, seen.milliseconds)?;
    let row = |class: &Class| match class.score {
        Score::Probability(share) => [class.label.clone(), format!("{:5.1} %", share * 100.0), bar(share)],
        Score::Value(value) => [class.label.clone(), format!("{value:9.4}"), String::new()],
    };
    Ok(output::columns(out, "  ", &seen.classes.iter().map(row).collect::<Vec<_>>())?)
}

/// A bar in eighths of a cell.
fn unicode_bar(share: f32) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f32).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

fn plain_bar(share: f32) -> String {
    "#".repeat((share.clamp(0.0, 1.0) * BAR_WIDTH as f32).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(unicode_bar(1.0), "█".repeat(BAR_WIDTH));
        assert_eq!(unicode_bar(0.5), "█".repeat(BAR_WIDTH / 2));
        assert_eq!(unicode_bar(1.0 / 96.0), "▎");
        assert_eq!((unicode_bar(0.0), unicode_bar(f32::NAN)), (String::new(), String::new()));
        assert_eq!((plain_bar(0.25), plain_bar(2.0)), ("######".to_owned(), "#".repeat(BAR_WIDTH)));
    }
}
