//! What people ask of photos, recordings and files, answered by published models: each recipe prepares what a model takes, runs it
//! in a [`Session`](dala_model::Session), and makes of what it gives something that can be read or drawn.

mod error;
mod file_type;
mod models;
mod speech;

pub use error::RecipeError;
pub use file_type::{Excerpt, FILE_TYPE_MODEL, FileType, FileTypes};
pub use models::{ModelFile, find};
pub use speech::{
    Ears, Heard, Listener, Resampler, SILENCE, SPEECH, SPEECH_MODEL, Span, WINDOW_SECONDS, Wav, WavError, resample,
};
