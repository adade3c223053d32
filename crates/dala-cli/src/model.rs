//! `dala model info`: what a model file holds, and what it comes to on a device.

use std::io::Write;

use anyhow::{Context, Result};
use dala_compute::Plan;
use dala_model::{LoadModel, Model, Network, Port};
use dala_plan::words::format_memory;
use serde::Serialize;

use crate::args::ModelInfoArgs;
use crate::device;
use crate::onnx::{self, Alone, KERNEL, described};
use crate::output::{self, Outcome};

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    file: String,
    inputs: Vec<PortJson<'a>>,
    outputs: Vec<PortJson<'a>>,
    operators: Vec<OperatorJson>,
    parameters: usize,
    batch: usize,
    /// The names of sizes that are still open.
    open_sizes: Vec<&'a str>,
    layers: Option<usize>,
    weight_bytes: Option<usize>,
    plan: Option<PlanJson>,
}

#[derive(Serialize)]
struct PortJson<'a> {
    name: &'a str,
    dtype: &'static str,
    /// For the batch that is told; null where a size is open.
    shape: Vec<Option<usize>>,
}

#[derive(Serialize)]
struct OperatorJson {
    name: String,
    count: usize,
}

#[derive(Serialize)]
struct PlanJson {
    device: &'static str,
    launches: usize,
    scratch_bytes: usize,
    moved_bytes: usize,
}

pub(crate) fn info(args: &ModelInfoArgs, out: &mut dyn Write) -> Result<Outcome> {
    let name = args.file.display().to_string();
    let model = onnx::sized(onnx::open(&args.file)?, &args.size).with_context(|| name.clone())?;
    let batch = args.batch.unwrap_or(model.smallest_batch());
    let whole = model.open_sizes().is_empty() && model.decided_by_values().is_none();
    let network = whole.then(|| model.resolve(batch)).transpose().with_context(|| name.clone())?;
    let network = network.as_ref();
    let device = device::open(&args.device)?;
    // A file may be fine, and a layer still more than the device can do.
    let (plan, refusal) = match network.map(|_| device.add_model(KERNEL, &model)) {
        None => (None, None),
        Some(Ok(())) => {
            (Some(Alone::of_kernel(&device, KERNEL, &model, batch).with_context(|| name.clone())?.plan), None)
        }
        Some(Err(refusal)) => (None, Some(format!("{name}: {refusal}"))),
    };
    if args.json {
        output::json(out, &answer(&name, &model, batch, network, plan.as_ref()))?;
    } else {
        describe(out, &name, &model, batch, network)?;
        if let Some(plan) = &plan {
            describe_plan(out, plan, batch)?;
            if args.explain {
                write!(out, "\n{}", plan.explain())?;
            }
        }
    }
    Ok(refusal.map_or(Outcome::Success, Outcome::Negative))
}

fn describe(out: &mut dyn Write, name: &str, model: &Model, batch: usize, network: Option<&Network>) -> Result<()> {
    let port = |what: &str, port: &Port| [what.to_owned(), format!("{} {}", port.name, described(port))];
    let operators: Vec<String> = model.operators().iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut rows: Vec<[String; 2]> = model.inputs().iter().map(|input| port("input", input)).collect();
    rows.extend(model.outputs().iter().map(|output| port("output", output)));
    rows.push(["operators".to_owned(), operators.join(", ")]);
    rows.push(["parameters".to_owned(), thousands(model.parameters())]);
    if let Some(network) = network {
        let weights = format_memory(weight_bytes(network) as u64);
        rows.push(["layers".to_owned(), format!("{}, with {weights} of weights", network.layers.len())]);
    }
    let open = model.open_sizes();
    if !open.is_empty() {
        let sizes: Vec<String> = open.iter().map(|name| format!("--size {name}=…")).collect();
        rows.push(["open".to_owned(), format!("{}, until a call says them, or {}", open.join(", "), sizes.join(" "))]);
    }
    if let Some(what) = model.decided_by_values() {
        rows.push(["in parts".to_owned(), what.to_owned()]);
    }
    if model.fixed_batch().is_some() {
        rows.push(["batch".to_owned(), format!("{batch}, fixed")]);
    }
    writeln!(out, "{name}")?;
    Ok(output::columns(out, "  ", &rows)?)
}

fn describe_plan(out: &mut dyn Write, plan: &Plan, batch: usize) -> Result<()> {
    let device = plan.device();
    let info = device.info();
    let row = |label: &str, value: String| [label.to_owned(), value];
    writeln!(out, "a batch of {batch} on {} ({})", info.backend, info.name)?;
    let rows = [
        row("launches", plan.launches().to_string()),
        row("scratch", format!("{} at most", format_memory(plan.peak_bytes() as u64))),
        row("moved", format!("{} by all launches", format_memory(plan.blueprint().bytes_moved() as u64))),
    ];
    Ok(output::columns(out, "  ", &rows)?)
}

fn answer<'a>(
    file: &str,
    model: &'a Model,
    batch: usize,
    network: Option<&Network>,
    plan: Option<&Plan>,
) -> Answer<'a> {
    let port = |port: &'a Port| PortJson {
        name: &port.name,
        dtype: port.dtype.name(),
        shape: port.dims.iter().map(|dim| dim.size(batch)).collect(),
    };
    let plan = plan.map(|plan| PlanJson {
        device: plan.device().info().backend.name(),
        launches: plan.launches(),
        scratch_bytes: plan.peak_bytes(),
        moved_bytes: plan.blueprint().bytes_moved(),
    });
    Answer {
        file: file.to_owned(),
        inputs: model.inputs().iter().map(port).collect(),
        outputs: model.outputs().iter().map(port).collect(),
        operators: model.operators().into_iter().map(|(name, count)| OperatorJson { name, count }).collect(),
        parameters: model.parameters(),
        batch,
        open_sizes: model.open_sizes(),
        layers: network.map(|network| network.layers.len()),
        weight_bytes: network.map(weight_bytes),
        plan,
    }
}

/// The bytes of all constants that layers read.
fn weight_bytes(network: &Network) -> usize {
    let mut read: Vec<usize> = network.layers.iter().flat_map(|layer| layer.inputs.iter().copied()).collect();
    read.sort_unstable();
    read.dedup();
    let constants = read.iter().filter_map(|number| network.values.get(*number)?.constant.as_ref());
    constants.map(|data| data.len() * data.dtype().size()).sum()
}

/// A count for people: `3,504,872`.
fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (3_504_872, "3,504,872")] {
            assert_eq!(thousands(count), text);
        }
    }
}
