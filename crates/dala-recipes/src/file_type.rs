//! What kind of file something is, by its bytes alone, with Magika's network.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use dala_compute::{Buffer, DType, Device};
use dala_model::{Dim, Model, Session};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{ModelFile, RecipeError};

/// The model that [`FileTypes`] uses; its labels are beside it, with the extension `json`.
pub const FILE_TYPE_MODEL: ModelFile = ModelFile { name: "file_type", recipe: "file_type" };

/// Bytes of the beginning and of the end that the network sees.
const SEEN: usize = 1024;
/// Bytes of both that are looked at for those, after white space.
const BLOCK: usize = 4096;
/// What stands for a byte that is not there.
const NOTHING: i32 = 256;
/// Fewer bytes than these say nothing to the network.
const LEAST: usize = 8;
/// Files that go through the network together.
const MOST_TOGETHER: usize = 16;
/// Labels files are a few kilobytes.
const MAX_LABELS_BYTES: u64 = 1 << 20;

/// What kind of file something is.
#[derive(Clone, Debug, PartialEq)]
pub struct FileType {
    /// A short name: `rust`, `png`, `txt`; `unknown` if nothing fits well, `empty` and `directory` for those.
    pub label: String,
    /// The same in words, where the folder of models has them.
    pub description: Option<String>,
    /// What programs call it: `image/png`.
    pub mime_type: Option<String>,
    /// How sure the network was, from 0 to 1; 1 if it was not asked.
    pub score: f32,
}

/// What is looked at of a file: some of its first and last bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt(Seen);

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    /// What is clear without the network.
    Known(&'static str),
    Bytes {
        bytes: Vec<i32>,
        /// Whether the beginning is text.
        is_text: bool,
    },
}

impl Excerpt {
    /// Of bytes that are all there.
    pub fn of_bytes(bytes: &[u8]) -> Excerpt {
        let first = bytes.get(..BLOCK).unwrap_or(bytes);
        let last = bytes.get(bytes.len().saturating_sub(BLOCK)..).unwrap_or_default();
        Excerpt::of_ends(first, last)
    }

    /// Of a file, a folder, or something else that has a path. Of long files most is not read.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn of_path(path: &Path) -> io::Result<Excerpt> {
        let kind = fs::metadata(path)?;
        if !kind.is_file() {
            // A pipe or a device may have no end, or none yet.
            return Ok(Excerpt(Seen::Known(if kind.is_dir() { "directory" } else { "unknown" })));
        }
        let mut file = File::open(path)?;
        let mut first = Vec::new();
        (&mut file).take(BLOCK as u64).read_to_end(&mut first)?;
        let length = file.metadata()?.len();
        if length <= BLOCK as u64 {
            return Ok(Excerpt::of_ends(&first, &first));
        }
        let mut last = Vec::new();
        file.seek(SeekFrom::Start(length - BLOCK as u64))?;
        file.take(BLOCK as u64).read_to_end(&mut last)?;
        Ok(Excerpt::of_ends(&first, &last))
    }

    /// Of something that can only be read from its beginning to its end, as a pipe. Only both ends are kept.
    ///
    /// # Errors
    /// What the reader says.
    pub fn of_stream(mut reader: impl Read) -> io::Result<Excerpt> {
        let mut first = Vec::new();
        (&mut reader).take(BLOCK as u64).read_to_end(&mut first)?;
        let mut last = first.clone();
        loop {
            let more = (&mut reader).take(BLOCK as u64).read_to_end(&mut last)?;
            last.drain(..last.len().saturating_sub(BLOCK));
            if more == 0 {
                return Ok(Excerpt::of_ends(&first, &last));
            }
        }
    }

    fn of_ends(first: &[u8], last: &[u8]) -> Excerpt {
        let is_text = std::str::from_utf8(first).is_ok();
        let start = trimmed_start(first);
        Excerpt(match () {
            () if first.is_empty() => Seen::Known("empty"),
            () if start.len() < LEAST => Seen::Known(if is_text { "txt" } else { "unknown" }),
            () => {
                let end = trimmed_end(last);
                let end = end.get(end.len().saturating_sub(SEEN)..).unwrap_or_default();
                let mut bytes: Vec<i32> = start.iter().take(SEEN).map(|byte| i32::from(*byte)).collect();
                // The beginning is padded at its end, the end at its beginning.
                bytes.resize(2 * SEEN - end.len(), NOTHING);
                bytes.extend(end.iter().map(|byte| i32::from(*byte)));
                Seen::Bytes { bytes, is_text }
            }
        })
    }
}

/// White space of ASCII, to which the vertical tab belongs.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

fn trimmed_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !is_space(byte)).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

fn trimmed_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

/// The labels file: what the network's outputs are called, and how sure it has to be of each.
#[derive(Debug, Deserialize)]
struct Labels {
    beg_size: usize,
    mid_size: usize,
    end_size: usize,
    block_size: usize,
    padding_token: i32,
    min_file_size_for_dl: usize,
    use_inputs_at_offsets: bool,
    medium_confidence_threshold: f64,
    target_labels_space: Vec<String>,
    thresholds: HashMap<String, f64>,
    overwrite_map: HashMap<String, String>,
}

