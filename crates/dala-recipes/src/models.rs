//! Where models are: in a folder of the user's, by name. Nothing is fetched in silence.

use std::env;
use std::path::PathBuf;

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
    let folder = match env::var_os("DALA_MODELS").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir().unwrap_or_default().join(".cache/dala-compute/models"),
    };
    let file = folder.join(format!("{}.onnx", model.name));
    match file.is_file() {
        true => Ok(file),
        false => {
            let ModelFile { name, recipe } = model;
            Err(RecipeError::Missing { name, path: file.display().to_string(), recipe })
        }
    }
}
