//! What a fleet does: tables of simulated nodes under load, and with failures.
//!
//! `cargo run -p dala-route --example fleet -- [--csv] [NAME…]`, where a name is one of `load`, `large`, `million`, `killed`,
//! `restart`, `slow`, `hot` and `cut`; without one, all of them.

#![allow(clippy::print_stdout, reason = "it prints tables")]

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/simulation/mod.rs"]
mod simulation;

use std::time::Instant;

use simulation::callers::How;
use simulation::figures::Figures;
use simulation::scenarios::{self, MENDED};
use simulation::{SECOND, Scenario};

/// The columns of every table.
const COLUMNS: [&str; 15] = [
    "what",
    "how",
    "asked",
    "answered",
    "in time/s",
    "refused %",
    "repeated %",
    "came again %",
    "in doubt",
    "lost",
    "doubled",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "note",
];

struct Tables {
    csv: bool,
    wanted: Vec<String>,
}

impl Tables {
    fn wants(&self, name: &str) -> bool {
        let wants = self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name);
        if wants && !self.csv {
            println!("\n{name}\n\n| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        }
        wants
    }

    /// Runs a scenario, prints a row of it, and gives what it took.
    fn row(&self, what: &str, scenario: &Scenario, note: impl Fn(&Figures) -> String) {
        let started = Instant::now();
        let figures = scenario.run();
        let wall = started.elapsed().as_secs_f64();
        let note = note(&figures);
        let cells = [
            what.to_owned(),
            scenario.how.name().to_owned(),
            figures.asked.to_string(),
            figures.answered.to_string(),
            format!("{:.0}", figures.goodput()),
            format!("{:.2}", figures.percent(figures.refused)),
            format!("{:.2}", figures.percent(figures.repeated)),
            format!("{:.1}", figures.percent(figures.returned)),
            figures.in_doubt.to_string(),
            figures.lost.to_string(),
            figures.doubled.to_string(),
            format!("{:.1}", figures.percentile(500)),
            format!("{:.1}", figures.percentile(990)),
            format!("{:.1}", figures.percentile(999)),
            if note.is_empty() { format!("{} events in {wall:.1} s", figures.events) } else { note },
        ];
        match self.csv {
            true => println!("{}", cells.join(",")),
            false => println!("| {} |", cells.join(" | ")),
        }
    }
}

fn main() {
    let (flags, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word == "--csv");
    let tables = Tables { csv: !flags.is_empty(), wanted };
    if tables.csv {
        println!("{}", COLUMNS.join(","));
    }
    let none = |_: &Figures| String::new();
    for (name, nodes) in [("load", &[1, 2, 4, 8, 100][..]), ("large", &[1000])] {
        if tables.wants(name) {
            for (nodes, load) in nodes.iter().flat_map(|nodes| [0.5, 0.8, 0.95, 1.2].map(|load| (*nodes, load))) {
                for how in How::ALL {
                    let seconds = (1000 / nodes as u64).clamp(5, 100);
                    let what = format!("{nodes} nodes at {:.0} %", load * 100.0);
                    tables.row(&what, &scenarios::load(nodes, how, load, seconds), none);
                }
            }
        }
    }
    if tables.wants("million") {
        tables.row("1000 nodes at 47 %", &scenarios::million(How::Ours, SECOND / 2, 3 * SECOND), none);
    }
    if tables.wants("killed") {
        for how in How::ALL {
            tables.row("100 nodes, all pure", &scenarios::killed(100, how, false, 100), none);
            tables.row("100 nodes, half pure", &scenarios::killed(100, how, false, 50), none);
            tables.row("1000 nodes, all pure", &scenarios::killed(1000, how, false, 100), none);
            tables.row("100 nodes, silently", &scenarios::killed(100, how, true, 100), none);
        }
    }
    if tables.wants("restart") {
        for (nodes, how) in [8, 100].into_iter().flat_map(|nodes| How::ALL.map(|how| (nodes, how))) {
            tables.row(&format!("{nodes} nodes, told"), &scenarios::restarts(nodes, how, true), none);
            tables.row(&format!("{nodes} nodes, found out"), &scenarios::restarts(nodes, how, false), none);
        }
    }
    if tables.wants("slow") {
        for (nodes, load) in [(8, 0.5), (8, 0.8), (100, 0.5), (100, 0.8)] {
            for how in How::ALL {
                let what = format!("{nodes} nodes at {:.0} %", load * 100.0);
                let note = |figures: &Figures| format!("the slow one has {:.2} of its part", figures.of_first());
                tables.row(&what, &scenarios::slow(nodes, how, load), note);
            }
        }
    }
    if tables.wants("hot") {
        for (nodes, load) in [(8, 0.5), (8, 0.8), (100, 0.8)] {
            for how in How::ALL {
                tables.row(&format!("{nodes} nodes at {:.0} %", load * 100.0), &scenarios::hot(nodes, how, load), none);
            }
        }
    }
    if tables.wants("cut") {
        for (nodes, how) in [8, 100].into_iter().flat_map(|nodes| How::ALL.map(|how| (nodes, how))) {
            let scenario = scenarios::cut(nodes, how);
            let usual = 0.95 * scenario.load * scenario.table.saturation() * nodes as f64;
            let note = |figures: &Figures| format!("as before after {:.1} s", figures.seconds_until(MENDED, usual));
            tables.row(&format!("{nodes} nodes"), &scenario, note);
        }
    }
}