impl Labels {
    /// Whether files are to be shown to the network as [`Excerpt`] has it.
    fn fits(&self) -> bool {
        (self.beg_size, self.mid_size, self.end_size, self.block_size) == (SEEN, 0, SEEN, BLOCK)
            && (self.padding_token, self.min_file_size_for_dl) == (NOTHING, LEAST)
            && !self.use_inputs_at_offsets
    }
}

/// What is known of a label.
#[derive(Clone, Debug, Default, Deserialize)]
struct Kind {
    mime_type: Option<String>,
    description: Option<String>,
    is_text: bool,
}

/// Tells kinds of files apart.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dala_recipes::{FILE_TYPE_MODEL, FileTypes, find};
/// let device = dala_compute::Device::open("auto")?;
/// let model = find(FILE_TYPE_MODEL, None)?;
/// let types = FileTypes::open(&device, &model, &model.with_extension("json"))?;
/// assert_eq!(types.describe(b"fn main() { println!(\"hello\"); }")?.label, "rust");
/// # Ok(())
/// # }
/// ```
pub struct FileTypes {
    session: Session,
    labels: Labels,
    kinds: HashMap<String, Kind>,
}

impl FileTypes {
    /// Reads the model and its labels. What labels mean is in `NAME.kinds.json` beside `NAME.json`; without it there are no
    /// descriptions, and whether a file is text is decided by its first bytes.
    ///
    /// # Errors
    /// Files that cannot be read, are no such model, or do not belong together.
    pub fn open(device: &Device, model: &Path, labels: &Path) -> Result<FileTypes, RecipeError> {
        let network = Model::open(model)?;
        let unfit = |path: &Path, why: String| RecipeError::Unfit { path: path.display().to_string(), why };
        let known: Labels = json(labels)?;
        if !known.fits() {
            return Err(unfit(labels, "its model looks at other parts of files".to_owned()));
        }
        let takes = match network.inputs() {
            [port] => {
                port.dtype == DType::S32 && matches!(port.dims[..], [Dim::Batch, Dim::Known(seen)] if seen == 2 * SEEN)
            }
            _ => false,
        };
        if !takes {
            return Err(unfit(model, format!("it does not take {} bytes of each file, as s32", 2 * SEEN)));
        }
        let count = known.target_labels_space.len();
        let gives = match network.outputs() {
            [port] => port.dtype == DType::F32 && port.shape(1).is_some_and(|shape| shape.len() == count),
            _ => false,
        };
        if !gives {
            return Err(unfit(model, format!("it does not give a number for each of {count} labels")));
        }
        let file = labels.with_extension("kinds.json");
        let kinds = if file.is_file() { json(&file)? } else { HashMap::new() };
        Ok(FileTypes { session: Session::new(device, &network), labels: known, kinds })
    }

    /// The kind of a file with these bytes.
    ///
    /// # Errors
    /// Whatever the device says.
    pub fn describe(&self, bytes: &[u8]) -> Result<FileType, RecipeError> {
        self.describe_one(&Excerpt::of_bytes(bytes))
    }

    /// The kind of the file at a path, of a folder, or of something else that is there.
    ///
    /// # Errors
    /// [`RecipeError::Input`] if it cannot be read, and whatever the device says.
    pub fn describe_path(&self, path: &Path) -> Result<FileType, RecipeError> {
        let excerpt = Excerpt::of_path(path);
        self.describe_one(&excerpt.map_err(|error| RecipeError::Input(format!("{}: {error}", path.display())))?)
    }

    fn describe_one(&self, excerpt: &Excerpt) -> Result<FileType, RecipeError> {
        let all = self.describe_all(std::slice::from_ref(excerpt))?;
        Ok(all.into_iter().next().unwrap_or_else(|| self.kind("unknown", 1.0)))
    }

    /// The kinds of many files, in their order. They go through the network together.
    ///
    /// # Errors
    /// Whatever the device says.
    pub fn describe_all(&self, files: &[Excerpt]) -> Result<Vec<FileType>, RecipeError> {
        let seen = |file: &'_ Excerpt| matches!(file.0, Seen::Bytes { .. });
        let asked: Vec<&Excerpt> = files.iter().filter(|file| seen(file)).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for together in asked.chunks(MOST_TOGETHER) {
            answers.extend(self.ask(together)?);
        }
        let mut answers = answers.into_iter();
        let kind = |file: &Excerpt| match file.0 {
            Seen::Known(label) => self.kind(label, 1.0),
            Seen::Bytes { .. } => answers.next().unwrap_or_else(|| self.kind("unknown", 1.0)),
        };
        Ok(files.iter().map(kind).collect())
    }

