//! Weights that are in other files, in the model's folder.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use crate::ModelError;
use crate::error::shown;
use crate::limits::MAX_EXTERNAL_READS;
use crate::proto::TensorProto;

/// Where the files are, and how much was read of each: memory for weights must be justified by files of their size.
pub(crate) struct Folder<'a> {
    path: Option<&'a Path>,
    read: RefCell<HashMap<PathBuf, u64>>,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(path: Option<&'a Path>) -> Folder<'a> {
        Folder { path, read: RefCell::default() }
    }

    /// Notes that so much is read of a file; false if that is too often.
    fn note(&self, path: &Path, len: u64, size: u64) -> bool {
        let mut read = self.read.borrow_mut();
        let all = read.entry(path.to_owned()).or_default();
        *all = all.saturating_add(len);
        *all <= size.saturating_mul(MAX_EXTERNAL_READS)
    }
}

/// The `len` bytes of a tensor's elements. They are read, not mapped: a mapped file that somebody cuts short would end the process.
pub(crate) fn elements(tensor: &TensorProto, len: usize, folder: &Folder<'_>) -> Result<Bytes, ModelError> {
    let refused = |why: String| ModelError::ExternalData { tensor: shown(&tensor.name), why };
    let entry =
        |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| refused(format!("its {key} `{}` is no number", shown(text)))),
    };
    let location = entry("location").ok_or_else(|| refused("it does not say in which".to_owned()))?;
    let (start, stated): (Option<u64>, Option<u64>) = (number("offset")?, number("length")?);
    if stated.is_some_and(|stated| stated != len as u64) {
        return Err(refused(format!("its shape takes {len} bytes, and it says {}", stated.unwrap_or_default())));
    }
    let inner = folder.path.ok_or_else(|| refused("and the model was not opened as a file".to_owned()))?;
    let path = inside(inner, location).map_err(refused)?;
    let failed = |source| ModelError::Io { path: path.display().to_string(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let (size, start) = (file.metadata().map_err(failed)?.len(), start.unwrap_or_default());
    // Before memory is taken for it.
    if start.checked_add(len as u64).is_none_or(|end| end > size) {
        return Err(refused(format!("it is {len} bytes from {start} on, and `{}` has {size}", shown(location))));
    }
    if !folder.note(&path, len as u64, size) {
        let why = format!("weights read all of `{}` more than {MAX_EXTERNAL_READS} times", shown(location));
        return Err(refused(why));
    }
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes.into())
}

/// The file of that name in a folder or below it; links that lead out of it are refused.
fn inside(folder: &Path, location: &str) -> Result<PathBuf, String> {
    let relative = Path::new(location);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{}` is not in the model's folder", shown(location)));
    }
    let missing = |_| format!("`{}` is not there", shown(location));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (folder, path) =
        (folder.canonicalize().map_err(missing)?, folder.join(relative).canonicalize().map_err(missing)?);
    match (path.starts_with(&folder), path.is_file()) {
        (true, true) => Ok(path),
        (true, false) => Err(format!("`{}` is no file", shown(location))),
        (false, _) => Err(format!("`{}` leads out of the model's folder", shown(location))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_in_the_folder_are_read() {
        let folder = std::env::temp_dir().join(format!("dala-external-{}", std::process::id()));
        let inner = folder.join("model");
        std::fs::create_dir_all(inner.join("parts")).unwrap();
        std::fs::write(folder.join("secret"), b"no").unwrap();
        std::fs::write(inner.join("parts/weights"), b"12345678").unwrap();
        assert!(inside(&inner, "parts/weights").is_ok() && inside(&inner, "./parts/weights").is_ok());
        for bad in ["../secret", "parts/../../secret", "/etc/passwd", "parts", "", "nothing"] {
            assert!(inside(&inner, bad).is_err(), "{bad}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.join("secret"), inner.join("link")).unwrap();
            assert!(inside(&inner, "link").unwrap_err().contains("leads out"));
            std::os::unix::fs::symlink(inner.join("parts/weights"), inner.join("same")).unwrap();
            assert!(inside(&inner, "same").is_ok());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
