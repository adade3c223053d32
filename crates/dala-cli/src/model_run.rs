//! `dala model run`: a model on files, numbers or made-up data.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use dala_compute::{Buffer, DType, Data, Device, Scalar, Shape};
use dala_model::{Dim, Model, Port, Session};
use serde::Serialize;

use crate::args::{ModelRunArgs, Named, Pixels};
use crate::output::{self, Outcome};
use crate::{device, onnx, picture, tensor_file};

/// How many values a summary shows.
const SHOWN: usize = 6;
/// How many values `--json` prints.
const PRINTED: usize = 1000;

pub(crate) fn run(args: &ModelRunArgs, out: &mut dyn Write) -> Result<Outcome> {
    let name = args.file.display().to_string();
    let model = onnx::sized(onnx::open(&args.file)?, &args.size).with_context(|| name.clone())?;
    let device = device::open(&args.device)?;
    let inputs = inputs(&device, &model, args)?;
    for output in &args.output {
        find(model.outputs(), &output.name, "output")?;
    }
    let session = Session::new(&device, &model);
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).with_context(|| name.clone())?;
    let results: Vec<(&Port, &Buffer)> = model.outputs().iter().zip(&outputs).collect();
    if args.json {
        let answers = results.iter().map(|(port, buffer)| Answer::of(port, buffer)).collect::<Result<Vec<_>>>()?;
        output::json(out, &answers)?;
    }
    for (port, buffer) in results {
        match args.output.iter().find(|output| output.name == port.name) {
            Some(to) => written(out, &to.text, buffer)?,
            None if args.json => {}
            None => summary(out, port, buffer)?,
        }
    }
    Ok(Outcome::Success)
}

/// An output in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: Vec<usize>,
    /// The values, where they are not too many.
    values: Option<Vec<f64>>,
}

impl Answer<'_> {
    fn of<'a>(port: &'a Port, buffer: &Buffer) -> Result<Answer<'a>> {
        let values = match buffer.len() <= PRINTED {
            true => Some(buffer.read_data()?.iter().map(Scalar::as_f64).collect()),
            false => None,
        };
        Ok(Answer { name: &port.name, dtype: buffer.dtype().name(), shape: buffer.shape().dims().to_vec(), values })
    }
}

fn find<'a>(ports: &'a [Port], name: &str, what: &str) -> Result<&'a Port> {
    let all: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let found = ports.iter().find(|port| port.name == name);
    found.with_context(|| format!("the model has no {what} `{name}`: it has {}", all.join(", ")))
}

/// The inputs in their order.
fn inputs(device: &Device, model: &Model, args: &ModelRunArgs) -> Result<Vec<Buffer>> {
    for input in &args.input {
        find(model.inputs(), &input.name, "input")?;
    }
    let given = |port: &Port| -> Result<Buffer> {
        let Some(Named { text, .. }) = args.input.iter().find(|input| input.name == port.name) else {
            bail!("input `{}` is missing: it takes {}, say --input {0}=…", port.name, onnx::described(port));
        };
        input(device, port, text, args.pixels).with_context(|| format!("input `{}` from {text}", port.name))
    };
    model.inputs().iter().map(given).collect()
}

