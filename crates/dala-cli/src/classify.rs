//! `dala classify`: what a network sees in photos.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use dala_compute::{Buffer, DType, Device, Params, Pipeline, Plan, Shape, Stage, Transient};
use dala_model::{Dim, LoadModel, Model, imagenet_classes};
use serde::Serialize;

use crate::args::ClassifyArgs;
use crate::device;
use crate::onnx::{self, KERNEL, described};
use crate::output::{self, Outcome};
use crate::picture;
use crate::terminal::is_utf8;

/// The model that is used if none is named.
const DEFAULT_MODEL: &str = "mobilenet_v2.onnx";
/// For how many sizes of photos plans are kept, each with room for a photo.
const KEPT_SIZES: usize = 8;
/// Photos that wait for the device, beside those that are being read.
const AHEAD: usize = 2;
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
    let classifier = Classifier::of(&model, args.raw).with_context(|| file.display().to_string())?;
    let labels = labels(args.labels.as_deref(), classifier.classes)?;
    let device = device::open(&args.device)?;
    device.add_model(KERNEL, &model).with_context(|| file.display().to_string())?;

    let bar = if is_utf8() { unicode_bar } else { plain_bar };
    let mut network = Network::new(&classifier, &device)?;
    let mut photos = Vec::new();
    network.each(&args.photos, |photo, scores, milliseconds, done| {
        let seen = Seen {
            photo: photo.display().to_string(),
            milliseconds,
            classes: classifier.best(&scores, &labels, args.top),
        };
        if args.json {
            photos.push(seen);
        } else {
            if photo != &args.photos[0] {
                writeln!(out)?;
            }
            print(out, &seen, done, bar)?;
            // The next photo may take a while.
            out.flush()?;
        }
        Ok(())
    })?;
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

    /// The best classes of a photo, the best first.
    fn best(&self, scores: &[f32], labels: &[String], top: usize) -> Vec<Class> {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let class = |index: usize| Class {
            index,
            label: labels.get(index).cloned().unwrap_or_else(|| format!("class {index}")),
            score: if self.raw { Score::Value(scores[index]) } else { Score::Probability(scores[index]) },
        };
        order.into_iter().take(top).map(class).collect()
    }
}

/// Whether the model's outputs are probabilities already.
fn ends_in_softmax(model: &Model) -> Result<bool> {
    let network = model.resolve(1)?;
    let is_output = |number: &usize| network.outputs.contains(number);
    let mut ends = network.layers.iter().filter(|layer| layer.outputs.iter().any(is_output));
    Ok(ends.any(|layer| layer.op.name() == "Softmax"))
}

/// A photo by its number: its levels and their shape, or why it could not be read.
type ReadPhoto = (usize, Result<(Vec<u8>, Shape)>);

/// A network that is ready for photos of any size: what makes them fit is a plan for each size, and the network is one for all.
struct Network<'a> {
    classifier: &'a Classifier,
    device: &'a Device,
    plan: Plan,
    input: Buffer,
    scores: Buffer,
    /// The latest first.
    fits: VecDeque<Fit>,
}

/// Makes photos of one size fit the network.
struct Fit {
    plan: Plan,
    photo: Buffer,
}

