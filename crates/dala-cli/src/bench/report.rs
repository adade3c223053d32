//! What suites measured, as tables and as JSON.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::output;

const SHOWN_LAUNCHES: usize = 15;
/// Sizes that are compared are at most this much larger or smaller.
const NEAR: f64 = 0.05;
/// Smaller pictures cost more for each pixel, whatever their size.
const SMALL: usize = 64;

/// What a suite measured.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) suite: &'static str,
    pub(super) device: String,
    pub(super) rows: Vec<Row>,
    #[serde(flatten)]
    pub(super) details: Option<Details>,
}

/// Ours beside theirs, the best of several rounds each.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ours_ms: f64,
    pub(super) base_ms: f64,
    pub(super) ratio: f64,
    /// What the base is.
    pub(super) base: String,
    /// What each size costs, where sizes are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) curves: Vec<Curve>,
}

impl Row {
    pub(super) fn new(name: impl Into<String>, base: impl Into<String>, (ours, theirs): (f64, f64)) -> Row {
        let (name, base) = (name.into(), base.into());
        Row { name, ours_ms: ours, base_ms: theirs, ratio: ours / theirs, base, curves: Vec::new() }
    }
}

/// How long something takes.
pub(super) fn milliseconds(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// What each size costs along one side.
#[derive(Serialize)]
pub(super) struct Curve {
    /// The side that varies.
    pub(super) side: &'static str,
    /// The other one.
    pub(super) other: usize,
    /// Each length, and milliseconds for a million pixels.
    pub(super) points: Vec<(usize, f64)>,
}

impl Curve {
    /// The worst point beside the best one of nearly its length.
    pub(super) fn worst(&self) -> Option<((usize, f64), (usize, f64))> {
        let near = |a: usize, b: usize| (a as f64 - b as f64).abs() <= NEAR * a as f64;
        let best = |length: usize| {
            let others = self.points.iter().copied().filter(move |(other, _)| near(length, *other));
            others.min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let large = self.points.iter().copied().filter(|(length, _)| *length > SMALL);
        let pairs = large.filter_map(|point| Some((point, best(point.0)?)));
        pairs.max_by(|(a, b), (c, d)| (a.1 / b.1).total_cmp(&(c.1 / d.1)))
    }
}

/// What is told beside the rows, all of it for a batch of one.
#[derive(Serialize)]
pub(super) struct Details {
    pub(super) load_to_first_result: FirstResult,
    /// All launches, the longest first.
    pub(super) launches: Vec<LaunchRow>,
}

/// From a path to a result, in milliseconds, on a device that is open.
#[derive(Serialize)]
pub(super) struct FirstResult {
    pub(super) read_ms: f64,
    pub(super) compile_ms: f64,
    pub(super) run_ms: f64,
    pub(super) total_ms: f64,
}

#[derive(Serialize)]
pub(super) struct LaunchRow {
    pub(super) name: String,
    pub(super) ms: f64,
    /// Of the sum of all launches.
    pub(super) share: f64,
    pub(super) bytes: usize,
}

impl Details {
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let FirstResult { read_ms, compile_ms, run_ms, total_ms } = self.load_to_first_result;
        writeln!(
            out,
            "load-to-first-result {total_ms:.1} ms: read {read_ms:.1}, compile {compile_ms:.1}, first run {run_ms:.1}"
        )?;
        let all = self.launches.len();
        writeln!(out, "the longest of {all} launches, one by one, a batch of 1")?;
        let row =
            |row: &LaunchRow| [format!("{:8.3} ms", row.ms), format!("{:5.1} %", row.share * 100.0), row.name.clone()];
        let shown = &self.launches[..all.min(SHOWN_LAUNCHES)];
        Ok(output::columns(out, "  ", &shown.iter().map(row).collect::<Vec<_>>())?)
    }
}
