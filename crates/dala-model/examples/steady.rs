//! How long the same work takes again and again, for `scripts/steady` to compare: one line of JSON for each figure.
//!
//! `steady [DEVICE] [FIGURE]... [--samples N] [--pushes N] [--limit SECONDS]`
//! `steady [DEVICE] idle SECONDS`
//!
//! Times are in seconds: `wall` by the clock, `cpu` of the processor, by all threads. `elixir/bench/steady.exs` prints the same
//! lines. After `--limit` a figure is left, as its warm-ups are: its line has fewer samples then, and says `stopped`; where not
//! even one was complete, `scaled` says that its time was counted up from what was done.
#![allow(clippy::print_stdout, missing_docs, reason = "a measurement that people run")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use dala_compute::{
    Buffer, DType, Device, FramePolicy, Operand, Pipeline, Plan, PlanOptions, Readback, Stage, Stream, StreamOptions,
    Transient,
};
use dala_model::LoadModel;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const FIGURES: [&str; 5] = ["small_run", "stages_100", "stages_100_unfused", "stream_pushes", "mobilenet"];

struct Options {
    device: String,
    /// None means all of them.
    figures: Vec<String>,
    samples: usize,
    pushes: usize,
    limit: Duration,
    idle: Option<Duration>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Outcome<Options> {
        let limit = Duration::from_secs(60);
        let (device, figures) = ("cpu".to_owned(), Vec::new());
        let mut options = Options { device, figures, samples: 20, pushes: 20_000, limit, idle: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--samples" => options.samples = value(&word, words.next())?,
                "--pushes" => options.pushes = value(&word, words.next())?,
                "--limit" => options.limit = seconds(&word, words.next())?,
                "idle" => options.idle = Some(seconds(&word, words.next())?),
                name if FIGURES.contains(&name) => options.figures.push(word),
                option if option.starts_with('-') => return Err(format!("there is no option {option}").into()),
                _ => options.device = word,
            }
        }
        Ok(options)
    }
}

fn value<T: FromStr>(option: &str, word: Option<String>) -> Outcome<T> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("{option} needs a number").into())
}

fn seconds(option: &str, word: Option<String>) -> Outcome<Duration> {
    Duration::try_from_secs_f64(value(option, word)?).map_err(|error| format!("{option}: {error}").into())
}

