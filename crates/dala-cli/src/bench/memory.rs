//! The memory that real models take, beside ONNX Runtime: each in processes of its own.

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use dala_compute::{Buffer, DType};
use dala_model::Session;
use serde::Serialize;

use super::zoo;
use crate::args::{BenchArgs, Suite};
use crate::output::{self, Outcome};
use crate::{device, onnx};

/// How often a model is run before its memory is looked at.
const RUNS: usize = 3;
/// What less memory counts as: below it, allocators decide.
const LEAST_MIB: f64 = 1.0;

/// What the models of the zoo took.
#[derive(Serialize)]
struct Report {
    suite: &'static str,
    device: String,
    base: &'static str,
    rows: Vec<Row>,
    /// The geometric mean of how many times as much memory ours takes than the other, and that of the whole processes.
    growth_ratio: f64,
    whole_ratio: f64,
}

#[derive(Serialize)]
struct Row {
    name: String,
    file_mib: f64,
    ours: Memory,
    theirs: Memory,
    growth_ratio: f64,
    whole_ratio: f64,
}

/// What a process took at most, in MiB.
#[derive(Serialize)]
struct Memory {
    /// More than before it read the model.
    growth_mib: f64,
    /// All of it.
    whole_mib: f64,
}

impl Memory {
    /// From what a process says: its memory before, and the most it had, in KiB.
    fn parse(line: &str) -> Result<Memory> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        match numbers.as_deref() {
            Ok([before, peak]) => {
                Ok(Memory { growth_mib: ((peak - before) / 1024.0).max(LEAST_MIB), whole_mib: peak / 1024.0 })
            }
            _ => bail!("a process said {line:?} about its memory"),
        }
    }
}

/// Every model of the zoo, what takes the most beside the other first.
pub(super) fn run(args: &BenchArgs, out: &mut dyn Write) -> Result<Outcome> {
    let Suite::Zoo = args.suite else { bail!("--memory is for the zoo: dala bench zoo --memory") };
    let data = zoo::data()?;
    let mut rows = Vec::new();
    for (name, file) in zoo::models(&data, &args.only)? {
        let scratch = zoo::scratch(&name)?;
        let row = beside(&args.device, &data, &file, &name, &scratch);
        fs::remove_dir_all(&scratch)?;
        rows.push(row.context(name)?);
    }
    rows.sort_by(|a, b| b.growth_ratio.total_cmp(&a.growth_ratio));
    let mean = |of: fn(&Row) -> f64| (rows.iter().map(|row| of(row).ln()).sum::<f64>() / rows.len() as f64).exp();
    let (growth_ratio, whole_ratio) = (mean(|row| row.growth_ratio), mean(|row| row.whole_ratio));
    let report =
        Report { suite: "zoo-memory", device: args.device.clone(), base: zoo::BASE, rows, growth_ratio, whole_ratio };
    if args.json {
        output::json(out, &report)?;
        return Ok(Outcome::Success);
    }
    writeln!(
        out,
        "MiB at most, on {} beside {}: more than before the model was read, and whole",
        args.device,
        zoo::BASE
    )?;
    let mut table = vec![["", "file", "ours", "base", "ratio", "whole", "base", "ratio"].map(str::to_owned)];
    let (mib, times) = (|value: f64| format!("{value:.1}"), |value: f64| format!("{value:.2}"));
    table.extend(report.rows.iter().map(|row| {
        let Row { name, file_mib, ours, theirs, growth_ratio, whole_ratio } = row;
        [
            name.clone(),
            mib(*file_mib),
            mib(ours.growth_mib),
            mib(theirs.growth_mib),
            times(*growth_ratio),
            mib(ours.whole_mib),
            mib(theirs.whole_mib),
            times(*whole_ratio),
        ]
    }));
    let mean = format!("geometric mean of {}", report.rows.len());
    let none = String::new;
    table.push([mean, none(), none(), none(), times(growth_ratio), none(), none(), times(whole_ratio)]);
    output::columns(out, "  ", &table)?;
    Ok(Outcome::Success)
}

/// A model in a process of ours and in one of ONNX Runtime, one after the other.
fn beside(device: &str, data: &Path, file: &Path, name: &str, scratch: &Path) -> Result<Row> {
    let mut peer = zoo::peer(data, file, name, scratch)?;
    // It ran once to get ready.
    for _ in 1..RUNS {
        peer.time("run")?;
    }
    let theirs = Memory::parse(&peer.ask("memory")?)?;
    drop(peer);
    // The first one builds kernels for the others, where there are none yet.
    in_process(device, file, scratch)?;
    let ours = in_process(device, file, scratch)?;
    let file_mib = fs::metadata(file)?.len() as f64 / f64::from(1 << 20);
    let growth_ratio = ours.growth_mib / theirs.growth_mib;
    let whole_ratio = ours.whole_mib / theirs.whole_mib;
    Ok(Row { name: name.to_owned(), file_mib, ours, theirs, growth_ratio, whole_ratio })
}

/// The same in a process of ours.
fn in_process(device: &str, file: &Path, scratch: &Path) -> Result<Memory> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["bench", "peak", "--device", device])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("a process has no input")?;
    writeln!(input, "{}\n{}", file.display(), scratch.display())?;
    drop(input);
    let output = child.wait_with_output()?;
    Memory::parse(&String::from_utf8_lossy(&output.stdout))
}

/// The memory of this process before and at most while it reads a model and runs it, in KiB.
pub(super) fn own(device: &str, out: &mut dyn Write) -> Result<Outcome> {
    let mut lines = std::io::stdin().lock().lines();
    let (Some(file), Some(folder)) = (lines.next().transpose()?, lines.next().transpose()?) else {
        bail!("the input must have a line for the model and one for the folder of its inputs")
    };
    let device = device::open(device)?;
    let (one, other) = (Buffer::from_slice(&device, &[1f32; 64], [64])?, Buffer::zeros(&device, DType::F32, [64])?);
    device.run("relu", &[&one], &other, ())?;
    other.read_data()?;
    let inputs = zoo::inputs(&device, Path::new(&folder))?;
    // From now on the most that it had is counted anew, where that is allowed.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = resident("VmRSS:")?;
    let session = Session::new(&device, &onnx::open(Path::new(&file))?);
    let operands: Vec<&Buffer> = inputs.iter().collect();
    for _ in 0..RUNS {
        session.run(&operands)?.iter().try_for_each(|output| output.read_data().map(drop))?;
    }
    writeln!(out, "{before} {}", resident("VmHWM:")?)?;
    Ok(Outcome::Success)
}

/// A field of what Linux says about this process, in KiB.
fn resident(field: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("only Linux says how much memory a process has")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("it does not say how much")?;
    let number = line.split_whitespace().next().context("it does not say how much")?;
    Ok(number.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_counts_as_a_megabyte() {
        let memory = Memory::parse("4096 8192\n").unwrap();
        assert_eq!((memory.growth_mib, memory.whole_mib), (4.0, 8.0));
        assert_eq!(Memory::parse("4096 4100").unwrap().growth_mib, 1.0);
        assert!(Memory::parse("").is_err() && Memory::parse("1").is_err() && Memory::parse("a b").is_err());
    }
}
