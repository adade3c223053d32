//! What people ask of photos, recordings and files, answered by published models: each recipe prepares what a model takes, runs it
//! in a [`Session`](dala_model::Session), and makes of what it gives something that can be read or drawn.

mod draw;
mod error;
mod faces;
mod file_type;
mod models;
mod picture_model;
mod speech;
pub mod text;
mod upscale;

pub use draw::Drawing;
pub use error::RecipeError;
pub use faces::{FACE_THRESHOLD, FACES, Face, Faces, PendingFaces};
pub use file_type::{Excerpt, FILE_TYPE_MODEL, FileType, FileTypes};
pub use models::{ModelFile, find, find_in};
pub use speech::{
    Ears, Heard, Listener, Resampler, SILENCE, SPEECH, SPEECH_MODEL, Span, WINDOW_SECONDS, Wav, WavError, resample,
};
pub use upscale::{UPSCALE, Upscaler};

/// The Rust of the documents is compiled. (A test of `dala-cli` finds documents that are missing here.)
#[cfg(doctest)]
#[doc = include_str!("../../../docs/RECIPES.md")]
struct Recipes;
