//! `dala run`: a pipeline file on pictures.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use dala_compute::{Buffer, TensorType};
use dala_image::Format;

use crate::args::INPUT;
use crate::args::{BatchArgs, Given, PictureFormat, RunArgs};
use crate::batch::{self, Batch};
use crate::device;
use crate::output::{self, Outcome};
use crate::picture::{self, HostPicture};
use crate::source::{OUTPUT, Source, summary};

pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Outcome> {
    let mut targets: Vec<(&str, &Path)> = args.output.iter().map(|file| (OUTPUT, file.as_path())).collect();
    for Given { name, file } in &args.also {
        if targets.iter().any(|(own, _)| own == name) {
            bail!("`{name}` is to be written twice");
        }
        targets.push((name, file));
    }
    let (pictures, given): (Vec<&Given>, Vec<&Given>) = args.inputs.iter().partition(|given| given.name == INPUT);
    let pictures: Vec<&Path> = pictures.iter().map(|given| given.file.as_path()).collect();
    let given: Vec<Given> = given.into_iter().cloned().collect();
    let device = &args.device;
    let work =
        Request { pictures: &pictures, given: &given, targets: &targets, device, explain: false, batch: args.batch };
    work.run(|| Source::file(&args.file), out)
}

/// What is done, apart from the pipeline.
pub(crate) struct Request<'a> {
    /// What the pipeline calls `input`, one after the other.
    pub(crate) pictures: &'a [&'a Path],
    /// Other pictures, which stay the same.
    pub(crate) given: &'a [Given],
    /// Buffers and where they are written.
    pub(crate) targets: &'a [(&'a str, &'a Path)],
    pub(crate) device: &'a str,
    /// Whether the plan is printed.
    pub(crate) explain: bool,
    pub(crate) batch: BatchArgs,
}

impl Request<'_> {
    /// Does it, and says so.
    pub(crate) fn run(&self, source: impl FnOnce() -> Result<Source>, out: &mut dyn Write) -> Result<Outcome> {
        let output = self.targets.first().map(|(_, path)| *path);
        if batch::is_batch(self.pictures, output) { self.many(source()?, out) } else { self.one(source, out) }
    }

    /// Whatever can be known to fail fails before work begins. Says whether a result goes into a pipe.
    fn check_targets(&self) -> Result<bool> {
        let is_piped = |(_, file): &&(&str, &Path)| picture::is_standard(file);
        let piped = self.targets.iter().filter(is_piped).count();
        if piped > 1 {
            bail!("standard output is one picture: `-` can be given once");
        }
        if piped > 0 {
            picture::check_standard_output()?;
        }
        for (_, file) in self.targets.iter().filter(|target| !is_piped(target)) {
            picture::format_of(file)?;
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
                bail!("cannot write {}: there is no folder {}, make it first", file.display(), folder.display());
            }
        }
        if self.batch.format.is_some() && piped == 0 {
            bail!("--format is for folders and for `-`: the extension of a file says its format");
        }
        Ok(piped > 0)
    }

    fn one(&self, source: impl FnOnce() -> Result<Source>, out: &mut dyn Write) -> Result<Outcome> {
        let piped = self.check_targets()?;
        let input = self.pictures.iter().map(|file| Given { name: INPUT.to_owned(), file: file.to_path_buf() });
        let inputs: Vec<Given> = input.chain(self.given.iter().cloned()).collect();
        let source = source()?.with_pictures(&inputs, self.batch.raw)?.complete()?;
        let device = device::open(self.device)?;
        let names: Vec<&str> = self.targets.iter().map(|(name, _)| *name).collect();
        let ready = source.prepare(&device, &names)?;
        let results = || self.targets.iter().zip(&ready.results);
        results().try_for_each(|((name, file), buffer)| picture::check(file, name, buffer))?;
        // What is said must not get between the bytes of a picture.
        let say = |out: &mut dyn Write, text: &str| if piped { output::tell(text) } else { writeln!(out, "{text}") };
        if self.explain {
            say(out, ready.plan.explain().trim_end())?;
        }
        let start = Instant::now();
        ready.plan.run()?;
        let time = start.elapsed();
        for ((_, file), buffer) in results() {
            self.write(file, buffer, source.input(), out)?;
        }

        let from: Vec<String> = inputs.iter().map(|given| given.file.display().to_string()).collect();
        let to: Vec<String> = results().map(|((_, file), buffer)| written(file, buffer)).collect();
        let arrow = if from.is_empty() { "" } else { " -> " };
        let milliseconds = time.as_secs_f64() * 1e3;
        let (from, to, done) = (from.join(", "), to.join(", "), summary(&ready.plan));
        say(out, &format!("{from}{arrow}{to}: {done}, {milliseconds:.1} ms"))?;
        Ok(Outcome::Success)
    }

    /// Writes a result, which has the colour profile of the input, and in a pipe its format.
    fn write(&self, file: &Path, buffer: &Buffer, input: Option<&HostPicture>, out: &mut dyn Write) -> Result<()> {
        let result = picture::download(buffer, input.and_then(|input| input.profile.clone()))?;
        let format = self.batch.format.map(PictureFormat::format).or_else(|| input?.format).unwrap_or(Format::Png);
        let dropped = match picture::is_standard(file) {
            true => picture::write_standard(out, result, format)?,
            false => picture::write(file, result)?,
        };
        if let Some(why) = dropped {
            output::warn(&format!("{}: the colour profile is left out: {why}", file.display()));
        }
        Ok(())
    }

    fn many(&self, source: Source, out: &mut dyn Write) -> Result<Outcome> {
        let mut paths = self.pictures.iter().chain(self.targets.iter().map(|(_, path)| path));
        if paths.any(|path| picture::is_standard(path)) {
            bail!("`-` is one picture: several come from files, and go to a folder");
        }
        let source = source.with_pictures(self.given, self.batch.raw)?.complete_with(&[INPUT])?;
        if !source.reads_input() {
            bail!("the pipeline reads no `{INPUT}`: there is nothing to do for several pictures");
        }
        if self.explain {
            bail!("--explain is for one picture: pictures of several sizes have several plans");
        }
        let pictures = batch::expand(self.pictures)?;
        let folders: Vec<&Path> = self.targets.iter().map(|(_, path)| *path).collect();
        let jobs = batch::jobs(pictures, &folders, self.batch.format)?;
        let device = device::open(self.device)?;
        folders.iter().try_for_each(|folder| batch::prepare_folder(folder))?;
        let results: Vec<&str> = self.targets.iter().map(|(name, _)| *name).collect();
        let from = output::count(jobs.len(), "picture", "pictures");
        let to: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let raw = self.batch.raw;
        let batch = Batch { source: &source, device: &device, results: &results, jobs: &jobs, raw };
        batch.run_and_tell(&from, &to.join(", "), self.batch.progress, out)
    }
}

fn written(file: &Path, buffer: &Buffer) -> String {
    format!("{} {}", file.display(), TensorType::new(buffer.dtype(), buffer.shape().clone()))
}
