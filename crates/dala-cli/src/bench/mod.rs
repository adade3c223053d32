//! Our times beside those of the bare engine, or of a peer, measured in one run.

mod bare;
mod batch;
mod curves;
mod memory;
mod model;
mod peer;
mod photos;
mod plot;
mod report;
mod sizes;
mod types;
mod zoo;

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use dala_compute::{
    Buffer, DType, Device, KernelCache, Operand, Params, Pipeline, Plan, PlanOptions, Stage, TensorType, Transient,
};

use crate::args::{BenchArgs, Suite};
use crate::output::{self, Outcome};
use crate::{built, device};
use bare::Bare;
use peer::Peer;
use report::{Report, Row, milliseconds};

pub(crate) fn run(args: &BenchArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(file) = &args.plot
        && !file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
    {
        bail!("cannot write {}: name it .svg", file.display());
    }
    if let Suite::Frame = args.suite {
        return frame(&args.device, args.explain, out);
    }
    if let Suite::Peak = args.suite {
        return memory::own(&args.device, out);
    }
    if args.memory {
        return memory::run(args, out);
    }
    let device = device::open(&args.device)?;
    let mut details = None;
    let (suite, rows) = match args.suite {
        Suite::Frame | Suite::Peak => return Ok(Outcome::Success),
        Suite::Model => {
            let (rows, found) = model::measure(&device, args.explain, out)?;
            details = Some(found);
            ("model", rows)
        }
        Suite::Fusion => ("fusion", fusion(&device)?),
        Suite::Overhead => ("overhead", overhead(&device, args.explain, out)?),
        Suite::Image => ("image", image(&device)?),
        Suite::Photos => ("photos", photos::measure(&device)?),
        Suite::Batch => ("batch", batch::measure(&device)?),
        Suite::Sizes => ("sizes", sizes::measure(&device)?),
        Suite::Types => ("types", types::measure(&device)?),
        Suite::Zoo => ("zoo", zoo::measure(&device, &args.only)?),
        Suite::Startup => ("startup", startup(&device, args.explain, out)?),
    };
    let report = Report { suite, device: device.info().backend.name().to_owned(), rows, details };
    if let Some(file) = &args.plot {
        let picture = if let Suite::Sizes = args.suite { curves::svg(&report) } else { plot::svg(&report) };
        std::fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        output::json(out, &report)?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "{} on {} ({})", report.suite, report.device, device.info().name)?;
    let mut table = vec![["", "ours ms", "base ms", "ratio", "base"].map(str::to_owned)];
    let row = |row: &Row| {
        let milliseconds = |value: f64| format!("{value:.3}");
        let (ours, theirs) = (milliseconds(row.ours_ms), milliseconds(row.base_ms));
        [row.name.clone(), ours, theirs, format!("{:.2}", row.ratio), row.base.clone()]
    };
    table.extend(report.rows.iter().map(row));
    output::columns(out, "  ", &table)?;
    if let Some(details) = &report.details {
        details.print(out)?;
    }
    Ok(Outcome::Success)
}

/// The best times of both, in turn: whatever else the machine does, it does to both.
fn compare(
    rounds: usize,
    mut ours: impl FnMut() -> anyhow::Result<()>,
    mut theirs: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, f64)> {
    // The first runs build kernels, and learn how long each launch takes.
    for _ in 0..12 {
        ours()?;
        theirs()?;
    }
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        best.0 = best.0.min(milliseconds(&mut ours)?);
        best.1 = best.1.min(milliseconds(&mut theirs)?);
    }
    Ok(best)
}

/// One call of a kernel on buffers of zeros, as a plan.
fn plan_of(
    device: &Device,
    kernel: &str,
    inputs: impl IntoIterator<Item = TensorType>,
    output: TensorType,
    params: Params,
) -> anyhow::Result<Plan> {
    let zeros = |ty: TensorType| Buffer::zeros(device, ty.dtype, ty.shape);
    let (inputs, output) = (inputs.into_iter().map(zeros).collect::<Result<Vec<_>, _>>()?, zeros(output)?);
    let stage = Stage::run_kernel(kernel, inputs.iter().collect::<Vec<_>>(), &output, params);
    Ok(device.compile(&Pipeline::new().stage(stage))?)
}

