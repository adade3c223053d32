//! Which pictures are meant, and what the results are called.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use dala_image::Format;

use crate::args::PictureFormat;
use crate::picture;

/// One picture, and where its results go: a file for each buffer that is written.
#[derive(Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) input: PathBuf,
    pub(crate) outputs: Vec<PathBuf>,
}

/// Whether these arguments mean more than one picture, or a folder for the result.
pub(crate) fn is_batch(inputs: &[&Path], output: Option<&Path>) -> bool {
    let many = |path: &&Path| path.is_dir() || pattern(path).is_some();
    let folder = |path: &Path| path.is_dir() || path.as_os_str().to_string_lossy().ends_with(['/', '\\']);
    inputs.len() > 1 || inputs.iter().any(many) || output.is_some_and(folder)
}

/// The pattern that an argument is. A file may have such characters in its name: then it is meant.
fn pattern(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists())
}

/// The pictures that files, folders and patterns mean, each once. Folders and patterns are sorted by name.
pub(crate) fn expand(arguments: &[&Path]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in arguments {
        let name = path.display();
        if path.is_dir() {
            let inside = in_folder(path).with_context(|| format!("cannot read {name}"))?;
            if inside.is_empty() {
                let all = picture::extensions(is_picture);
                bail!("there is no {all} file in {name}; folders in it are looked into by '{name}/**/*.jpg'");
            }
            found.extend(inside);
        } else if let Some(pattern) = pattern(path) {
            let matches = glob::glob(pattern).with_context(|| format!("cannot read the pattern {name}"))?;
            let matches: Vec<PathBuf> = matches.collect::<Result<_, _>>()?;
            let before = found.len();
            // Arrays too: whoever names them wants them.
            found.extend(matches.into_iter().filter(|path| is_of(path, |_| true)));
            if found.len() == before {
                bail!("no {} file is called {name}", picture::extensions(|_| true));
            }
        } else {
            found.push(path.to_path_buf());
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    Ok(found)
}

/// The pictures of a folder, sorted by name.
pub(crate) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut inside: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    inside.retain(|path| is_of(path, is_picture));
    inside.sort();
    Ok(inside)
}

/// Whether files of this format are pictures wherever they are: an array may be anything.
fn is_picture(format: Format) -> bool {
    !format.is_array()
}

/// By its name. Names with a dot in front are not for people.
fn is_of(path: &Path, meant: impl Fn(Format) -> bool) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && Format::of_path(path).is_some_and(meant) && path.is_file()
}

/// What is to be done, with a name for every result. Refuses what would overwrite a result or a picture.
pub(crate) fn jobs(inputs: Vec<PathBuf>, folders: &[&Path], format: Option<PictureFormat>) -> Result<Vec<Job>> {
    let mut owners: HashMap<PathBuf, usize> = HashMap::new();
    let mut jobs: Vec<Job> = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = result_name(&input, format)?;
        let outputs: Vec<PathBuf> = folders.iter().map(|folder| folder.join(&name)).collect();
        for output in &outputs {
            if let Some(other) = owners.insert(key(output), jobs.len()) {
                let first = jobs.get(other).map_or(&input, |job| &job.input);
                let (first, second, output) = (first.display(), input.display(), output.display());
                bail!(
                    "{first} and {second} would both be written as {output}: rename one, or give each its own folder"
                );
            }
        }
        jobs.push(Job { input, outputs });
    }
    // Only what exists can be overwritten, and only then do both have a real path.
    let real = |path: &Path| fs::canonicalize(path).ok();
    let own: HashMap<PathBuf, &Path> =
        jobs.iter().filter_map(|job| Some((real(&job.input)?, job.input.as_path()))).collect();
    for output in jobs.iter().flat_map(|job| &job.outputs) {
        if let Some(input) = real(output).and_then(|path| own.get(&path)) {
            bail!("{} would be overwritten by a result: name another folder for the results", input.display());
        }
    }
    Ok(jobs)
}

