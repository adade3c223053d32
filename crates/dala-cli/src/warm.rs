//! `dala warm`: builds every kernel that pipelines and models need, so that the first run is as quick as the next.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dala_compute::{Device, KernelCache, Plan};
use dala_model::LoadModel;

use crate::args::{SourceArgs, WarmArgs};
use crate::onnx::{self, Alone};
use crate::output::{self, Outcome};
use crate::source::{Source, summary};
use crate::{built, device};

pub(crate) fn run(args: &WarmArgs, out: &mut dyn Write) -> Result<Outcome> {
    if KernelCache::get().folder().is_none() {
        bail!("kernels are not kept, so that the next process builds them again: DALA_CACHE is off");
    }
    let device = device::open(&args.device)?;
    for what in &args.what {
        for plan in plans(&device, what, args).with_context(|| what.clone())? {
            let (start, before, known) = (Instant::now(), device.stats().compilations, KernelCache::built().len());
            plan.warm_up().with_context(|| what.clone())?;
            let (built, time) = (device.stats().compilations - before, start.elapsed().as_secs_f64() * 1e3);
            let count = output::count(built as usize, "kernel", "kernels");
            writeln!(out, "{what}: {}, {count} built, {time:.1} ms", summary(&plan))?;
            if args.explain {
                let all = KernelCache::built();
                built::table(out, &all[known.min(all.len())..])?;
            }
        }
    }
    Ok(Outcome::Success)
}

/// The plans of a model, a pipeline file or a chain: one for each batch or size.
fn plans(device: &Device, what: &str, args: &WarmArgs) -> Result<Vec<Plan>> {
    let path = Path::new(what);
    let is = |wanted: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
    if is("onnx") {
        let model = onnx::open(path)?;
        // Each has its own name on the device.
        let name = format!("model_{}", device.kernels().len());
        device.add_model(&name, &model)?;
        let batches = if args.batch.is_empty() { vec![model.smallest_batch()] } else { args.batch.clone() };
        return batches.into_iter().map(|batch| Ok(Alone::of_kernel(device, &name, &model, batch)?.plan)).collect();
    }
    let sizes = if args.size.is_empty() { vec![None] } else { args.size.iter().cloned().map(Some).collect() };
    let plan = |size| {
        let (file, filter) = if is("toml") { (Some(path.to_owned()), None) } else { (None, Some(what.to_owned())) };
        let source = Source::from_args(&SourceArgs { file, filter, inputs: Vec::new(), raw: None, size })?;
        Ok(source.prepare(device, &source.outputs())?.plan)
    };
    sizes.into_iter().map(plan).collect()
}