/// Eight distinct pointwise stages over 16M floats, against one bare copy.
fn fusion(device: &Device) -> anyhow::Result<Vec<Row>> {
    const LEN: usize = 1 << 24;
    let x = Buffer::from_slice(device, &vec![0.5f32; LEN], [LEN])?;
    let y = Buffer::zeros(device, DType::F32, [LEN])?;
    let kernels: [(&str, Option<(&str, f64)>); 8] = [
        ("scalar_mul", Some(("scalar", 1.7))),
        ("scalar_add", Some(("scalar", -0.3))),
        ("abs", None),
        ("relu", Some(("slope", 0.1))),
        ("neg", None),
        ("scalar_add", Some(("scalar", 1.1))),
        ("clamp", None),
        ("sqrt", None),
    ];
    let pipeline = |fuse: bool| -> anyhow::Result<Plan> {
        let mut pipeline = Pipeline::new().named(&x, "x").named(&y, "y");
        let mut from = Operand::from(&x);
        for (index, (kernel, param)) in kernels.iter().enumerate() {
            let to = if index + 1 == kernels.len() { Operand::from(&y) } else { Operand::from(Transient::new()) };
            let params = param.map(|(name, value)| Params::new().with(name, value)).unwrap_or_default();
            pipeline.push(Stage::run_kernel(*kernel, [&from], &to, params));
            from = to;
        }
        let options = if fuse { PlanOptions::new() } else { PlanOptions::unfused() };
        Ok(device.compile_with(&pipeline, options)?)
    };
    let (fused, unfused) = (pipeline(true)?, pipeline(false)?);
    if fused.launches() != 1 {
        bail!("eight pointwise stages are {} launches", fused.launches());
    }
    let bare = Bare::open(device.info().backend, LEN)?;
    let tuning = bare.best_tuning()?;
    let copy = || bare.copy(tuning);
    Ok(vec![
        Row::new("8-pointwise", "bare copy", compare(31, || Ok(fused.run()?), copy)?),
        Row::new("8-pointwise-unfused", "bare copy", compare(11, || Ok(unfused.run()?), copy)?),
    ])
}

/// A hundred stages over 1,024 elements, every fourth a stencil or a reduction.
fn hundred(device: &Device, fuse: bool) -> anyhow::Result<Plan> {
    const STAGES: usize = 100;
    let x = Buffer::from_slice(device, &vec![0.5f32; 1024], [32, 32])?;
    let y = Buffer::zeros(device, DType::F32, [32, 32])?;
    let mut pipeline = Pipeline::new().named(&x, "x").named(&y, "y");
    let mut from = Operand::from(&x);
    for index in 0..STAGES {
        let to = if index + 1 == STAGES { Operand::from(&y) } else { Operand::from(Transient::new()) };
        let stage = match (index % 4, index / 4 % 2) {
            (0, _) => Stage::run_kernel("scalar_mul", [&from], &to, [("scalar", 1.01)]),
            (1, _) => Stage::run_kernel("scalar_add", [&from], &to, [("scalar", 0.01)]),
            (2, _) => Stage::run_kernel("relu", [&from], &to, ()),
            (_, 0) => Stage::run_kernel("box_blur", [&from], &to, [("radius", 1)]),
            _ => Stage::run_kernel("softmax", [&from], &to, ()),
        };
        pipeline.push(stage);
        from = to;
    }
    let options = if fuse { PlanOptions::new() } else { PlanOptions::unfused() };
    Ok(device.compile_with(&pipeline, options)?)
}

fn overhead(device: &Device, explain: bool, out: &mut dyn Write) -> anyhow::Result<Vec<Row>> {
    let (fused, unfused) = (hundred(device, true)?, hundred(device, false)?);
    if explain {
        writeln!(out, "{}", fused.explain())?;
    }
    if fused.launches() < 25 || unfused.launches() != 100 {
        bail!("the plans have {} and {} launches", fused.launches(), unfused.launches());
    }
    let bare = Bare::open(device.info().backend, 1024)?;
    let base = "100 bare launches";
    Ok(vec![
        Row::new("100-stages", base, compare(101, || Ok(fused.run()?), || bare.hundred(100))?),
        Row::new("100-stages-unfused", base, compare(101, || Ok(unfused.run()?), || bare.hundred(100))?),
    ])
}

const OPENCV: &str = include_str!("../../../../benches/peers/opencv.py");

/// blur, sharpen and grayscale of a full-HD picture, against OpenCV with two threads.
fn image(device: &Device) -> anyhow::Result<Vec<Row>> {
    let mut peer = Peer::start(OPENCV, &[], "OpenCV")?;
    let mut rows = Vec::new();
    // The second size is one that no vector divides.
    for ((height, width), channels) in
        [(1080, 1920), (1079, 1917)].into_iter().flat_map(|size| [(size, 4), (size, 3), (size, 1)])
    {
        let size = format!("{height}x{width}x{channels}");
        let pipeline = chain(device, [height, width, channels])?;
        let mut plans = vec![(size.clone(), device.compile(&pipeline)?)];
        if rows.is_empty() {
            plans.push((format!("{size}-unfused"), device.compile_with(&pipeline, PlanOptions::unfused())?));
        }
        for (name, plan) in plans {
            let mut best = (f64::INFINITY, f64::INFINITY);
            for round in 0..30 {
                let times = (milliseconds(|| Ok(plan.run()?))?, peer.time(&size)?);
                if round >= 5 {
                    best = (best.0.min(times.0), best.1.min(times.1));
                }
            }
            rows.push(Row::new(name, "OpenCV, 2 threads", best));
        }
    }
    Ok(rows)
}

