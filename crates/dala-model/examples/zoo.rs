//! Real models beside the outputs that ONNX Runtime has for them: `zoo FOLDER MODELS [--device NAME] [--results FILE] [--profile] [ID...]`.
//!
//! FOLDER has `zoo.json`, which says what the models are, and `golden/`, their inputs and outputs; MODELS has the files, as
//! `ID.onnx`. Prints a line for each model and ends with how many agree; exits with 1 unless all that were asked for do.
//! FILE keeps the results of all devices, for the table in `docs/MODELS.md`. `--profile` also prints where the time goes.

#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dala_compute::{Buffer, Device};
use dala_model::{Model, Session};
use dala_spec::{Data, Scalar, Shape};
use safetensors::SafeTensors;
use serde_json::Value;

#[path = "../tests/support/typed.rs"]
mod typed;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<ExitCode> {
    let (mut paths, mut ids, mut device, mut file) = (Vec::new(), Vec::new(), "cpu".to_owned(), None);
    let mut profile = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--device" => device = arguments.next().ok_or("--device NAME")?,
            "--results" => file = Some(PathBuf::from(arguments.next().ok_or("--results FILE")?)),
            "--profile" => profile = true,
            _ if paths.len() < 2 => paths.push(PathBuf::from(argument)),
            _ => ids.push(argument),
        }
    }
    let [folder, models] = &paths[..] else {
        return Err("zoo FOLDER MODELS [--device NAME] [--results FILE] [--profile] [ID...]".into());
    };
    let zoo: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("zoo.json"))?)?;
    let device = Device::open(&device)?;
    let backend = device.info().backend.to_string();
    let mut results = match &file {
        Some(file) => known(file)?,
        None => BTreeMap::new(),
    };
    let (mut agree, mut asked) = (0, 0);
    let all = zoo.as_array().ok_or("zoo.json is a list")?;
    for entry in all {
        let id = entry["id"].as_str().unwrap_or_default();
        if !ids.is_empty() && !ids.iter().any(|own| own == id) {
            continue;
        }
        asked += 1;
        let key = format!("{id}\t{backend}");
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            checked(&device, &models.join(format!("{id}.onnx")), folder, entry, profile)
        }));
        match found {
            Ok(Ok(Found { worst, runs, first, next, ort })) => {
                let (first, next) = (first.as_secs_f64() * 1e3, next.as_secs_f64() * 1e3);
                results.insert(key, format!("agrees\t{runs}\t{worst:.3}\t{:.1}", next / ort));
                println!(
                    "agrees   {id:24} at most {worst:.3} of what is allowed, {runs} runs; first {first:.0} ms, then {next:.2} ms, ONNX Runtime {ort:.2} ms ({:.1} x)",
                    next / ort
                );
                agree += 1;
            }
            Ok(Err(error)) => {
                let mut text = error.to_string().replace('\n', " ");
                text.truncate(text.char_indices().nth(600).map_or(text.len(), |(end, _)| end));
                println!("DOES NOT {id:24} {text}");
                results.insert(key, format!("{}\t\t\t", text.replace('\t', " ")));
            }
            Err(_) => {
                println!("PANICS   {id}");
                results.insert(key, "panics\t\t\t".to_owned());
            }
        }
    }
    println!("{agree} of {asked} agree on {backend}");
    if let Some(file) = &file {
        let rows: String = results.iter().map(|(key, found)| format!("{key}\t{found}\n")).collect();
        std::fs::write(file, format!("{HEAD}{rows}"))?;
    }
    Ok(if agree == asked { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first line of a file of results.
const HEAD: &str = "model\tdevice\tresult\truns\tworst\ttimes\n";

/// The results that a file has, by model and device.
fn known(file: &Path) -> Outcome<BTreeMap<String, String>> {
    let text = if file.exists() { std::fs::read_to_string(file)? } else { String::new() };
    let rows = text.lines().skip(1).filter_map(|line| {
        let (id, rest) = line.split_once('\t')?;
        let (device, found) = rest.split_once('\t')?;
        Some((format!("{id}\t{device}"), found.to_owned()))
    });
    Ok(rows.collect())
}

struct Found {
    /// The largest difference, as part of what is allowed.
    worst: f64,
    /// On how many inputs, and in how many variants.
    runs: usize,
    first: Duration,
    next: Duration,
    /// What ONNX Runtime takes with one thread.
    ort: f64,
}

/// A file, what it is run on, and what it should give.
struct Run<'e> {
    name: String,
    file: PathBuf,
    golden: &'e Value,
    feed: &'e Value,
    outputs: &'e Value,
}

/// A model on its golden inputs, its further cases, and its variants that are there: weights in another file, half floats.
fn runs<'e>(file: &Path, folder: &Path, entry: &'e Value) -> Vec<Run<'e>> {
    let list = |name: &str| entry[name].as_array().into_iter().flatten();
    let own = |name: &str, of: &'e Value| {
        let (golden, outputs) = (&of["golden"]["file"], &of["golden"]["outputs"]);
        Run { name: name.to_owned(), file: file.to_owned(), golden, feed: &of["feed"], outputs }
    };
    let mut runs = vec![own("", entry)];
    runs.extend(list("cases").map(|case| own(case["case"].as_str().unwrap_or_default(), case)));
    for variant in list("variants") {
        let name = variant["file"].as_str().unwrap_or_default().to_owned();
        let outputs = if variant["outputs"].is_null() { &entry["golden"]["outputs"] } else { &variant["outputs"] };
        runs.push(Run { file: folder.join(&name), name, golden: &variant["golden"], feed: &entry["feed"], outputs });
    }
    runs.retain(|run| run.name.is_empty() || run.file.exists());
    runs
}

