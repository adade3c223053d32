//! `dala trace`: what a device does when a pipeline runs, as a file for a trace viewer.

use std::fs;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use dala_compute::trace;

use crate::args::TraceArgs;
use crate::device;
use crate::output::{self, Outcome};
use crate::source::{Source, summary};

pub(crate) fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<Outcome> {
    let source = Source::from_args(&args.source)?;
    let device = device::open(&args.device)?;
    let plan = source.prepare(&device, &source.outputs())?.plan;
    device.start_trace();
    let start = Instant::now();
    (0..args.runs).try_for_each(|_| plan.run())?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let recorded = device.stop_trace();
    let file = args.output.display();
    let drawn = args.output.extension().is_some_and(|extension| extension == "svg");
    let text = if drawn { trace::to_svg(&recorded) } else { trace::to_perfetto(&recorded) };
    fs::write(&args.output, text).with_context(|| format!("cannot write {file}"))?;
    let runs = output::count(args.runs, "run", "runs");
    let hint = if drawn { "" } else { "; open it in ui.perfetto.dev" };
    writeln!(out, "{file}: {runs} of {}, {milliseconds:.1} ms{hint}", summary(&plan))?;
    Ok(Outcome::Success)
}
