//! What a fleet does: tables of simulated nodes under load, and with failures.
//!
//! `cargo run -p dala-route --example fleet -- [--csv] [NAME…]`, where a name is one of `load`, `large`, `lost`, `silent`,
//! `restart`, `slow`, `hot` and `cut`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints tables")]

#[path = "../tests/it/simulation/mod.rs"]
mod simulation;

use simulation::callers::How;
use simulation::node::{CORES, GPU, Table};
use simulation::Scenario;

fn main() {
    for nodes in [1, 2, 4, 8, 100] {
        for load in [0.5, 0.8, 0.95, 1.2] {
            for how in How::ALL {
                let started = std::time::Instant::now();
                let f = Scenario::new(&CORES, nodes, how, load).run();
                println!("{nodes} {load} {:12} asked {} ans {} good {:.1}% ref {:.2}% rep {:.2}% p50 {:.1} p99 {:.1} p999 {:.1} lost {} dbl {} ev {} {:.1}s", how.name(), f.asked, f.answered, f.percent(f.in_time), f.percent(f.refused), f.percent(f.repeated), f.percentile(500), f.percentile(990), f.percentile(999), f.lost, f.doubled, f.events, started.elapsed().as_secs_f64());
            }
        }
    }
}