/// All runs of a model; the times are those of the first.
fn checked(device: &Device, file: &Path, folder: &Path, entry: &Value, profile: bool) -> Outcome<Found> {
    let mut all: Option<Found> = None;
    for run in runs(file, folder, entry) {
        let found =
            one(device, folder, &run, profile && run.name.is_empty()).map_err(|error| match run.name.as_str() {
                "" => error,
                name => format!("{name}: {error}").into(),
            })?;
        all = Some(match all {
            None => Found { ort: entry["ort_ms"].as_f64().unwrap_or(f64::NAN), ..found },
            Some(first) => Found { worst: first.worst.max(found.worst), runs: first.runs + 1, ..first },
        });
    }
    all.ok_or_else(|| "nothing was run".into())
}

fn one(device: &Device, folder: &Path, run: &Run<'_>, profile: bool) -> Outcome<Found> {
    if !run.file.exists() {
        return Err("the file is not there".into());
    }
    let start = Instant::now();
    let model = Model::open(&run.file)?;
    let golden = std::fs::read(folder.join(run.golden.as_str().unwrap_or_default()))?;
    let golden = SafeTensors::deserialize(&golden)?;
    let inputs = inputs(device, &model, &golden, run.feed)?;
    // Sizes that the file fixes, and need not have.
    let model = if run.feed["open"].is_null() { model } else { opened(&model, &inputs)? };
    let session = Session::new(device, &model);
    let operands: Vec<&Buffer> = inputs.iter().collect();
    let outputs = session.run(&operands)?;
    let first = start.elapsed();
    let worst = compared(&model, &outputs, &golden, run.outputs)?;
    let mut next = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        session.run(&operands)?.iter().try_for_each(|output| output.read_data().map(drop))?;
        next = next.min(start.elapsed());
        if start.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    if profile {
        print_launches(&session, &operands)?;
    }
    Ok(Found { worst, runs: 1, first, next, ort: f64::NAN })
}

/// The launches of a run that take longest, and what they come to.
fn print_launches(session: &Session, inputs: &[&Buffer]) -> Outcome<()> {
    let mut times = session.profile(inputs)?;
    for _ in 0..6 {
        for (own, new) in times.iter_mut().zip(session.profile(inputs)?) {
            own.time = own.time.min(new.time);
        }
    }
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let sum = microseconds(times.iter().map(|launch| launch.time).sum());
    println!("{} launches one by one: {sum:.0} us", times.len());
    times.sort_by_key(|launch| std::cmp::Reverse(launch.time));
    for launch in times.iter().take(60) {
        let own = microseconds(launch.time);
        let megabytes = launch.bytes as f64 / 1e6;
        println!("{own:9.1} us {:5.1} % {megabytes:7.2} MB  {}; {}", own / sum * 100.0, launch.task, launch.name);
    }
    Ok(())
}

/// The model with the sizes of its inputs in place of its own.
fn opened(model: &Model, inputs: &[Buffer]) -> Outcome<Model> {
    let mut sizes = Vec::new();
    for (port, input) in model.inputs().iter().zip(inputs) {
        let dims = input.shape().dims().iter().enumerate();
        sizes.extend(dims.map(|(axis, size)| (format!("{}.{axis}", port.name), *size)));
    }
    Ok(model.with_sizes(&sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect::<Vec<_>>())?)
}

