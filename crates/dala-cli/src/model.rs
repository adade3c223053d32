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
    layers: usize,
    weight_bytes: usize,
    plan: Option<PlanJson>,
}

#[derive(Serialize)]
struct PortJson<'a> {
    name: &'a str,
    dtype: &'static str,
    /// For the batch that is told.
    shape: Vec<usize>,
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
    let model = onnx::open(&args.file)?;
    let batch = args.batch.unwrap_or(model.smallest_batch());
    let network = model.resolve(batch).with_context(|| name.clone())?;
    let device = device::open(&args.device)?;
    // A file may be fine, and still be more than one kernel can be.
    let (plan, refusal) = match device.add_model(KERNEL, &model) {
        Ok(()) => (Some(Alone::of_kernel(&device, KERNEL, &model, batch).with_context(|| name.clone())?.plan), None),
        Err(refusal) => (None, Some(format!("{name}: {refusal}"))),
    };
    if args.json {
        output::json(out, &answer(&name, &model, batch, &network, plan.as_ref()))?;
    } else {
        describe(out, &name, &model, batch, &network)?;
        if let Some(plan) = &plan {
            describe_plan(out, plan, batch)?;
            if args.explain {
                write!(out, "\n{}", plan.explain())?;
            }
        }
    }
    Ok(refusal.map_or(Outcome::Success, Outcome::Negative))
}

fn describe(out: &mut dyn Write, name: &str, model: &Model, batch: usize, network: &Network) -> Result<()> {
    let port = |what: &str, port: &Port| [what.to_owned(), format!("{} {}", port.name, described(port))];
    let operators: Vec<String> = model.operators().iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut rows: Vec<[String; 2]> = model.inputs().iter().map(|input| port("input", input)).collect();
    rows.extend(model.outputs().iter().map(|output| port("output", output)));
    rows.push(["operators".to_owned(), operators.join(", ")]);
    rows.push(["parameters".to_owned(), thousands(model.parameters())]);
    let weights = format_memory(weight_bytes(network) as u64);
    rows.push(["layers".to_owned(), format!("{}, with {weights} of weights", network.layers.len())]);
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

fn answer<'a>(file: &str, model: &'a Model, batch: usize, network: &Network, plan: Option<&Plan>) -> Answer<'a> {
    let port = |port: &'a Port| PortJson {
        name: &port.name,
        dtype: port.dtype.name(),
        shape: port.shape(batch).dims().to_vec(),
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
        layers: network.layers.len(),
        weight_bytes: weight_bytes(network),
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
