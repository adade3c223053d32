//! `dala graph`: what a pipeline compiles to, as a picture or as text.

use std::fs;
use std::io::Write;

use anyhow::{Context, Result, bail};

use crate::args::GraphArgs;
use crate::device;
use crate::output::Outcome;
use crate::source::{Source, summary};

pub(crate) fn run(args: &GraphArgs, out: &mut dyn Write) -> Result<Outcome> {
    if let Some(file) = &args.output
        && !file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
    {
        bail!("cannot write {}: name it .svg", file.display());
    }
    let source = Source::from_args(&args.source)?;
    let device = device::open(&args.device)?;
    let plan = source.prepare(&device, &source.outputs())?.plan;
    match &args.output {
        None => write!(out, "{}", plan.explain())?,
        Some(file) => {
            fs::write(file, plan.to_svg()).with_context(|| format!("cannot write {}", file.display()))?;
            writeln!(out, "{}: {}", file.display(), summary(&plan))?;
        }
    }
    Ok(Outcome::Success)
}
