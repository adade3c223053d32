//! What a fleet does: tables of simulated nodes under load, and with failures.
//!
//! `cargo run --release -p dala-route --example fleet -- [SETTING…] [NAME…]`. Names are those of [`TABLES`]; without one, all but
//! those that take long. [`Settings`] has the settings.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints tables")]

mod rows;
mod settings;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/it/simulation/mod.rs"]
mod simulation;

use std::time::Duration;

use rows::Rows;
use settings::Settings;
use simulation::callers::How;
use simulation::figures::Figures;
use simulation::node::{CORES, GPU, Table};
use simulation::scenarios::{self, MENDED};
use simulation::{MILLI, SECOND, Scenario};

/// A table: its name, whether it is printed if none is named, and what prints it.
type Printed = (&'static str, bool, fn(&Rows));

const TABLES: [Printed; 12] = [
    ("load", true, |rows| loads(rows, &[1, 2, 4, 8, 100])),
    ("large", true, |rows| loads(rows, &[1000])),
    ("million", true, million),
    ("killed", true, killed),
    ("restart", true, restart),
    ("slow", true, slow),
    ("hot", true, hot),
    ("cut", true, cut),
    ("curve", false, curve),
    ("gpu", false, gpu),
    ("callers", false, callers),
    ("agree", false, agree),
];

/// Loads of the curves, of what all devices can do.
const LOADS: [f64; 13] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.2];

/// What the row says where there is nothing to add.
fn nothing(_: &Figures) -> String {
    String::new()
}

fn loads(rows: &Rows, nodes: &[usize]) {
    for nodes in rows.sizes(nodes) {
        for load in rows.loads(&[0.5, 0.8, 0.95, 1.2]) {
            for how in rows.ways() {
                let seconds = (1000 / nodes as u64).clamp(5, 100);
                rows.add("steady", scenarios::load(nodes, *how, load, seconds), nothing);
            }
        }
    }
}

fn million(rows: &Rows) {
    rows.add("a million in a second", scenarios::million(How::Ours, SECOND / 2, 3 * SECOND), nothing);
}

fn killed(rows: &Rows) {
    for (nodes, how) in rows.sizes_and_ways(&[100, 1000]) {
        rows.add("connections break", scenarios::killed(nodes, how, false, 100), nothing);
        rows.add("the same; half pure", scenarios::killed(nodes, how, false, 50), nothing);
        rows.add("silently", scenarios::killed(nodes, how, true, 100), nothing);
    }
}

fn restart(rows: &Rows) {
    for (nodes, how) in rows.sizes_and_ways(&[8, 100]) {
        rows.add("told", scenarios::restarts(nodes, how, true), nothing);
        rows.add("found out", scenarios::restarts(nodes, how, false), nothing);
    }
}

fn slow(rows: &Rows) {
    let note = |figures: &Figures| format!("the slow one has {:.2} of its part", figures.of_first());
    for nodes in rows.sizes(&[8, 100]) {
        for load in rows.loads(&[0.5, 0.8]) {
            for how in rows.ways() {
                rows.add("one is slow", scenarios::slow(nodes, *how, load), note);
            }
        }
    }
}

fn hot(rows: &Rows) {
    for nodes in rows.sizes(&[8, 100]) {
        for load in rows.loads(&[0.5, 0.8]) {
            for how in rows.ways() {
                rows.add("one model is hot", scenarios::hot(nodes, *how, load), nothing);
            }
        }
    }
}

fn cut(rows: &Rows) {
    for (nodes, how) in rows.sizes_and_ways(&[8, 100]) {
        let scenario = scenarios::cut(nodes, how);
        let usual = 0.95 * scenario.load * scenario.table.saturation() * nodes as f64;
        let note = |figures: &Figures| format!("as before after {:.1} s", figures.seconds_until(MENDED, usual));
        rows.add("three seconds without network", scenario, note);
    }
}

/// What the first picture of `docs/SCALING.md` shows. Where more comes than goes, queues fill first.
fn curve(rows: &Rows) {
    for nodes in rows.sizes(&[1000]) {
        for load in rows.loads(&LOADS) {
            for how in rows.ways() {
                let warm = if load < 0.95 { SECOND } else { 4 * SECOND };
                let scenario = Scenario::new(CORES, nodes, *how, load);
                rows.add("cores", Scenario { warm, until: warm + SECOND, ..scenario }, nothing);
            }
        }
    }
}

/// The same with devices like GPUs, for a shorter time: 47 % are a million requests in a second.
fn gpu(rows: &Rows) {
    for nodes in rows.sizes(&[1000]) {
        for load in rows.loads(&[0.2, 0.47, 0.7, 0.9, 1.0, 1.2]) {
            for how in rows.ways() {
                let warm = 600 * MILLI;
                let scenario = Scenario { callers: 8, ..Scenario::new(GPU, nodes, *how, load) };
                rows.add("like a GPU", Scenario { warm, until: warm + 200 * MILLI, ..scenario }, nothing);
            }
        }
    }
}

/// The more nodes ask, the less each hears of those that answer.
fn callers(rows: &Rows) {
    for nodes in rows.sizes(&[1000]) {
        for callers in [1, 4, 16, 64, 256] {
            for how in rows.ways() {
                let scenario = Scenario { callers, until: 4 * SECOND, ..Scenario::new(CORES, nodes, *how, 0.8) };
                rows.add("so many callers' nodes", scenario, nothing);
            }
        }
    }
}

/// What a real cluster is set beside: one node that asks, and work that takes exactly so long.
fn agree(rows: &Rows) {
    rows.head_of_agreement();
    for nodes in rows.sizes(&[1, 2, 4, 8]) {
        for load in [0.5, 0.8, 1.0, 1.2] {
            let table = Table { spread: 0.0, useful: Duration::from_secs(1), ..CORES };
            let closed = (load == 1.0).then_some(rows.settings.closed * nodes);
            let (warm, until, latency) = (10 * SECOND, 70 * SECOND, 150 * MILLI / 1000);
            let scenario = Scenario::new(table, nodes, How::Ours, load);
            let callers = Scenario { callers: 1, people: u64::MAX, closed, ..scenario };
            rows.add_to_agreement(Scenario { warm, until, latency, ..callers });
        }
    }
}

fn main() -> Result<(), String> {
    let rows = Rows::new(Settings::read(std::env::args().skip(1))?)?;
    if let Some(unknown) = rows.settings.names.iter().find(|name| TABLES.iter().all(|(own, ..)| own != name)) {
        return Err(format!("there is no table {unknown}: {}", TABLES.map(|(name, ..)| name).join(", ")));
    }
    rows.head_of_all();
    for (name, usual, print) in TABLES {
        if rows.settings.wants(name, usual) {
            rows.head(name);
            print(&rows);
        }
    }
    Ok(())
}
