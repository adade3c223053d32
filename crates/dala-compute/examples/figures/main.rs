//! Measures this library beside the bare engine and beside memcpy, as ratios in one run.
//!
//! `cargo run -p dala-compute --example figures [data] [commands] [launches] [cpu] [vulkan] [gl]`
//!
//! Samples of both sides alternate, because machines are noisy; each line shows the medians and their ratio, and the
//! ratio of the best ones. The bare engine against itself shows how much of a ratio is noise.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a measurement that people run")]

mod bare;
mod commands;
mod launches;

use std::time::Instant;

use bare::Bare;
use dala_compute::{Buffer, DType, Device};

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Times both in turn, and prints their ratio.
fn compare(what: &str, rounds: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) {
    ours();
    theirs();
    let (mut a, mut b): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| (seconds(&mut ours), seconds(&mut theirs))).unzip();
    report(what, &mut a, &mut b);
}

fn report(what: &str, ours: &mut [f64], theirs: &mut [f64]) {
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let (middle, best) = (ours.len() / 2, 0);
    println!(
        "  {what}: {:.3} ms against {:.3} ms, ratio {:.2} (best {:.2})",
        ours[middle] * 1e3,
        theirs[middle] * 1e3,
        ours[middle] / theirs[middle],
        ours[best] / theirs[best]
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // What is not named is all meant.
    let chosen = |all: &[&'static str]| -> Vec<&'static str> {
        let named: Vec<_> = all.iter().copied().filter(|name| words.iter().any(|word| word == name)).collect();
        if named.is_empty() { all.to_vec() } else { named }
    };
    for name in chosen(&["cpu", "vulkan", "gl"]) {
        println!("{name}: {}", Device::open(name).unwrap().info().name);
        for part in chosen(&["data", "commands", "launches"]) {
            match part {
                "data" => data(name),
                "commands" => commands::measure(name),
                _ => launches::measure(name),
            }
        }
    }
}

/// Large kernels and transfers.
fn data(name: &str) {
    let device = Device::open(name).unwrap();
    let len = 1 << 24;
    let ones = vec![1.5f32; len];
    let [a, b] = [0; 2].map(|_| Buffer::from_slice(&device, &ones, [len]).unwrap());
    let out = Buffer::zeros(&device, DType::F32, [len]).unwrap();
    let bare = Bare::new(name, len);
    let tuning = bare.best_tuning();
    compare(
        &format!("elementwise_add on 16M f32 against the bare engine at {tuning:?}"),
        41,
        || device.run("elementwise_add", &[&a, &b], &out, ()).unwrap(),
        || bare.run(tuning),
    );
    let twin = Bare::new(name, len);
    compare("the bare engine against itself on other buffers", 41, || twin.run(tuning), || bare.run(tuning));

    let mut warm = vec![0.5f32; len];
    compare(
        "upload of 64 MB against memcpy into warm memory",
        21,
        || a.write(&ones).unwrap(),
        || warm.copy_from_slice(std::hint::black_box(&ones)),
    );
    let mut target = vec![0.5f32; len];
    compare(
        "read of 64 MB against memcpy into warm memory",
        21,
        || out.read_into(&mut target).unwrap(),
        || warm.copy_from_slice(std::hint::black_box(&ones)),
    );
}
