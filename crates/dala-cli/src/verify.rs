//! `dala verify`: is a pipeline right on the devices of this machine?

use std::io::Write;

use anyhow::{Error, Result, bail};
use dala_compute::{Device, Verification};

use crate::args::VerifyArgs;
use crate::device;
use crate::output::Outcome;
use crate::source::Source;

/// Every device of this machine.
const ALL: &str = "all";

pub(crate) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome> {
    let source = Source::from_args(&args.source)?;
    let names = match args.device.as_str() {
        ALL => Device::list().into_iter().map(|info| info.id).collect(),
        one => vec![one.to_owned()],
    };
    let (mut right, mut wrong) = (0, Vec::new());
    for name in &names {
        let device = device::open(name)?;
        let found = source.prepare(&device, &source.outputs()).and_then(|ready| Ok(ready.plan.verify(&[])?));
        let label = format!("{} ({})", device.info().backend, device.info().name);
        match found {
            Ok(found) => {
                writeln!(out, "{label}: {}", text(&found))?;
                if found.is_right() { right += 1 } else { wrong.push(device.info().backend.name()) }
            }
            Err(error) => match lacks(&error) {
                // A device need not compute on every type; one that was asked for by name should.
                Some(reason) if args.device == ALL => writeln!(out, "{label}: not run, {reason}")?,
                _ => return Err(error),
            },
        }
    }
    match (right, wrong.as_slice()) {
        (0, []) => bail!("no device of this machine can run the pipeline"),
        (_, []) => Ok(Outcome::Success),
        (_, wrong) => Ok(Outcome::Negative(format!("the pipeline is not right on {}", wrong.join(", ")))),
    }
}

fn text(found: &Verification) -> String {
    match &found.difference {
        Some(difference) => difference.to_string(),
        None => format!("right, {} elements of {} stages compared", found.elements, found.stages),
    }
}

/// What the device lacks, if that is all that is wrong.
fn lacks(error: &Error) -> Option<String> {
    let problems = match error.chain().find_map(|cause| cause.downcast_ref::<dala_compute::Error>())? {
        dala_compute::Error::Pipeline { problems } => problems.as_slice(),
        other => std::slice::from_ref(other),
    };
    let all = problems.iter().all(|problem| problem.code() == "unsupported");
    problems.first().filter(|_| all).map(ToString::to_string)
}
