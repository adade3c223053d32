//! `dala run`: a pipeline file on pictures.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use dala_compute::{Buffer, Device, TensorType};

use crate::args::{Given, RunArgs};
use crate::output::Outcome;
use crate::picture;
use crate::source::{OUTPUT, Source, summary};

pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Outcome> {
    let mut targets: Vec<(&str, &Path)> = args.output.iter().map(|file| (OUTPUT, file.as_path())).collect();
    for Given { name, file } in &args.also {
        if targets.iter().any(|(own, _)| own == name) {
            bail!("`{name}` is to be written twice");
        }
        targets.push((name, file));
    }
    Work { inputs: &args.inputs, targets: &targets, device: &args.device, explain: false }
        .run(|| Source::file(&args.file), out)
}

/// What is done, apart from the pipeline.
pub(crate) struct Work<'a> {
    pub(crate) inputs: &'a [Given],
    /// Buffers and where they are written.
    pub(crate) targets: &'a [(&'a str, &'a Path)],
    pub(crate) device: &'a str,
    /// Whether the plan is printed.
    pub(crate) explain: bool,
}

impl Work<'_> {
    /// Does it, and says so in one line.
    pub(crate) fn run(&self, source: impl FnOnce() -> Result<Source>, out: &mut dyn Write) -> Result<Outcome> {
        // Whatever can be known to fail fails before work begins.
        self.targets.iter().try_for_each(|(_, file)| picture::format_of(file).map(drop))?;
        let source = source()?.with_pictures(self.inputs)?.complete()?;
        let device = Device::open(self.device)?;
        let names: Vec<&str> = self.targets.iter().map(|(name, _)| *name).collect();
        let ready = source.prepare(&device, &names)?;
        let results = || self.targets.iter().zip(&ready.results);
        results().try_for_each(|((name, file), buffer)| picture::check(file, name, buffer))?;
        if self.explain {
            writeln!(out, "{}", ready.plan.explain().trim_end())?;
        }
        let start = Instant::now();
        ready.plan.run()?;
        let time = start.elapsed();
        results().try_for_each(|((name, file), buffer)| picture::write(file, name, buffer))?;

        let from: Vec<String> = self.inputs.iter().map(|given| given.file.display().to_string()).collect();
        let to: Vec<String> = results().map(|((_, file), buffer)| written(file, buffer)).collect();
        let arrow = if from.is_empty() { "" } else { " -> " };
        let milliseconds = time.as_secs_f64() * 1e3;
        let (from, to, done) = (from.join(", "), to.join(", "), summary(&ready.plan));
        writeln!(out, "{from}{arrow}{to}: {done}, {milliseconds:.1} ms")?;
        Ok(Outcome::Success)
    }
}

fn written(file: &Path, buffer: &Buffer) -> String {
    format!("{} {}", file.display(), TensorType::new(buffer.dtype(), buffer.shape().clone()))
}
