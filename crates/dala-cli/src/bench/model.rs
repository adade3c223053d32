//! MobileNetV2 beside ONNX Runtime, where its time goes, and how soon its first result is there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dala_compute::{Device, Plan};
use dala_model::Model;

use super::peer::Peer;
use super::report::{Details, FirstResult, LaunchRow, Row, milliseconds};
use crate::onnx::{self, Alone};

const ONNX_RUNTIME: &str = include_str!("../../../../benches/peers/onnxruntime_model.py");
const BASE: &str = "ONNX Runtime, 2 threads";

/// Threads of ONNX Runtime go on for a while after a run, in case there is more to do.
const PAUSE: Duration = Duration::from_millis(20);
/// Runs of one side before it is the other side's turn; the best counts.
const RUNS: usize = 3;
const WARM_UPS: usize = 4;
const ROUNDS: usize = 25;
/// Slow devices are measured in fewer rounds.
const PATIENCE: Duration = Duration::from_secs(30);
const FEWEST_ROUNDS: usize = 5;

const PROFILES: usize = 5;

pub(super) fn measure(device: &Device, explain: bool, out: &mut dyn Write) -> Result<(Vec<Row>, Details)> {
    let files = ["mobilenet_v2.onnx", "mobilenet_v2.folded.onnx"].map(onnx::installed);
    let [file, folded]: [PathBuf; 2] = match files {
        [Ok(file), Ok(folded)] => [file, folded],
        [Err(error), _] | [_, Err(error)] => return Err(error),
    };
    // First of all, while nothing is built.
    let (model, one, load_to_first_result) = first_result(device, &file)?;
    if explain {
        writeln!(out, "{}", one.plan.explain())?;
    }
    let eight = ready(Alone::of_kernel(device, "mobilenet", &model, 8)?)?;
    let other = ready(Alone::new(device, "mobilenet_folded", &onnx::open(&folded)?, 1)?)?;
    let rows = vec![
        beside("mobilenet-b1-ort", &one.plan, &file, "1")?,
        beside("mobilenet-b8-ort", &eight.plan, &file, "8")?,
        beside("mobilenet-folded-b1-ort", &other.plan, &folded, "1")?,
    ];
    Ok((rows, Details { load_to_first_result, launches: launches(&one.plan)? }))
}

/// Reads, compiles and runs a model for the first time.
fn first_result(device: &Device, file: &Path) -> Result<(Model, Alone, FirstResult)> {
    let start = Instant::now();
    let model = onnx::open(file)?;
    let read = start.elapsed();
    let alone = Alone::new(device, "mobilenet", &model, 1)?;
    let compiled = start.elapsed();
    let alone = ready(alone)?;
    alone.plan.run()?;
    let run = start.elapsed();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (read_ms, compile_ms, run_ms) = (ms(read), ms(compiled - read), ms(run - compiled));
    Ok((model, alone, FirstResult { read_ms, compile_ms, run_ms, total_ms: ms(run) }))
}

/// The same with noise for an input, the same each time.
fn ready(alone: Alone) -> Result<Alone> {
    for input in &alone.inputs {
        let noise = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7) as u16;
        let values: Vec<f32> = (0..input.len()).map(|index| f32::from(noise(index)) / 16384.0 - 2.0).collect();
        input.write(&values)?;
    }
    Ok(alone)
}

/// A plan and ONNX Runtime in turn.
fn beside(name: &str, plan: &Plan, file: &Path, batch: &str) -> Result<Row> {
    let path = file.to_str().context("the path of the model is no text")?;
    let mut peer = Peer::start(ONNX_RUNTIME, &[path, batch, "2"], "ONNX Runtime")?;
    let mut best = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    for round in 0..WARM_UPS + ROUNDS {
        if round >= WARM_UPS + FEWEST_ROUNDS && start.elapsed() > PATIENCE {
            break;
        }
        let ours = turn(|| milliseconds(|| Ok(plan.run()?)))?;
        let theirs = turn(|| peer.time("run"))?;
        if round >= WARM_UPS {
            best = (best.0.min(ours), best.1.min(theirs));
        }
    }
    Ok(Row::new(name, BASE, best))
}

/// The best of a few runs, after a pause.
pub(super) fn turn(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    sleep(PAUSE);
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(run()?.min(best)))
}

/// The launches of a plan, the longest first.
fn launches(plan: &Plan) -> Result<Vec<LaunchRow>> {
    // The first profile may build what runs did not need.
    plan.profile()?;
    let steps = &plan.blueprint().steps;
    let name = |index: usize| steps.get(index).map(|step| step.parts.join(" + ")).unwrap_or_default();
    let mut rows: Vec<LaunchRow> = Vec::new();
    for _ in 0..PROFILES {
        for (index, launch) in plan.profile()?.into_iter().enumerate() {
            let ms = launch.time.as_secs_f64() * 1e3 / PROFILES as f64;
            match rows.get_mut(index) {
                Some(row) => row.ms += ms,
                None => rows.push(LaunchRow { name: name(index), ms, share: 0.0, bytes: launch.bytes }),
            }
        }
    }
    let total: f64 = rows.iter().map(|row| row.ms).sum();
    rows.iter_mut().for_each(|row| row.share = row.ms / total);
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(rows)
}
