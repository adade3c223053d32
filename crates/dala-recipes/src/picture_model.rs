//! A model that takes photos of any size.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dala_compute::{Buffer, DType, Device, Params, Shape};
use dala_image::Picture;
use dala_model::{Dim, Model, Session};

use crate::RecipeError;

/// How many sizes are remembered: each holds weights and plans on the device.
const REMEMBERED: usize = 4;

/// A network over photos in colours, run at any size, whatever size its file says.
pub(crate) struct PictureModel {
    device: Device,
    model: Model,
    /// The file, for errors.
    path: String,
    /// What the network calls the photo.
    input: String,
    /// The last sizes, the latest first.
    sessions: Mutex<Vec<(Size, Arc<Session>)>>,
}

/// Rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) height: usize,
    pub(crate) width: usize,
}

/// What networks take for the levels of a photo.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Range {
    /// 0 to 1.
    Unit,
    /// 0 to 255.
    Levels,
}

impl PictureModel {
    /// Reads a model of one input, f32 `{batch, 3, height, width}`.
    pub(crate) fn open(device: &Device, file: &Path) -> Result<PictureModel, RecipeError> {
        let (model, path) = (Model::open(file)?, file.display().to_string());
        let input = match model.inputs() {
            [input] if input.dtype == DType::F32 && matches!(input.dims[..], [_, Dim::Known(3), _, _]) => {
                input.name.clone()
            }
            _ => {
                let why = "it does not take one photo in colours, f32 {batch, 3, height, width}".to_owned();
                return Err(RecipeError::Unfit { path, why });
            }
        };
        Ok(PictureModel { device: device.clone(), model, path, input, sessions: Mutex::new(Vec::new()) })
    }

    /// The shapes of what it gives for photos of a size.
    pub(crate) fn outputs(&self, size: Size) -> Result<Vec<Shape>, RecipeError> {
        let shapes: Option<Vec<Shape>> = self.sized(size)?.outputs().iter().map(|output| output.shape(1)).collect();
        shapes.ok_or_else(|| self.unfit("what it gives depends on more than the size of a photo"))
    }

    /// This file is no model for what it is used for.
    pub(crate) fn unfit(&self, why: impl Into<String>) -> RecipeError {
        RecipeError::Unfit { path: self.path.clone(), why: why.into() }
    }

    /// Makes a photo as large as the network shall see it, on the device, and runs the network; gives its outputs.
    pub(crate) fn run(&self, photo: &Picture, size: Size, range: Range) -> Result<Vec<Vec<f32>>, RecipeError> {
        check(photo)?;
        let levels = photo.samples.levels();
        let photo = Buffer::from_slice(&self.device, &levels, [photo.height, photo.width, photo.channels])?;
        let input = Buffer::reserve(&self.device, DType::F32, [1, 3, size.height, size.width])?;
        let whole = match range {
            Range::Unit => 1.0,
            Range::Levels => 255.0,
        };
        let scale = Params::new().with("mean", vec![0.0; 3]).with("std", vec![1.0 / whole; 3]);
        self.device.run("preprocess", &[&photo], &input, scale)?;
        let outputs = self.session(size)?.run(&[&input])?;
        outputs.iter().map(|output| Ok(output.read::<f32>()?)).collect()
    }

    fn sized(&self, Size { height, width }: Size) -> Result<Model, RecipeError> {
        let axes = [(0, 1), (2, height), (3, width)].map(|(axis, size)| (format!("{}.{axis}", self.input), size));
        let named: Vec<(&str, usize)> = axes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        Ok(self.model.with_sizes(&named)?)
    }

    fn session(&self, size: Size) -> Result<Arc<Session>, RecipeError> {
        // Nothing is left half-done by a panic under this lock.
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions.iter().position(|(own, _)| *own == size).map(|place| sessions.remove(place));
        let session = match known {
            Some((_, session)) => session,
            None => Arc::new(Session::new(&self.device, &self.sized(size)?)),
        };
        sessions.insert(0, (size, session.clone()));
        sessions.truncate(REMEMBERED);
        Ok(session)
    }
}

/// Refuses what is no picture: its fields can be anything.
pub(crate) fn check(photo: &Picture) -> Result<(), RecipeError> {
    let Picture { height, width, channels, samples, .. } = photo;
    let expected = height.checked_mul(*width).and_then(|pixels| pixels.checked_mul(*channels));
    match [1, 3, 4].contains(channels) && !samples.is_empty() && expected == Some(samples.len()) {
        true => Ok(()),
        false => Err(RecipeError::Input(format!(
            "{height} rows of {width} pixels of {channels} channels are no picture of {} samples",
            samples.len()
        ))),
    }
}
