//! `dala filter`: a chain of kernels on pictures.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::args::FilterArgs;
use crate::output::Outcome;
use crate::run::Request;
use crate::source::{OUTPUT, Source};

pub(crate) fn run(args: &FilterArgs, out: &mut dyn Write) -> Result<Outcome> {
    let pictures: Vec<&Path> = args.inputs.iter().map(AsRef::as_ref).collect();
    let work = Request {
        pictures: &pictures,
        given: &[],
        targets: &[(OUTPUT, args.output.as_path())],
        device: &args.device,
        explain: args.explain,
        batch: args.batch,
    };
    work.run(|| Source::chain(&args.chain), out)
}
