//! Recipes: what is asked of photos, recordings and files. A model is opened when it is first asked for, and stays open as long as
//! the same file is meant.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use dala_compute::{Device, HostData};
use dala_image::{ImageError, Limits, Picture, Samples};
use dala_recipes::text::{DETECTOR, RECOGNISER, Reader, TextLine, on_white};
use dala_recipes::{
    Ears, FACES, FILE_TYPE_MODEL, Face, Faces, FileType, FileTypes, Heard, ModelFile, RecipeError, SPEECH_MODEL,
    UPSCALE, Upscaler, Wav, WavError, find, find_in,
};

use crate::lock::lock;

/// Larger pictures are refused before they are decoded, as by `Dala.Media.decode/2`.
const MOST_PIXELS: u64 = 50_000_000;

/// The recipes of a device.
#[derive(Default)]
pub(crate) struct Recipes {
    faces: Kept<Faces>,
    reader: Kept<Reader>,
    upscaler: Kept<Upscaler>,
    ears: Kept<Ears>,
    file_types: Kept<FileTypes>,
}

/// A recipe with the files that were asked for last. One of each kind, because models take memory of the device.
struct Kept<R>(Mutex<Option<(Vec<Version>, Arc<R>)>>);

/// A file as it is now: one that was replaced is another.
type Version = (PathBuf, Option<(u64, SystemTime)>);

impl<R> Default for Kept<R> {
    fn default() -> Kept<R> {
        Kept(Mutex::new(None))
    }
}

impl<R> Kept<R> {
    fn get(&self, files: &[&Path], open: impl FnOnce() -> Result<R, RecipeError>) -> Result<Arc<R>, RecipeError> {
        let version = |file: &Path| {
            let found = file.metadata().ok();
            found.and_then(|found| Some((found.len(), found.modified().ok()?)))
        };
        let files: Vec<Version> = files.iter().map(|file| (file.to_path_buf(), version(file))).collect();
        // Whoever wants the same meanwhile waits for it: each is in a thread of its own.
        let mut kept = lock(&self.0);
        if let Some((own, recipe)) = &*kept
            && *own == files
        {
            return Ok(recipe.clone());
        }
        // What it held on the device is free for the next.
        *kept = None;
        let recipe = Arc::new(open()?);
        *kept = Some((files, recipe.clone()));
        Ok(recipe)
    }
}

/// The file of a model that was named, and the folder in which it is otherwise, unless that is the usual one.
pub(crate) type Asked = (Option<String>, Option<String>);

fn model_file(model: ModelFile, (named, folder): Asked) -> Result<PathBuf, RecipeError> {
    match (named, folder) {
        (None, Some(folder)) => find_in(Path::new(&folder), model),
        (named, _) => find(model, named.map(PathBuf::from)),
    }
}

/// What a recipe is given.
pub(crate) enum Given {
    Path(PathBuf),
    /// The content of a file.
    File(HostData),
    /// Height, width and channels; whether they are floats; and the pixels.
    Pixels((usize, usize, usize), bool, HostData),
}

impl Given {
    fn picture(self) -> Result<Picture, NotDone> {
        let limits = Limits::pixels(MOST_PIXELS);
        match self {
            Given::Path(path) => {
                let file = File::open(&path).map_err(|error| NotDone::unreadable(&path, &error))?;
                let bytes = dala_image::read_bytes(file, &limits).map_err(|error| match error {
                    ImageError::Io { message, .. } => NotDone::unreadable(&path, &message),
                    other => other.into(),
                })?;
                Ok(dala_image::decode(&bytes, &limits)?)
            }
            Given::File(bytes) => Ok(dala_image::decode(bytes.as_ref(), &limits)?),
            Given::Pixels((height, width, channels), floats, bytes) => {
                let levels = match floats {
                    true => dala_image::levels_of_bytes(bytes.as_ref()),
                    false => bytes.as_ref().to_vec(),
                };
                Ok(Picture::new(height, width, channels, Samples::U8(levels))?)
            }
        }
    }
}