/// Blur, sharpen and, of pictures in colour, grayscale.
fn chain(device: &Device, [height, width, channels]: [usize; 3]) -> anyhow::Result<Pipeline> {
    let bytes = height * width * channels;
    let pixels: Vec<u8> = (0..bytes).map(|i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let shape = if channels == 1 { vec![height, width] } else { vec![height, width, channels] };
    let photo = Buffer::from_slice(device, &pixels, shape)?;
    let gray = Buffer::zeros(device, DType::U8, [height, width])?;
    let (soft, sharp) = (Transient::new().named("soft"), Transient::new().named("sharp"));
    let params = dala_compute::Params::new().with("radius", 3).with("sigma", 1.5);
    let blurred = Pipeline::new().named(&photo, "photo").named(&gray, "gray").stage(Stage::run_kernel(
        "blur",
        [&photo],
        &soft,
        params,
    ));
    Ok(match channels {
        1 => blurred.stage(Stage::run_kernel("sharpen", [&soft], &gray, [("amount", 0.5)])),
        _ => blurred.stage(Stage::run_kernel("sharpen", [&soft], &sharp, [("amount", 0.5)])).stage(Stage::run_kernel(
            "grayscale",
            [&sharp],
            &gray,
            (),
        )),
    })
}

/// How long compiling takes as pipelines grow, and the first frame of a second process against that of a first.
fn startup(device: &Device, explain: bool, out: &mut dyn Write) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut per_stage: Option<f64> = None;
    for stages in [10, 100, 1000] {
        let pipeline = long(device, stages)?;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            best = best.min(milliseconds(|| device.compile(&pipeline).map(drop).map_err(Into::into))?);
        }
        // The base is what so many stages would take if each took as long as one of a hundred.
        let each = best / stages as f64;
        if stages == 100 {
            per_stage = Some(each);
        }
        let base = per_stage.unwrap_or(each) * stages as f64;
        rows.push(Row::new(format!("compile-{stages}"), "as per stage of 100", (best, base)));
    }
    let folder = std::env::temp_dir().join(format!("dala-startup-{}", std::process::id()));
    let own = std::env::current_exe()?;
    let mut frame = |explain: bool| -> anyhow::Result<f64> {
        let name = device.info().backend.name();
        let output = Command::new(&own)
            .args(["bench", "frame", "--device", name])
            .args(explain.then_some("--explain"))
            .env("DALA_CACHE", folder.join("kernels"))
            // Drivers keep what they compile: the first process must not find what others left there.
            .env("MESA_SHADER_CACHE_DIR", folder.join("driver"))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (time, table) = text.split_once('\n').unwrap_or((&text, ""));
        out.write_all(table.as_bytes())?;
        time.parse().with_context(|| format!("the other process said {text}"))
    };
    let (first, second) = (frame(explain)?, frame(false)?);
    rows.push(Row::new("first-frame-of-second-process", "first process", (second, first)));
    // Left behind, it would only take room.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(rows)
}

fn long(device: &Device, stages: usize) -> anyhow::Result<Pipeline> {
    let x = Buffer::from_slice(device, &vec![0.5f32; 1024], [32, 32])?;
    let y = Buffer::zeros(device, DType::F32, [32, 32])?;
    let mut pipeline = Pipeline::new();
    let mut from = Operand::from(&x);
    for index in 0..stages {
        let to = if index + 1 == stages { Operand::from(&y) } else { Operand::from(Transient::new()) };
        pipeline.push(match index % 4 {
            3 => Stage::run_kernel("softmax", [&from], &to, ()),
            other => Stage::run_kernel("scalar_add", [&from], &to, [("scalar", other as f64)]),
        });
        from = to;
    }
    Ok(pipeline)
}

/// The first frame of this process: from opening the device to its result. Prints milliseconds.
fn frame(device: &str, explain: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let device = device::open(device)?;
    let photo = Buffer::from_slice(&device, &vec![9u8; 480 * 640 * 4], [480, 640, 4])?;
    let gray = Buffer::zeros(&device, DType::U8, [480, 640])?;
    let (soft, sharp) = (Transient::new(), Transient::new());
    let pipeline = Pipeline::new()
        .stage(Stage::run_kernel("blur", [&photo], &soft, [("radius", 3)]))
        .stage(Stage::run_kernel("sharpen", [&soft], &sharp, [("amount", 0.5)]))
        .stage(Stage::run_kernel("grayscale", [&sharp], &gray, ()));
    device.compile(&pipeline)?.run()?;
    gray.read::<u8>()?;
    let time: Duration = start.elapsed();
    writeln!(out, "{:.3}", time.as_secs_f64() * 1e3)?;
    if explain {
        built::table(out, &KernelCache::built())?;
    }
    Ok(Outcome::Success)
}
