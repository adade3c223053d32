//! Where models are: in a folder of the user's, by name. Nothing is fetched in silence.

use std::env;
use std::path::{Path, PathBuf};

use crate::RecipeError;

/// A model that a recipe uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// What its file is called, without `.onnx`.
    pub name: &'static str,
    /// What `scripts/get-models` fetches it for.
    pub recipe: &'static str,
}

/// The file of a model: one that is named, or that of its name in `$DALA_MODELS` or `~/.cache/dala-compute/models`.
///
/// # Errors
/// [`RecipeError::Missing`] if there is none; it says how to get it.
pub fn find(model: ModelFile, named: Option<PathBuf>) -> Result<PathBuf, RecipeError> {
    if let Some(file) = named {
        return Ok(file);
    }
    match env::var_os("DALA_MODELS").filter(|folder| !folder.is_empty()) {
        Some(folder) => find_in(Path::new(&folder), model),
        None => find_in(&env::home_dir().unwrap_or_default().join(".cache/dala-compute/models"), model),
    }
}

/// The file of a model in another folder of models.
///
/// # Errors
/// As [`find`].
pub fn find_in(folder: &Path, model: ModelFile) -> Result<PathBuf, RecipeError> {
    let file = folder.join(format!("{}.onnx", model.name));
    match file.is_file() {
        true => Ok(file),
        false => {
            let ModelFile { name, recipe } = model;
            Err(RecipeError::Missing { name, path: file.display().to_string(), recipe })
        }
    }
}
