//! Pipelines for pictures: a file comes in, a PNG goes out.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use dala_compute::{Buffer, DType, Device, Error, Plan, Shape, TensorType};
use dala_image::{Format, Limits, Picture, Samples, decode};
use dala_plan::PipelineText;
use lru::LruCache;

use super::home::{Home, Opened, is_lost};
use super::work::{Failure, Ran, Share, Work};
use crate::{Datatype, Lane, ModelInfo, Port, Refusal, Tensor};

/// What a pipeline calls the picture that it is given, and the one that it makes.
const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// Plans that are kept, one for each size and type of pictures.
const PLANS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// The height and width of pictures that pipelines are tried on.
const SAMPLE: usize = 512;

/// A pipeline on a device.
pub(super) struct Pictures {
    text: PipelineText,
    home: Arc<Home>,
    limits: Limits,
    ready: Mutex<LruCache<(usize, TensorType), Arc<Ready>>>,
}

/// A plan with its own buffers: one picture at a time goes through it.
struct Ready {
    plan: Plan,
    input: Buffer,
    output: Buffer,
    turn: Mutex<()>,
}

impl Pictures {
    /// A pipeline that reads pictures of at most so many pixels.
    ///
    /// # Errors
    /// It reads something else than a picture called `input`, or does not write `output`.
    pub(super) fn new(text: PipelineText, home: &Arc<Home>, pixels: u64) -> Result<Pictures, String> {
        if let Some(other) = text.inputs().into_iter().find(|name| *name != INPUT) {
            return Err(format!("the pipeline reads `{other}`, and it is given one picture, `{INPUT}`"));
        }
        if !text.outputs().contains(&OUTPUT) {
            return Err(format!("the pipeline does not write `{OUTPUT}`"));
        }
        let ready = Mutex::new(LruCache::new(PLANS));
        Ok(Pictures { text, home: home.clone(), limits: Limits::pixels(pixels), ready })
    }

    /// Whether there are pictures that it can be run on: in colour, grey, with transparency, or of floats.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn check(&self) -> Result<(), String> {
        let opened = self.home.now();
        let kinds = [(DType::U8, 3), (DType::U8, 1), (DType::U8, 4), (DType::F32, 3), (DType::F32, 1)];
        let mut first = None;
        for (dtype, channels) in kinds {
            let ty = TensorType::new(dtype, Shape::from([SAMPLE, SAMPLE, channels]));
            match self.compile(&opened.device, &ty) {
                Ok(_) => return Ok(()),
                Err(problem) => first = first.or_else(|| Some(problem.to_string())),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// What clients may know of it.
    pub(super) fn info(name: &str, version: &str) -> ModelInfo {
        let version: Arc<str> = version.into();
        let port =
            |name: &str| Port { name: name.into(), datatype: Datatype::Bytes, shape: vec![Some(1)], optional: false };
        ModelInfo {
            name: name.into(),
            versions: vec![version.clone()],
            version,
            platform: "dala_pipeline".into(),
            inputs: vec![port(INPUT)],
            outputs: vec![port(OUTPUT)],
            max_batch: None,
        }
    }

    /// What a request for it brings: the file as it was sent.
    pub(super) fn inputs(picture: Bytes) -> Vec<Tensor> {
        vec![Tensor { name: INPUT.into(), datatype: Datatype::Bytes, shape: vec![1], data: picture }]
    }

    fn ready(&self, opened: &Opened, ty: &TensorType) -> Result<Arc<Ready>, Error> {
        let key = (opened.number, ty.clone());
        let mut kept = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = kept.get(&key) {
            return Ok(ready.clone());
        }
        drop(kept);
        let ready = Arc::new(self.compile(&opened.device, ty)?);
        kept = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(key, ready.clone());
        Ok(ready)
    }

    fn compile(&self, device: &Device, ty: &TensorType) -> Result<Ready, Error> {
        let input = Buffer::zeros(device, ty.dtype, ty.shape.clone())?;
        let (pipeline, results) = device.read_pipeline(&self.text, &[(INPUT, &input)], &[OUTPUT])?;
        let plan = device.compile(&pipeline)?;
        let output = results.into_iter().next().unwrap_or_else(|| input.clone());
        Ok(Ready { plan, input, output, turn: Mutex::new(()) })
    }

    fn filtered(&self, opened: &Opened, lane: Lane, file: &Bytes) -> Result<Ran, Problem> {
        let begun = Instant::now();
        let picture = decode(file, &self.limits).map_err(|error| Problem::Picture(error.to_string()))?;
        let shape = Shape::from([picture.height, picture.width, picture.channels]);
        let (dtype, samples) = match picture.samples {
            Samples::F32(floats) => (DType::F32, Samples::F32(floats)),
            // Kernels know pictures of u8 and f32.
            other => (DType::U8, Samples::U8(other.into_levels())),
        };
        let ready = self.ready(opened, &TensorType::new(dtype, shape))?;
        let turn = ready.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &samples {
            Samples::U8(levels) => ready.input.write(levels)?,
            Samples::F32(floats) => ready.input.write(floats)?,
            Samples::U16(_) => {}
        }
        let uploaded = Instant::now();
        ready.plan.run_in(lane)?;
        let ran = Instant::now();
        let Some(size) = ready.output.shape().picture() else {
            let ty = TensorType::new(ready.output.dtype(), ready.output.shape().clone());
            return Err(Problem::Picture(format!("the pipeline makes {ty}, which is no picture")));
        };
        let samples = match ready.output.dtype() {
            DType::F32 => Samples::F32(ready.output.read()?),
            _ => Samples::U8(ready.output.read()?),
        };
        drop(turn);
        let made = Picture::new(size.height, size.width, size.channels, samples)
            .and_then(|made| Picture { profile: picture.profile, ..made }.encode(Format::Png))
            .map_err(|error| Problem::Picture(error.to_string()))?;
        if let Some(why) = made.dropped {
            tracing::info!(%why, "the colour profile of a picture is left out");
        }
        let (name, data) = (OUTPUT.into(), Bytes::from(made.bytes));
        let output = Tensor { name, datatype: Datatype::Bytes, shape: vec![1], data };
        let times = [uploaded - begun, ran - uploaded, ran.elapsed()];
        Ok(Ran { outputs: vec![vec![output]], times })
    }
}

/// What went wrong with a picture.
enum Problem {
    Picture(String),
    Device(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Device(error)
    }
}

impl Work for Pictures {
    fn run(&self, _: usize, lane: Lane, shares: &[Share]) -> Result<Ran, Failure> {
        let opened = self.home.now();
        let Some(file) = shares.first().and_then(|share| share.inputs.first()) else {
            return Err(Failure::Refused(Refusal::Internal("a run without a picture".to_owned())));
        };
        self.filtered(&opened, lane, &file.data).map_err(|problem| match problem {
            Problem::Picture(what) => Failure::Refused(Refusal::BadInput(what)),
            Problem::Device(error) if is_lost(error.code()) => {
                self.home.again(opened.number);
                Failure::Lost
            }
            Problem::Device(error @ (Error::Pipeline { .. } | Error::InStage { .. } | Error::Spec(_))) => {
                Failure::Refused(Refusal::BadInput(error.to_string()))
            }
            Problem::Device(error) => Failure::Refused(Refusal::Failed(error.to_string())),
        })
    }
}