    /// What the network says of a few files.
    fn ask(&self, files: &[&Excerpt]) -> Result<Vec<FileType>, RecipeError> {
        // Few sizes, so that few are planned.
        let batch = if files.len() == 1 { 1 } else { MOST_TOGETHER };
        let mut input = Vec::with_capacity(batch * 2 * SEEN);
        let mut is_text = Vec::with_capacity(files.len());
        for file in files {
            if let Seen::Bytes { bytes, is_text: text } = &file.0 {
                input.extend(bytes);
                is_text.push(*text);
            }
        }
        input.resize(batch * 2 * SEEN, NOTHING);
        let input = Buffer::from_slice(self.session.device(), &input, [batch, 2 * SEEN])?;
        let outputs = self.session.run(&[&input])?;
        let Some(output) = outputs.first() else { return Ok(Vec::new()) };
        let scores = output.read::<f32>()?;
        let rows = scores.chunks(self.labels.target_labels_space.len().max(1));
        Ok(rows.zip(is_text).map(|(row, is_text)| self.decided(row, is_text)).collect())
    }

    /// The label with the highest score, if that is high enough; otherwise what can be said without it.
    fn decided(&self, scores: &[f32], is_text: bool) -> FileType {
        let labels = &self.labels;
        let best = scores.iter().zip(&labels.target_labels_space).rev().max_by(|a, b| a.0.total_cmp(b.0));
        let Some((&score, label)) = best else { return self.kind("unknown", 0.0) };
        let shown = labels.overwrite_map.get(label).unwrap_or(label);
        let least = labels.thresholds.get(label).copied().unwrap_or(labels.medium_confidence_threshold);
        if f64::from(score) >= least {
            return self.kind(shown, score);
        }
        let is_text = self.kinds.get(shown).map_or(is_text, |kind| kind.is_text);
        self.kind(if is_text { "txt" } else { "unknown" }, score)
    }

    fn kind(&self, label: &str, score: f32) -> FileType {
        let Kind { mime_type, description, .. } = self.kinds.get(label).cloned().unwrap_or_default();
        FileType { label: label.to_owned(), description, mime_type, score }
    }
}

/// Reads a small JSON file.
fn json<T: DeserializeOwned>(path: &Path) -> Result<T, RecipeError> {
    let unfit = |why: String| RecipeError::Unfit { path: path.display().to_string(), why };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unfit(error.to_string()))?;
    file.take(MAX_LABELS_BYTES).read_to_string(&mut text).map_err(|error| unfit(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(excerpt: &Excerpt) -> &[i32] {
        match &excerpt.0 {
            Seen::Bytes { bytes, .. } => bytes,
            Seen::Known(label) => panic!("{label}"),
        }
    }

    #[test]
    fn little_is_known_without_the_network() {
        for (bytes, expected) in [
            (&b""[..], "empty"),
            (b"short", "txt"),
            (b"\xFF\xFE", "unknown"),
            (b" \n \n \n \n \n", "txt"),
            (b"          \xFF", "unknown"),
            (b" \t\r\n\x0B\x0C 1234567", "txt"),
        ] {
            assert_eq!(Excerpt::of_bytes(bytes).0, Seen::Known(expected));
        }
        // White space after the first bytes counts.
        assert!(matches!(Excerpt::of_bytes(b"1234567 ").0, Seen::Bytes { is_text: true, .. }));
    }

    #[test]
    fn both_ends_are_padded_away_from_the_file() {
        let short = Excerpt::of_bytes(b"  0123456789\n");
        let seen = bytes(&short);
        assert_eq!(seen.len(), 2 * SEEN);
        assert_eq!((seen[0], seen[9], seen[10], seen[11]), (48, 57, 10, NOTHING));
        // The end has the white space of the beginning, and none of its own.
        assert_eq!((seen[2 * SEEN - 13], seen[2 * SEEN - 12], seen[2 * SEEN - 1]), (NOTHING, 32, 57));
        let long: Vec<u8> = (0..10_000u32).map(|place| (place / 40) as u8 + 1).collect();
        let long = Excerpt::of_bytes(&long);
        let seen = bytes(&long);
        assert!(seen.iter().all(|byte| *byte != NOTHING));
        assert_eq!((seen[0], seen[2 * SEEN - 1]), (1, 250));
    }

    #[test]
    fn files_streams_and_bytes_look_the_same() {
        let folder = std::env::temp_dir().join(format!("dala-file-type-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for length in [0, 7, 8, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17] {
            let all: Vec<u8> = (0..length).map(|place| (place * place / 7) as u8).collect();
            let file = folder.join(length.to_string());
            fs::write(&file, &all).unwrap();
            let expected = Excerpt::of_bytes(&all);
            assert_eq!(Excerpt::of_path(&file).unwrap(), expected, "{length}");
            assert_eq!(Excerpt::of_stream(&all[..]).unwrap(), expected, "{length}");
        }
        assert_eq!(Excerpt::of_path(&folder).unwrap(), Excerpt(Seen::Known("directory")));
        assert!(Excerpt::of_path(&folder.join("nowhere")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