/// A tensor for an input: a number, made-up numbers of a shape, a `.npy` file or a picture.
fn input(device: &Device, port: &Port, text: &str, pixels: Pixels) -> Result<Buffer> {
    if let Some(shape) = text.strip_prefix("shape:") {
        let sizes = shape.split('x').filter(|size| !size.is_empty()).map(|size| size.trim().parse());
        let shape = Shape::from(sizes.collect::<Result<Vec<usize>, _>>().context("write it as shape:1x3x224x224")?);
        let len = shape.checked_len().context("the shape is too large")?;
        // The same each time: a walk through 0 to 1, for integers 0 or 1.
        let value = |place: usize| Scalar::from_f64(port.dtype, (place * 7919 % 1000) as f64 / 500.0);
        let data = Data::collect(port.dtype, (0..len).map(value));
        return Ok(Buffer::from_bytes(device, &data.to_bytes(), port.dtype, shape)?);
    }
    if let Ok(number) = text.parse::<f64>() {
        let shape = port.shape(1).unwrap_or_default();
        let data = Data::collect(port.dtype, std::iter::repeat_n(Scalar::from_f64(port.dtype, number), shape.len()));
        return Ok(Buffer::from_bytes(device, &data.to_bytes(), port.dtype, shape)?);
    }
    let path = Path::new(text);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy")) {
        let (data, shape) = tensor_file::read(path)?;
        if data.dtype() != port.dtype {
            bail!("it has elements of type {}, and the input takes {}", data.dtype(), onnx::described(port));
        }
        return Ok(Buffer::from_bytes(device, &data.to_bytes(), data.dtype(), Shape::from(shape))?);
    }
    photo(device, port, path, pixels)
}

/// A picture as the input takes it: as large as it says, or as it is.
fn photo(device: &Device, port: &Port, path: &Path, pixels: Pixels) -> Result<Buffer> {
    let (first, sizes) = match &port.dims[..] {
        [Dim::Batch | Dim::Known(1), Dim::Known(3), height, width] => (true, [height, width]),
        [Dim::Batch | Dim::Known(1), height, width, Dim::Known(3)] => (false, [height, width]),
        _ => bail!("the input takes {}, which is no picture: give a .npy file", onnx::described(port)),
    };
    if port.dtype != DType::F32 {
        bail!("the input takes {}, and pictures are f32: give a .npy file", onnx::described(port));
    }
    let picture = picture::read(path, None)?;
    let own = picture.shape.dims().to_vec();
    let size = |axis: usize| match sizes[axis] {
        Dim::Known(size) => *size,
        _ => own[axis],
    };
    let (height, width) = (size(0), size(1));
    let shape = if first { vec![1, 3, height, width] } else { vec![height, width, 3] };
    let prepared = Buffer::reserve(device, DType::F32, shape.clone())?;
    device.run("preprocess", &[&picture.upload(device)?], &prepared, pixels.params())?;
    if first {
        return Ok(prepared);
    }
    let whole = Buffer::reserve(device, DType::F32, [1, height, width, 3])?;
    device.run("reshape", &[&prepared], &whole, ())?;
    Ok(whole)
}

fn written(out: &mut dyn Write, to: &str, buffer: &Buffer) -> Result<()> {
    let data = buffer.read_data()?;
    if to == "-" {
        let row = buffer.shape().dims().last().copied().unwrap_or(1).max(1);
        let values: Vec<String> = data.iter().map(|value| value.to_string()).collect();
        for row in values.chunks(row) {
            writeln!(out, "{}", row.join(" "))?;
        }
        return Ok(());
    }
    let path = Path::new(to);
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy")) {
        bail!("cannot write {to}: name it .npy, or - for numbers on standard output");
    }
    let bytes = tensor_file::write(&data, buffer.shape().dims())?;
    fs::write(path, bytes).with_context(|| format!("cannot write {to}"))
}

/// What an output is, in a line or two.
fn summary(out: &mut dyn Write, port: &Port, buffer: &Buffer) -> Result<()> {
    let data = buffer.read_data()?;
    let values: Vec<f64> = data.iter().map(Scalar::as_f64).collect();
    writeln!(out, "{}  {} {}", port.name, buffer.dtype(), buffer.shape())?;
    if values.is_empty() {
        return Ok(());
    }
    let first: Vec<String> = values.iter().take(SHOWN).map(|value| format!("{value:.6}")).collect();
    let more = if values.len() > SHOWN { " …" } else { "" };
    writeln!(out, "  {}{more}", first.join(" "))?;
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    let place = values.iter().position(|value| *value == most).unwrap_or_default();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    writeln!(out, "  {least:.6} to {most:.6} (element {place}), {mean:.6} on average")?;
    Ok(())
}
