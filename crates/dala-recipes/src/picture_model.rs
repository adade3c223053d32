//! A model that takes photos of any size.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dala_compute::{Buffer, DType, Device, Params, Readback, Shape, Stage};
use dala_image::Picture;
use dala_model::{Dim, LoadModel, Model, Session};

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
    staged: Mutex<Staged>,
}

/// The network as a kernel, for stages.
#[derive(Default)]
struct Staged {
    /// What the device knows it by, once it does.
    kernel: Option<String>,
    /// The sizes that it was used with, and the shapes of what it gives then.
    sizes: Vec<(Size, Vec<Shape>)>,
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
        let (sessions, staged) = (Mutex::default(), Mutex::default());
        Ok(PictureModel { device: device.clone(), model, path, input, sessions, staged })
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
        self.device.run("preprocess", &[&photo], &input, range.scale())?;
        let outputs = self.session(size)?.run(&[&input])?;
        outputs.iter().map(|output| Ok(output.read::<f32>()?)).collect()
    }

    /// The same as stages of a command that somebody else submits, and where the outputs are once it has completed.
    pub(crate) fn stages(
        &self,
        photo: &Picture,
        size: Size,
        range: Range,
    ) -> Result<(Vec<Stage>, Vec<Readback>), RecipeError> {
        check(photo)?;
        let (kernel, shapes) = self.staged(size)?;
        let given = Buffer::reserve(&self.device, DType::U8, [photo.height, photo.width, photo.channels])?;
        let input = Buffer::reserve(&self.device, DType::F32, [1, 3, size.height, size.width])?;
        let outputs = shapes.into_iter().map(|shape| Buffer::reserve(&self.device, DType::F32, shape));
        let outputs = outputs.collect::<Result<Vec<Buffer>, _>>()?;
        let mut stages = vec![
            Stage::write_buffer(&given, photo.samples.levels().into_owned()),
            Stage::run_kernel("preprocess", &[&given], &input, range.scale()),
            Stage::run_kernel(kernel, &[&input], outputs.iter().collect::<Vec<_>>(), ()),
        ];
        let read: Vec<Readback> = outputs.iter().map(|_| Readback::new()).collect();
        stages.extend(outputs.iter().zip(&read).map(|(output, into)| Stage::read_buffer(output, into)));
        Ok((stages, read))
    }

    /// The network's kernel, and the shapes of what it gives for photos of a size.
    fn staged(&self, size: Size) -> Result<(String, Vec<Shape>), RecipeError> {
        let mut staged = lock(&self.staged);
        let kernel = match &staged.kernel {
            Some(kernel) => kernel.clone(),
            None => {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
                let kernel = format!("recipe_{}", NEXT.fetch_add(1, Ordering::Relaxed));
                let axes = [2, 3].map(|axis| format!("{}.{axis}", self.input));
                let model = self.model.with_open_sizes(&axes.each_ref().map(String::as_str))?;
                self.device.add_model(&kernel, &model.with_sizes(&[(&format!("{}.0", self.input), 1)])?)?;
                staged.kernel.insert(kernel).clone()
            }
        };
        if let Some((_, shapes)) = staged.sizes.iter().find(|(own, _)| *own == size) {
            return Ok((kernel, shapes.clone()));
        }
        if staged.sizes.len() == REMEMBERED {
            // The device holds weights for each size.
            let known = self.device.kernels();
            known.iter().filter(|known| known.spec.name == kernel).for_each(|known| self.device.forget(known));
            staged.sizes.clear();
        }
        let shapes = self.outputs(size)?;
        staged.sizes.push((size, shapes.clone()));
        Ok((kernel, shapes))
    }

    fn sized(&self, Size { height, width }: Size) -> Result<Model, RecipeError> {
        let axes = [(0, 1), (2, height), (3, width)].map(|(axis, size)| (format!("{}.{axis}", self.input), size));
        let named: Vec<(&str, usize)> = axes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        Ok(self.model.with_sizes(&named)?)
    }

    fn session(&self, size: Size) -> Result<Arc<Session>, RecipeError> {
        let mut sessions = lock(&self.sessions);
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

impl Range {
    /// What makes levels of 0 to 1 what the network takes.
    fn scale(self) -> Params {
        let whole = match self {
            Range::Unit => 1.0,
            Range::Levels => 255.0,
        };
        Params::new().with("mean", vec![0.0; 3]).with("std", vec![1.0 / whole; 3])
    }
}

/// Nothing is left half-done by a panic under these locks.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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