/// The name of a result: that of its picture, with the extension that the format has.
fn result_name(input: &Path, format: Option<PictureFormat>) -> Result<PathBuf> {
    let name = input.file_name().with_context(|| format!("{} is no file", input.display()))?;
    match format {
        Some(format) => Ok(Path::new(name).with_extension(format.extension())),
        None if Format::of_path(input).is_some() => Ok(name.into()),
        None => {
            let all = picture::extensions(|_| true);
            bail!("{} is not called {all}: say what to write by --format png or --format jpg", input.display())
        }
    }
}

/// What two names of one file have in common, where capitals make no difference.
fn key(path: &Path) -> PathBuf {
    if cfg!(any(windows, target_os = "macos")) { path.to_string_lossy().to_lowercase().into() } else { path.to_owned() }
}

/// Makes sure that files can be written to a folder, which is made if need be.
pub(crate) fn prepare_folder(folder: &Path) -> Result<()> {
    let name = folder.display();
    if folder.exists() && !folder.is_dir() {
        bail!("{name} is a file, and several pictures need a folder: name one that is new or a folder");
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {name}"))?;
    // Better to know now than after the first picture was computed.
    let probe = folder.join(format!(".dala-{}", std::process::id()));
    File::create_new(&probe).with_context(|| format!("cannot write to the folder {name}"))?;
    Ok(fs::remove_file(&probe)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(inputs: &[&str], format: Option<PictureFormat>) -> Result<Vec<String>, String> {
        let jobs = jobs(inputs.iter().map(PathBuf::from).collect(), &[Path::new("out")], format);
        let names = |jobs: Vec<Job>| jobs.iter().map(|job| job.outputs[0].display().to_string()).collect();
        jobs.map(names).map_err(|error| error.to_string())
    }

    #[test]
    fn results_are_called_like_their_pictures() {
        let inputs = ["in/a.b.PNG", "in/c.jpeg"];
        assert_eq!(named(&inputs, None).unwrap(), ["out/a.b.PNG", "out/c.jpeg"]);
        assert_eq!(named(&inputs, Some(PictureFormat::Png)).unwrap(), ["out/a.b.png", "out/c.png"]);
        assert_eq!(named(&["in/notes"], Some(PictureFormat::Jpg)).unwrap(), ["out/notes.jpg"]);
        let message = named(&["in/a.gif"], None).unwrap_err();
        let expected = "in/a.gif is not called .jpg, .png, .webp, .tiff, .bmp, .pnm, .npy or .raw: say what to write by \
                        --format png or --format jpg";
        assert_eq!(message, expected);
    }

    #[test]
    fn two_results_of_one_name_are_refused() {
        for (inputs, format, output) in [
            (["a/x.jpg", "b/x.jpg"], None, "out/x.jpg"),
            (["a/x.jpg", "a/x.png"], Some(PictureFormat::Png), "out/x.png"),
        ] {
            let message = named(&inputs, format).unwrap_err();
            let expected = format!("{} and {} would both be written as {output}: ", inputs[0], inputs[1]);
            assert!(message.starts_with(&expected), "{message}");
        }
        // Two results of one picture, too.
        let folder = Path::new("out");
        assert!(jobs(vec!["x.png".into()], &[folder, folder], None).is_err());
    }

    #[test]
    fn only_folders_patterns_and_lists_are_many() {
        let batch = |inputs: &[&str], output: &str| {
            let inputs: Vec<&Path> = inputs.iter().map(Path::new).collect();
            is_batch(&inputs, Some(Path::new(output)))
        };
        assert!(!batch(&["a.png"], "b.png") && !batch(&[], "b.png"));
        for inputs in [&["a.png", "b.png"][..], &["*.png"], &["a?.png"], &["a[12].png"], &["/"]] {
            assert!(batch(inputs, "out"), "{inputs:?}");
        }
        assert!(batch(&["a.png"], "out/") && batch(&["a.png"], "/"));
    }
}
