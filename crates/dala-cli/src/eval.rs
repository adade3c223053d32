//! `dala eval`: one expression over numbers, on a device.

use std::io::Write;

use anyhow::{Context, Result, bail};
use dala_compute::{Buffer, DType, Data, Definition, Device, ParamKind, ParamValue, Params, param};
use serde::Serialize;

use crate::args::EvalArgs;
use crate::device;
use crate::numbers::{self, JsonNumber};
use crate::output::{self, Outcome};

/// The name that the library's messages call the expression by.
const KERNEL: &str = "expression";

/// What the command line means: checked as far as that goes without a device.
struct Evaluation {
    inputs: Vec<(String, Data)>,
    params: Vec<(String, ParamKind, ParamValue)>,
    count: Option<usize>,
    output_dtype: DType,
}

#[derive(Serialize)]
struct Answer {
    device: &'static str,
    dtype: DType,
    values: Vec<JsonNumber>,
}

pub(crate) fn run(args: &EvalArgs, out: &mut dyn Write) -> Result<Outcome> {
    let call = Evaluation::new(args)?;
    let device = device::open(&args.device)?;
    let result = call.compute(&device, &args.expression)?;
    if args.json {
        let values = result.iter().map(JsonNumber::from).collect();
        output::json(out, &Answer { device: device.info().backend.name(), dtype: result.dtype(), values })?;
    } else {
        let values: Vec<String> = result.iter().map(numbers::text).collect();
        writeln!(out, "{}", values.join(" "))?;
    }
    Ok(Outcome::Success)
}

impl Evaluation {
    fn new(args: &EvalArgs) -> Result<Evaluation> {
        let mut inputs = Vec::new();
        if !args.numbers.is_empty() {
            let data = numbers::parse_all(args.dtype, args.numbers.iter().map(String::as_str));
            inputs.push(("x".to_owned(), data.context("in the input `x`")?));
        }
        for input in &args.inputs {
            let data = numbers::parse_all(args.dtype, input.text.split(','));
            inputs.push((input.name.clone(), data.with_context(|| format!("in the input `{}`", input.name))?));
        }
        let mut params = Vec::new();
        for given in &args.params {
            let (kind, value) =
                numbers::parse_param(&given.text).with_context(|| format!("in the param `{}`", given.name))?;
            params.push((given.name.clone(), kind, value));
        }
        refuse_repeated(inputs.iter().map(|(name, _)| name).chain(params.iter().map(|(name, ..)| name)))?;
        if inputs.is_empty() && args.count.is_none() {
            bail!("nothing to compute on: give numbers after `--`, an --input, or the number of elements by --count");
        }
        Ok(Evaluation { inputs, params, count: args.count, output_dtype: args.output_dtype.unwrap_or(args.dtype) })
    }

    /// How many elements are computed: as many as the inputs have, but for tables.
    fn len(&self, device: &Device) -> Result<usize> {
        let kernels = device.kernels();
        let kernel = kernels.iter().find(|kernel| kernel.spec.name == KERNEL);
        let is_table =
            |index: usize| kernel.is_some_and(|kernel| kernel.spec.inputs.get(index).is_some_and(|input| input.side));
        let lens =
            || self.inputs.iter().enumerate().filter(|(index, _)| !is_table(*index)).map(|(_, (_, data))| data.len());
        // As the library has it: an input of one element counts for any number of them.
        match self.count.or_else(|| lens().find(|len| *len != 1)).or_else(|| lens().next()) {
            Some(len) => Ok(len),
            None => bail!("tables do not say how many elements to compute: give their number by --count"),
        }
    }

    fn compute(&self, device: &Device, expression: &str) -> Result<Data> {
        let mut definition = Definition::inputs(self.inputs.iter().map(|(name, _)| name));
        let mut values = Params::new();
        for (name, kind, value) in &self.params {
            definition = definition.param(param(name, kind.clone()));
            values = values.with(name, value.clone());
        }
        // First, so that a mistake in the expression is told before anything is computed.
        device.define(KERNEL, expression, definition)?;
        let upload = |data: &Data| Buffer::from_bytes(device, &data.to_bytes(), data.dtype(), [data.len()]);
        let buffers: Vec<Buffer> = self.inputs.iter().map(|(_, data)| upload(data)).collect::<Result<_, _>>()?;
        let result = Buffer::zeros(device, self.output_dtype, [self.len(device)?])?;
        device.run(KERNEL, &buffers.iter().collect::<Vec<_>>(), &result, values)?;
        Ok(result.read_data()?)
    }
}

/// Inputs and params share their names in an expression, where one of two would silently win.
fn refuse_repeated<'a>(names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            bail!("`{name}` is given twice");
        }
        seen.push(name);
    }
    Ok(())
}