fn main() -> Outcome {
    let options = Options::read(std::env::args().skip(1))?;
    let device = Device::open(&options.device)?;
    if let Some(time) = options.idle {
        return idle(&device, &options, time);
    }
    for name in FIGURES {
        if !options.figures.is_empty() && !options.figures.iter().any(|figure| figure == name) {
            continue;
        }
        let line = match name {
            "small_run" => small_run(&device, &options)?,
            "stages_100" => plan(&stages(&device, PlanOptions::new())?, 12, &options)?,
            "stages_100_unfused" => plan(&stages(&device, PlanOptions::unfused())?, 12, &options)?,
            "stream_pushes" => stream_pushes(&device, &options)?,
            _ => match model() {
                file if file.is_file() => plan(&mobilenet(&device, file)?, 4, &options)?,
                _ => r#""skipped":"the model is not there; scripts/get-models fetches it""#.to_owned(),
            },
        };
        println!(r#"{{"name":"{name}","from":"rust","device":"{}",{line}}}"#, options.device);
    }
    Ok(())
}

/// What a sample consists of.
struct Sample {
    /// So many steps.
    steps: usize,
    /// The times are those of so many.
    of: usize,
    warm_ups: usize,
}

/// Takes samples of a step that is done again and again, and ends when `finish` does.
fn measure(
    options: &Options,
    sample: Sample,
    mut step: impl FnMut() -> Outcome,
    finish: impl Fn() -> Outcome,
) -> Outcome<String> {
    // The first runs build kernels, and learn how long each launch takes.
    repeat(sample.warm_ups, Instant::now() + options.limit, &mut step)?;
    finish()?;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    let (mut scaled, until) = (false, Instant::now() + options.limit);
    while wall.len() < options.samples && Instant::now() < until {
        let (start, start_cpu) = (Instant::now(), processor_time());
        let done = repeat(sample.steps, until, &mut step)?;
        finish()?;
        let (time, end_cpu) = (start.elapsed().as_secs_f64(), processor_time());
        if done < sample.steps && !wall.is_empty() {
            break;
        }
        scaled |= done < sample.steps;
        let share = sample.of as f64 / done as f64;
        wall.push(format!("{:.9}", time * share));
        let used = start_cpu.zip(end_cpu).map(|(from, to)| format!("{:.9}", (to - from) * share));
        cpu.push(used.unwrap_or("null".to_owned()));
    }
    let stopped = wall.len() < options.samples;
    let (asked, wall, cpu) = (options.samples, wall.join(","), cpu.join(","));
    Ok(format!(r#""samples":{asked},"stopped":{stopped},"scaled":{scaled},"wall":[{wall}],"cpu":[{cpu}]"#))
}

/// Does steps until there are enough or time is up; at least one. Says how many.
fn repeat(enough: usize, until: Instant, mut step: impl FnMut() -> Outcome) -> Outcome<usize> {
    let mut done = 0;
    while done < enough.max(1) && (done == 0 || Instant::now() < until) {
        step()?;
        done += 1;
    }
    Ok(done)
}

/// A small kernel, run and waited for; a sample is the mean of 200.
fn small_run(device: &Device, options: &Options) -> Outcome<String> {
    let run = small(device)?;
    measure(options, Sample { steps: 200, of: 1, warm_ups: 200 }, run, || Ok(()))
}

fn small(device: &Device) -> Outcome<impl FnMut() -> Outcome> {
    const LEN: usize = 1024;
    let (a, b) =
        (Buffer::from_slice(device, &[1.5f32; LEN], [LEN])?, Buffer::from_slice(device, &[2.5f32; LEN], [LEN])?);
    let out = Buffer::zeros(device, DType::F32, [LEN])?;
    let device = device.clone();
    Ok(move || Ok(device.run("elementwise_add", &[&a, &b], &out, ())?))
}

fn plan(plan: &Plan, warm_ups: usize, options: &Options) -> Outcome<String> {
    measure(options, Sample { steps: 1, of: 1, warm_ups }, || Ok(plan.run()?), || Ok(()))
}

/// The plan of `dala bench overhead`: a hundred stages over 1,024 elements, every fourth a stencil or a reduction.
fn stages(device: &Device, options: PlanOptions) -> Outcome<Plan> {
    const STAGES: usize = 100;
    let x = Buffer::from_slice(device, &[0.5f32; 1024], [32, 32])?;
    let y = Buffer::zeros(device, DType::F32, [32, 32])?;
    let mut pipeline = Pipeline::new();
    let mut from = Operand::from(&x);
    for index in 0..STAGES {
        let to = if index + 1 == STAGES { Operand::from(&y) } else { Operand::from(Transient::new()) };
        pipeline.push(match (index % 4, index / 4 % 2) {
            (0, _) => Stage::run_kernel("scalar_mul", [&from], &to, [("scalar", 1.01)]),
            (1, _) => Stage::run_kernel("scalar_add", [&from], &to, [("scalar", 0.01)]),
            (2, _) => Stage::run_kernel("relu", [&from], &to, ()),
            (_, 0) => Stage::run_kernel("box_blur", [&from], &to, [("radius", 1)]),
            _ => Stage::run_kernel("softmax", [&from], &to, ()),
        });
        from = to;
    }
    Ok(device.compile_with(&pipeline, options)?)
}

/// Frames of four bytes, each written, changed by one kernel and read; whoever pushes waits for room. This is what a stream
/// of Elixir does with a frame.
fn stream_pushes(device: &Device, options: &Options) -> Outcome<String> {
    let input = Buffer::zeros(device, DType::U8, [4])?;
    let output = Buffer::zeros(device, DType::U8, [4])?;
    let stages = move |(bytes, result): &([u8; 4], Readback)| {
        vec![
            Stage::write_buffer(&input, bytes.as_slice()),
            Stage::run_kernel("scalar_add", [&input], &output, [("scalar", 100)]),
            Stage::read_buffer(&output, result),
        ]
    };
    let taken = |(_, result): ([u8; 4], Readback), _| drop(result.take());
    let stream = Stream::with_callback(device, stages, StreamOptions::new(FramePolicy::Block), taken);
    let mut number = 0u32;
    let push = || {
        number += 1;
        stream.push((number.to_le_bytes(), Readback::new()))?;
        Ok(())
    };
    let sample = Sample { steps: options.pushes, of: options.pushes, warm_ups: 200 };
    let line = measure(options, sample, push, || Ok(stream.wait_idle(None)?))?;
    let stats = stream.stats();
    if stats.frames_out != stats.frames_in {
        return Err(format!("of {} frames {} came out", stats.frames_in, stats.frames_out).into());
    }
    Ok(format!(r#""pushes":{},{line}"#, options.pushes))
}

/// Where `scripts/get-models` puts it.
fn model() -> PathBuf {
    let models = std::env::var_os("DALA_MODELS").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/dala-compute/models");
    models.unwrap_or_else(home).join("mobilenet_v2.onnx")
}

/// MobileNetV2 for one picture.
fn mobilenet(device: &Device, file: PathBuf) -> Outcome<Plan> {
    let model = device.load_model("mobilenet", file)?;
    let shape = model.inputs()[0].shape(1).ok_or("the model has open sizes")?;
    let pixels: Vec<f32> = (0..shape.len()).map(|n| (n * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
    let x = Buffer::from_slice(device, &pixels, shape)?;
    let y = Buffer::zeros(device, DType::F32, model.outputs()[0].shape(1).ok_or("the model has open sizes")?)?;
    Ok(device.compile(&Pipeline::new().stage(Stage::run_kernel("mobilenet", [&x], &y, ())))?)
}

/// What an open device takes of the processor while nothing is asked of it.
fn idle(device: &Device, options: &Options, time: Duration) -> Outcome {
    small(device)?()?;
    let start = processor_time();
    // What a run leaves to do after it is not idleness; it is shown apart.
    std::thread::sleep(Duration::from_secs(1));
    let (settled, before) = (processor_time(), threads());
    std::thread::sleep(time);
    let end = processor_time();
    let used = |from: Option<f64>, to: Option<f64>| {
        from.zip(to).map_or("null".to_owned(), |(from, to)| format!("{:.9}", to - from))
    };
    let threads: Vec<String> = threads()
        .into_iter()
        .map(|(name, time)| (time - before.get(&name).copied().unwrap_or_default(), name))
        .filter(|(time, _)| *time >= 1e-6)
        .map(|(time, name)| format!("{name:?}:{time:.9}"))
        .collect();
    println!(
        r#"{{"name":"idle","from":"rust","device":"{}","seconds":{},"cpu":{},"settling":{},"threads":{{{}}}}}"#,
        options.device,
        time.as_secs_f64(),
        used(settled, end),
        used(start, settled),
        threads.join(",")
    );
    Ok(())
}

/// Processor time of the threads that there are, by name, where the system tells.
fn threads() -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let nanos = read("schedstat").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        if let Some((name, nanos)) = read("comm").zip(nanos) {
            *times.entry(name.trim().to_owned()).or_default() += nanos / 1e9;
        }
    }
    times
}

/// Processor time of all threads so far, also of those that ended; none where there is no such clock.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn processor_time() -> Option<f64> {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanos: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const OF_THIS_PROCESS: i32 = 2;
    let mut time = Time { seconds: 0, nanos: 0 };
    // SAFETY: `time` is laid out as the C library's `timespec` of 64-bit Linux, and lives until the call returns.
    let code = unsafe { clock_gettime(OF_THIS_PROCESS, &mut time) };
    (code == 0).then_some(time.seconds as f64 + time.nanos as f64 / 1e9)
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn processor_time() -> Option<f64> {
    None
}