impl<'a> Network<'a> {
    /// For a model that the device has as [`KERNEL`].
    fn new(classifier: &'a Classifier, device: &'a Device) -> Result<Network<'a>> {
        let input = Buffer::reserve(device, DType::F32, [1, 3, classifier.height, classifier.width])?;
        let scores = Buffer::reserve(device, DType::F32, classifier.output.clone())?;
        let mut pipeline = Pipeline::new().named(&input, "input").named(&scores, "scores");
        if classifier.softmax {
            let logits = Transient::new().named("logits");
            let along = [("axis", classifier.axis as i64)];
            pipeline.push(Stage::run_kernel(KERNEL, [&input], &logits, ()));
            pipeline.push(Stage::run_kernel("softmax", [&logits], &scores, along));
        } else {
            pipeline.push(Stage::run_kernel(KERNEL, [&input], &scores, ()));
        }
        let plan = device.compile(&pipeline)?;
        plan.warm_up()?;
        Ok(Network { classifier, device, plan, input, scores, fits: VecDeque::new() })
    }

    /// What fits photos of that shape.
    fn fit(&mut self, shape: &Shape) -> Result<&Fit> {
        let known = self.fits.iter().position(|fit| fit.photo.shape() == shape).and_then(|at| self.fits.remove(at));
        let fit = match known {
            Some(fit) => fit,
            None => self.new_fit(shape)?,
        };
        self.fits.truncate(KEPT_SIZES - 1);
        self.fits.push_front(fit);
        self.fits.front().context("there is no plan")
    }

    fn new_fit(&self, shape: &Shape) -> Result<Fit> {
        let Classifier { height, width, .. } = *self.classifier;
        let photo = Buffer::reserve(self.device, DType::U8, shape.clone())?;
        // The margin that networks for 224 by 224 pixels are tested with.
        let short = (height.max(width) * 256).div_ceil(224);
        let fit = Params::new()
            .with("size", vec![height as i64, width as i64])
            .with("fit", "crop")
            .with("resize", short as i64)
            .with("normalize", true);
        let stage = Stage::run_kernel("preprocess", [&photo], &self.input, fit);
        let pipeline = Pipeline::new().named(&photo, "photo").named(&self.input, "input").stage(stage);
        Ok(Fit { plan: self.device.compile(&pipeline)?, photo })
    }

    /// The scores of a photo, how many milliseconds the device took, and what it did.
    fn run(&mut self, levels: &[u8], shape: &Shape) -> Result<(Vec<f32>, f64, String)> {
        let fit = self.fit(shape)?;
        fit.photo.write(levels)?;
        let start = Instant::now();
        fit.plan.run()?;
        let fitting = fit.plan.launches();
        self.plan.run()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let (stages, launches) = (2 + usize::from(self.classifier.softmax), fitting + self.plan.launches());
        let done = format!("{stages} stages in {launches} launches on {}", self.device.info().backend.name());
        Ok((self.scores.read::<f32>()?, milliseconds, done))
    }

    /// Reads photos and runs the network on them. Photos are read by several threads while the device computes, and come in their
    /// order: `then` gets the scores of each, how many milliseconds the device took, and what it did.
    fn each(
        &mut self,
        photos: &[PathBuf],
        mut then: impl FnMut(&PathBuf, Vec<f32>, f64, &str) -> Result<()>,
    ) -> Result<()> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(photos.len());
        let next = AtomicUsize::new(0);
        // A photo has a place before it is read, and until it was computed: only so many are in memory.
        let (take, places) = sync_channel::<()>(threads + AHEAD);
        let (read, arrived) = channel();
        let work = |take: SyncSender<()>, read: Sender<ReadPhoto>| {
            while take.send(()).is_ok() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(photo) = photos.get(number) else { return };
                let picture = picture::read(photo, None).map(|picture| {
                    let shape = picture.shape.clone();
                    (picture.into_levels(), shape)
                });
                if read.send((number, picture)).is_err() {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                let (take, read) = (take.clone(), read.clone());
                scope.spawn(|| work(take, read));
            }
            drop((take, read));
            // What ends this ends the threads as well: nobody takes what they send.
            let (places, arrived) = (places, arrived);
            let mut early = BTreeMap::new();
            for (number, photo) in photos.iter().enumerate() {
                let picture = loop {
                    if let Some(picture) = early.remove(&number) {
                        break picture;
                    }
                    let (number, picture) = arrived.recv().context("a thread that reads photos has ended")?;
                    early.insert(number, picture);
                };
                let (levels, shape) = picture?;
                let (scores, milliseconds, done) = self.run(&levels, &shape)?;
                then(photo, scores, milliseconds, &done)?;
                places.recv().context("a thread that reads photos has ended")?;
            }
            Ok(())
        })
    }
}

/// Names the best class of photos with the model that is used if none is named. For measurements.
pub(crate) fn measured<T>(
    device: &Device,
    file: &Path,
    measure: impl FnOnce(&mut dyn FnMut(&[PathBuf]) -> Result<Vec<String>>) -> Result<T>,
) -> Result<T> {
    let model = onnx::open(file)?;
    let classifier = Classifier::of(&model, false)?;
    let labels = labels(None, classifier.classes)?;
    device.add_model(KERNEL, &model)?;
    let mut network = Network::new(&classifier, device)?;
    measure(&mut |photos| {
        let mut names = Vec::with_capacity(photos.len());
        network.each(photos, |_, scores, _, _| {
            names.extend(classifier.best(&scores, &labels, 1).pop().map(|class| class.label));
            Ok(())
        })?;
        Ok(names)
    })
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
