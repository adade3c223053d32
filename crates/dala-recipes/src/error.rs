//! What can go wrong.

use dala_model::{LoadError, ModelError};

use crate::speech::WavError;

/// Why a recipe gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A model is not where models are kept.
    #[error("the model `{name}` is missing: {path} is not there. Run `scripts/get-models {recipe}`, or name a file")]
    Missing {
        /// What the model is called.
        name: &'static str,
        /// Where it would be.
        path: String,
        /// What needs it.
        recipe: &'static str,
    },
    /// A file is a model, but not one that this recipe knows how to use.
    #[error("{path} is no model for this: {why}")]
    Unfit {
        /// The file.
        path: String,
        /// What does not fit.
        why: String,
    },
    /// What was given cannot be worked on.
    #[error("{0}")]
    Input(String),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] WavError),
    /// The model cannot be read, or does not run.
    #[error(transparent)]
    Model(#[from] LoadError),
    /// The device says no.
    #[error(transparent)]
    Device(#[from] dala_compute::Error),
}

impl From<ModelError> for RecipeError {
    fn from(error: ModelError) -> RecipeError {
        RecipeError::Model(LoadError::Model(error))
    }
}

impl RecipeError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            RecipeError::Missing { .. } => "missing_model",
            RecipeError::Unfit { .. } => "unfit_model",
            RecipeError::Input(_) => "bad_input",
            RecipeError::Recording(error) => error.code(),
            RecipeError::Model(error) => error.code(),
            RecipeError::Device(error) => error.code(),
        }
    }
}