/// Why there is no answer.
pub(crate) enum NotDone {
    Recipe(RecipeError),
    Picture(ImageError),
    /// A file cannot be read at all: why, in words.
    Unreadable(String),
}

impl NotDone {
    fn unreadable(path: &Path, why: &impl ToString) -> NotDone {
        NotDone::Unreadable(format!("cannot read {}: {}", path.display(), why.to_string()))
    }
}

impl From<RecipeError> for NotDone {
    fn from(error: RecipeError) -> NotDone {
        NotDone::Recipe(error)
    }
}

impl From<ImageError> for NotDone {
    fn from(error: ImageError) -> NotDone {
        NotDone::Picture(error)
    }
}

impl From<WavError> for NotDone {
    fn from(error: WavError) -> NotDone {
        NotDone::Recipe(error.into())
    }
}

impl Recipes {
    /// The faces in a photo.
    pub(crate) fn detect(
        &self,
        device: &Device,
        photo: Given,
        model: Asked,
        (threshold, longer_side): (f32, usize),
    ) -> Result<Vec<Face>, NotDone> {
        let photo = photo.picture()?;
        let model = model_file(FACES, model)?;
        let faces = self.faces.get(&[&model], || Faces::open(device, &model))?;
        Ok(Faces::clone(&faces).with_longer_side(longer_side).detect(&photo, threshold)?)
    }

    /// The lines of text in a photo.
    pub(crate) fn read(
        &self,
        device: &Device,
        photo: Given,
        (detector, recogniser): (Asked, Asked),
    ) -> Result<Vec<TextLine>, NotDone> {
        let photo = on_white(photo.picture()?)?;
        let detector = model_file(DETECTOR, detector)?;
        let recogniser = model_file(RECOGNISER, recogniser)?;
        let open = || Reader::open(device, &detector, &recogniser);
        let reader = self.reader.get(&[&detector, &recogniser], open)?;
        Ok(reader.read(&photo.samples.levels(), photo.height, photo.width)?)
    }

    /// A photo made larger.
    pub(crate) fn upscale(&self, device: &Device, photo: Given, model: Asked) -> Result<Picture, NotDone> {
        let photo = photo.picture()?;
        let model = model_file(UPSCALE, model)?;
        Ok(self.upscaler.get(&[&model], || Upscaler::open(device, &model))?.upscale(&photo)?)
    }

    /// When somebody speaks in a recording.
    pub(crate) fn listen(&self, device: &Device, recording: Given, model: Asked) -> Result<Heard, NotDone> {
        let ears = || {
            let model = model_file(SPEECH_MODEL, model)?;
            self.ears.get(&[&model], || Ears::open(device, &model))
        };
        match recording {
            Given::Path(path) => {
                let file = File::open(&path).map_err(|error| NotDone::unreadable(&path, &error))?;
                let recording = Wav::open(BufReader::new(file))?;
                Ok(ears()?.listen_to(recording)?)
            }
            Given::File(bytes) | Given::Pixels(_, _, bytes) => {
                let recording = Wav::open(Cursor::new(bytes))?;
                Ok(ears()?.listen_to(recording)?)
            }
        }
    }

    /// What kind of file something is.
    pub(crate) fn describe_type(&self, device: &Device, file: Given, model: Asked) -> Result<FileType, NotDone> {
        let model = model_file(FILE_TYPE_MODEL, model)?;
        let labels = model.with_extension("json");
        let types = self.file_types.get(&[&model, &labels], || FileTypes::open(device, &model, &labels))?;
        Ok(match file {
            Given::Path(path) => types.describe_path(&path)?,
            Given::File(bytes) | Given::Pixels(_, _, bytes) => types.describe(bytes.as_ref())?,
        })
    }
}
