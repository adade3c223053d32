//! `dala cache`: the compiled kernels that are kept for the next process.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use dala_compute::KernelCache;
use dala_plan::words::format_memory;
use serde::Serialize;

use crate::args::CacheArgs;
use crate::output::{self, Outcome};

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    folder: Option<&'a Path>,
    refused: Option<&'a str>,
    kernels: u64,
    bytes: u64,
    limit: u64,
}

pub(crate) fn run(args: &CacheArgs, out: &mut dyn Write) -> Result<Outcome> {
    let cache = KernelCache::get();
    let about = |what| move || format!("the kernels could not be {what}");
    let (kernels, size) = match args.clear {
        true => cache.clear().with_context(about("removed"))?,
        false => cache.size().with_context(about("counted"))?,
    };
    if args.json {
        let (folder, refused) = (cache.folder(), cache.refused());
        output::json(out, &Report { folder, refused, kernels, bytes: size, limit: KernelCache::LIMIT })?;
    } else {
        match (cache.folder(), cache.refused()) {
            (None, _) => writeln!(out, "kernels are not kept: DALA_CACHE is off")?,
            (Some(_), Some(why)) => writeln!(out, "kernels are not kept: {why}")?,
            (Some(folder), None) => {
                let kernels = output::count(kernels as usize, "kernel", "kernels");
                let verb = if args.clear { "removed, " } else { "" };
                let (size, limit) = (format_memory(size), format_memory(KernelCache::LIMIT));
                writeln!(out, "{}: {verb}{kernels}, {size} of at most {limit}", folder.display())?;
            }
        }
    }
    Ok(Outcome::Success)
}
