//! `dala kernels`: what can be called. No device is opened for it.

use std::io::{self, Write};

use dala_compute::{DType, ParamSpec};
use dala_kernels::Registry;
use dala_spec::{Closeness, KernelSpec, OutputDType, OutputRule, OutputShape, Tolerance};

use crate::args::KernelsArgs;
use crate::output::{self, Outcome};

pub(crate) fn run(args: &KernelsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let registry = Registry::built_in();
    let kernels = match &args.name {
        None => registry.kernels(),
        Some(name) => match registry.get(name) {
            Ok(kernel) => vec![kernel.clone()],
            Err(unknown) => return Ok(Outcome::Negative(unknown.to_string())),
        },
    };
    let specs: Vec<&KernelSpec> = kernels.iter().map(|kernel| &kernel.spec).collect();
    match (args.json, specs.as_slice()) {
        (true, specs) => output::json(out, &specs)?,
        (false, [spec]) if args.name.is_some() => describe(out, spec)?,
        (false, specs) => list(out, specs)?,
    }
    Ok(Outcome::Success)
}

fn list(out: &mut dyn Write, specs: &[&KernelSpec]) -> io::Result<()> {
    let heading = ["NAME", "ALIASES", "CLASS", "SUMMARY"].map(str::to_owned);
    let row = |spec: &&KernelSpec| {
        [spec.name.clone(), spec.aliases.join(", "), spec.class.name().to_owned(), spec.summary.clone()]
    };
    let rows: Vec<[String; 4]> = std::iter::once(heading).chain(specs.iter().map(row)).collect();
    output::columns(out, "", &rows)
}

fn describe(out: &mut dyn Write, spec: &KernelSpec) -> io::Result<()> {
    let none = || vec![["none".to_owned(), String::new()]];
    let or_none = |rows: Vec<[String; 2]>| if rows.is_empty() { none() } else { rows };
    let inputs = spec.inputs.iter().map(|input| [input.name.clone(), dtypes(input.dtypes)]).collect();
    let params = spec.params.iter().map(|param| [param.name.clone(), param_text(param)]).collect();

    writeln!(out, "{}: {}", spec.name, spec.summary)?;
    let aliases = if spec.aliases.is_empty() { "none".to_owned() } else { spec.aliases.join(", ") };
    let facts = [
        ["aliases", &aliases],
        ["class", spec.class.name()],
        ["output", &output_text(&spec.output)],
        ["tolerance", &tolerance_text(spec.tolerance)],
    ];
    output::columns(out, "  ", &facts.map(|row| row.map(str::to_owned)))?;
    writeln!(out, "\ninputs:")?;
    output::columns(out, "  ", &or_none(inputs))?;
    writeln!(out, "\nparams:")?;
    output::columns(out, "  ", &or_none(params))
}

fn dtypes(dtypes: &[DType]) -> String {
    dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
}

fn param_text(param: &ParamSpec) -> String {
    let default = param.default.as_ref().map_or("required".to_owned(), |value| format!("default {value}"));
    let range = param.range.map(|(min, max)| format!("from {min} to {max}"));
    let summary = Some(param.summary.clone()).filter(|summary| !summary.is_empty());
    let parts = [Some(param.kind.to_string()), Some(default), range];
    let facts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    std::iter::once(facts).chain(summary).collect::<Vec<_>>().join(": ")
}

fn output_text(rule: &OutputRule) -> String {
    let shape = match &rule.shape {
        OutputShape::Inputs => "shape of the inputs",
        OutputShape::Broadcast => "shape that the inputs broadcast to",
        OutputShape::Any => "any shape",
        OutputShape::Image => "shape {height, width} or {height, width, channels} with 1 to 4 channels",
        OutputShape::Computed(rule) => &format!("shape: {}", rule.text),
    };
    match rule.dtype {
        OutputDType::Inputs => format!("{shape}, element type of the inputs"),
        OutputDType::First => format!("{shape}, element type of the first input"),
        OutputDType::Rest => format!("{shape}, element type of the inputs but the first"),
        OutputDType::OneOf(allowed) => format!("{shape}, element type one of {}", dtypes(allowed)),
    }
}

fn tolerance_text(tolerance: Tolerance) -> String {
    let floats = match tolerance.floats {
        Closeness::Exact => "exact".to_owned(),
        Closeness::Ulps(ulps) => format!("{ulps} units in the last place"),
        Closeness::Close { epsilons, absolute_epsilons } => {
            format!("{epsilons} epsilons of the value plus {absolute_epsilons} epsilons")
        }
    };
    match tolerance.levels {
        0 => floats,
        1 => format!("{floats}; one level of a byte"),
        levels => format!("{floats}; {levels} levels of a byte"),
    }
}
