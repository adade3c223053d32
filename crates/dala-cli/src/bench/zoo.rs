//! Real models beside ONNX Runtime.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use dala_compute::{Buffer, Data, Device, Shape};
use dala_model::Session;
use serde_json::Value;

use super::model::turn;
use super::peer::Peer;
use super::report::{Row, milliseconds};
use crate::{onnx, tensor_file};

const ONNX_RUNTIME: &str = include_str!("../../../../benches/peers/onnxruntime_zoo.py");
pub(super) const BASE: &str = "ONNX Runtime, 2 threads";

const WARM_UPS: usize = 2;
const ROUNDS: usize = 12;
/// Slow models are measured in fewer rounds.
const PATIENCE: Duration = Duration::from_secs(4);
const FEWEST_ROUNDS: usize = 2;

/// A row for each model that is there, the slowest beside the other first, and their geometric mean.
pub(super) fn measure(device: &Device, only: &[String]) -> Result<Vec<Row>> {
    let data = data()?;
    let mut rows = models(&data, only)?
        .into_iter()
        .map(|(id, file)| beside(device, &data, &file, &id).context(id))
        .collect::<Result<Vec<_>>>()?;
    rows.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let mean = |of: fn(&Row) -> f64| (rows.iter().map(|row| of(row).ln()).sum::<f64>() / rows.len() as f64).exp();
    let means = (mean(|row| row.ours_ms), mean(|row| row.base_ms));
    rows.push(Row::new(format!("geometric mean of {}", rows.len()), BASE, means));
    Ok(rows)
}

/// Where the inputs are.
pub(super) fn data() -> Result<PathBuf> {
    folder("DALA_ZOO_DATA", "zoo-data")
}

/// The models that are there, at least one: names and files.
pub(super) fn models(data: &Path, only: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let models = folder("DALA_ZOO", "zoo")?;
    let text = std::fs::read_to_string(data.join("zoo.json"))
        .with_context(|| format!("{} is missing: run scripts/zoo", data.join("zoo.json").display()))?;
    let zoo: Value = serde_json::from_str(&text)?;
    let ids = zoo.as_array().into_iter().flatten().filter_map(|entry| entry["id"].as_str());
    let wanted = ids.filter(|id| only.is_empty() || only.iter().any(|own| own == id));
    let files = wanted.map(|id| (id.to_owned(), models.join(format!("{id}.onnx"))));
    let there: Vec<(String, PathBuf)> = files.filter(|(_, file)| file.is_file()).collect();
    if there.is_empty() {
        bail!("none of the models is in {}: run scripts/zoo", models.display());
    }
    Ok(there)
}

/// A folder that a variable names, or one of that name where `scripts/zoo` puts it.
fn folder(variable: &str, name: &str) -> Result<PathBuf> {
    match env::var_os(variable).filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(env::home_dir().context("there is no home folder")?.join(".cache/dala-compute").join(name)),
    }
}

/// A folder for the inputs of a model, to be removed.
pub(super) fn scratch(id: &str) -> Result<PathBuf> {
    let scratch = env::temp_dir().join(format!("dala-bench-{}-{id}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    Ok(scratch)
}

/// ONNX Runtime with a model that it ran once; its inputs are in a folder then.
pub(super) fn peer(data: &Path, file: &Path, id: &str, scratch: &Path) -> Result<Peer> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is no text");
    let arguments = [text(data)?, text(file)?, id.to_owned(), "2".to_owned(), text(scratch)?];
    Peer::start(ONNX_RUNTIME, &arguments.each_ref().map(String::as_str), "ONNX Runtime and safetensors")
}

/// The inputs in a folder, in their order.
pub(super) fn inputs(device: &Device, folder: &Path) -> Result<Vec<Buffer>> {
    let files = (0..).map(|number: usize| folder.join(format!("{number}.npy"))).take_while(|file| file.is_file());
    let input = |file: PathBuf| -> Result<Buffer> {
        let (data, shape) = tensor_file::read(&file)?;
        Ok(Buffer::from_bytes(device, &data.to_bytes(), data.dtype(), Shape::from(shape))?)
    };
    files.map(input).collect()
}

/// A model and ONNX Runtime in turn, on the same inputs.
fn beside(device: &Device, data: &Path, file: &Path, id: &str) -> Result<Row> {
    let scratch = scratch(id)?;
    let mut peer = peer(data, file, id, &scratch)?;
    let model = onnx::open(file)?;
    let inputs = inputs(device, &scratch);
    std::fs::remove_dir_all(&scratch)?;
    let inputs = inputs?;
    let operands: Vec<&Buffer> = inputs.iter().collect();
    let session = Session::new(device, &model);
    // Results come to the host, as theirs do, into memory that is used again, as theirs is.
    let mut results: Vec<Data> = Vec::new();
    let mut run = || -> Result<()> {
        for (place, output) in session.run(&operands)?.iter().enumerate() {
            match results.get_mut(place).filter(|held| held.dtype() == output.dtype() && held.len() == output.len()) {
                Some(held) => output.read_data_into(held)?,
                None => {
                    results.truncate(place);
                    results.push(output.read_data()?);
                }
            }
        }
        Ok(())
    };
    run()?;
    let mut best = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    for round in 0..WARM_UPS + ROUNDS {
        if round >= WARM_UPS + FEWEST_ROUNDS && start.elapsed() > PATIENCE {
            break;
        }
        let ours = turn(|| milliseconds(&mut run))?;
        let theirs = turn(|| peer.time("run"))?;
        if round >= WARM_UPS {
            best = (best.0.min(ours), best.1.min(theirs));
        }
    }
    Ok(Row::new(id, BASE, best))
}
