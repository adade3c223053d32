//! A folder of models: which files there are, and which of them changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is in the folder: files by the names that they are served by.
pub(super) type Found = BTreeMap<String, (PathBuf, Stamp)>;

/// By which a file that was replaced is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    changed: Option<SystemTime>,
    bytes: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> io::Result<Stamp> {
        let data = path.metadata()?;
        Ok(Stamp { changed: data.modified().ok(), bytes: data.len() })
    }
}

/// Looks through a folder: `name.onnx` is the model `name`, `name.toml` the pipeline `name`.
pub(super) fn look(folder: &Path) -> io::Result<Found> {
    let mut found = Found::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let (Some(name), Some(kind)) = (path.file_stem().and_then(|name| name.to_str()), path.extension()) else {
            continue;
        };
        // Editors and copies write to hidden files first.
        if name.starts_with('.') || !(kind == "onnx" || kind == "toml") {
            continue;
        }
        // What is gone again was not there.
        if let Ok(stamp) = Stamp::of(&path) {
            found.insert(name.to_owned(), (path.clone(), stamp));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_pipelines_are_found_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("dala-repository-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a.onnx", "b.toml", ".hidden.onnx", "notes.txt", "c.onnx.part"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let names: Vec<String> = look(&folder).unwrap().into_keys().collect();
        assert_eq!(names, ["a", "b"]);
        let before = look(&folder).unwrap();
        std::fs::write(folder.join("a.onnx"), "longer").unwrap();
        let after = look(&folder).unwrap();
        assert_ne!(before["a"].1, after["a"].1);
        assert_eq!(before["b"].1, after["b"].1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
