//! `dala filter`: a chain of kernels on one picture.

use std::io::Write;

use anyhow::Result;

use crate::args::{FilterArgs, Given};
use crate::output::Outcome;
use crate::run::Work;
use crate::source::{INPUT, OUTPUT, Source};

pub(crate) fn run(args: &FilterArgs, out: &mut dyn Write) -> Result<Outcome> {
    let inputs = [Given { name: INPUT.to_owned(), file: args.input.clone() }];
    let targets = [(OUTPUT, args.output.as_path())];
    Work { inputs: &inputs, targets: &targets, device: &args.device, explain: args.explain }
        .run(|| Source::chain(&args.chain), out)
}