fn data(golden: &SafeTensors<'_>, name: &str) -> Outcome<(Data, Vec<usize>)> {
    Ok(typed::elements(&golden.tensor(name)?)?)
}

fn inputs(device: &Device, model: &Model, golden: &SafeTensors<'_>, feed: &Value) -> Outcome<Vec<Buffer>> {
    let mut inputs = Vec::new();
    for port in model.inputs() {
        let name = format!("in.{}", port.name);
        let (mut data, mut shape) = match data(golden, &name) {
            Ok(found) => found,
            Err(_) => data(golden, &format!("{name}.base"))?,
        };
        if let Some(repeat) = feed["inputs"][&port.name]["repeat"].as_array() {
            let repeat: Vec<usize> = repeat.iter().filter_map(|times| Some(times.as_u64()? as usize)).collect();
            (data, shape) = repeated(&data, &shape, &repeat);
        }
        inputs.push(Buffer::from_bytes(device, &data.to_bytes(), data.dtype(), Shape::from(shape))?);
    }
    Ok(inputs)
}

/// Each element as often along each axis.
fn repeated(data: &Data, shape: &[usize], repeat: &[usize]) -> (Data, Vec<usize>) {
    let larger: Vec<usize> = shape.iter().zip(repeat).map(|(size, times)| size * times).collect();
    let elements: Vec<Scalar> = data.iter().collect();
    let whole = (0..larger.iter().product()).map(|place: usize| {
        let (mut rest, mut from, mut stride) = (place, 0, 1);
        for axis in (0..larger.len()).rev() {
            from += (rest % larger[axis]) / repeat[axis] * stride;
            rest /= larger[axis];
            stride *= shape[axis];
        }
        elements[from]
    });
    (Data::collect(data.dtype(), whole), larger)
}

/// How far results may be off, as part of the largest: of quantised models two steps of 255, of half floats, which are stored
/// between layers here and not there, a hundredth.
fn closeness(model: &Model) -> f64 {
    let operators = model.operators();
    let uses = |wanted: &str| operators.iter().any(|(name, _)| name.contains(wanted));
    match uses("Quantize") || uses("Integer") || uses("QLinear") {
        true => 2.0 / 255.0,
        false if model.half_weights() => 1e-2,
        false => 1e-5,
    }
}

/// The largest difference of all outputs, as part of what is allowed.
fn compared(model: &Model, outputs: &[Buffer], golden: &SafeTensors<'_>, known: &Value) -> Outcome<f64> {
    let mut worst = 0.0f64;
    for (port, output) in model.outputs().iter().zip(outputs) {
        let about = &known[&port.name];
        let shape: Vec<usize> =
            about["shape"].as_array().into_iter().flatten().filter_map(|size| Some(size.as_u64()? as usize)).collect();
        if shape != output.shape().dims() {
            return Err(format!("`{}` has shape {}, and should have {shape:?}", port.name, output.shape()).into());
        }
        let name = format!("out.{}", port.name);
        let (expected, stride) = match about["stride"].as_u64() {
            Some(stride) => (data(golden, &format!("{name}.sample"))?.0, stride as usize),
            None => (data(golden, &name)?.0, 1),
        };
        let actual: Vec<f64> = output.read_data()?.iter().step_by(stride).map(|value| value.as_f64()).collect();
        let expected: Vec<f64> = expected.iter().map(|value| value.as_f64()).collect();
        let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let noise = about["noise"].as_f64().unwrap_or_default();
        let allowed = (4.0 * noise).max(closeness(model) * largest).max(1e-6);
        if actual.len() != expected.len() {
            return Err(format!("`{}` has {} elements, expected {}", port.name, actual.len(), expected.len()).into());
        }
        let away = actual.iter().zip(&expected).map(|(a, b)| match (a - b).abs() {
            away if away.is_nan() && !(a.is_nan() && b.is_nan()) => f64::INFINITY,
            away if away.is_nan() => 0.0,
            away => away,
        });
        let (place, most) =
            away.clone().enumerate().fold((0, 0.0), |most, own| if own.1 > most.1 { own } else { most });
        let mean = away.sum::<f64>() / expected.len().max(1) as f64;
        worst = worst.max(most / allowed);
        if most > allowed {
            return Err(format!(
                "`{}`: element {place} is {}, and should be {}: {most:.2e} away, {mean:.1e} on average, {allowed:.1e} allowed",
                port.name, actual[place], expected[place]
            )
            .into());
        }
    }
    Ok(worst)
}
