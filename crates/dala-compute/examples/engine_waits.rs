//! How the engine's own CPU runtime waits: a reproduction for its authors, without any code of this project.
//!
//! `cargo run -p dala-compute --example engine_waits`
//!
//! A launch of 4,096 floats and a synchronisation, again and again; first on a quiet machine, then beside one busy loop of
//! the lowest priority for each core. A thread that sleeps while it waits is run at once when it is woken, whatever else of
//! lower priority there is: the second figure would then be close to the first. `CpuStream::submit` and idle workers call
//! `yield_now` instead, which on Linux 6.12 and later gives the rest of the thread's share away.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a measurement that people run")]

use std::process::{Child, Command};
use std::time::Instant;

use cubecl::future::block_on;
use cubecl::prelude::*;

#[cube(launch_unchecked)]
#[allow(clippy::needless_range_loop, reason = "kernels have no iterators")]
fn increase<N: Size>(x: &mut [Vector<f32, N>]) {
    for i in 0..x.len() {
        x[i] += Vector::new(1.0f32);
    }
}

/// Microseconds for a launch and a synchronisation: median and 99th percentile of 300.
fn measure() -> (f64, f64) {
    const LEN: usize = 4096;
    let client = cubecl::Device::cpu().unwrap().client();
    let x = client.create_from_slice(f32::as_bytes(&[0.0; LEN]));
    let one = || {
        let start = Instant::now();
        // SAFETY: the buffer holds so many vectors.
        unsafe {
            let x = BufferArg::from_raw_parts(x.clone(), LEN / 16);
            increase::launch_unchecked(&client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(1), 16, x);
        }
        block_on(client.sync()).unwrap();
        start.elapsed().as_secs_f64() * 1e6
    };
    for _ in 0..50 {
        one();
    }
    let mut times: Vec<f64> = (0..300).map(|_| one()).collect();
    times.sort_by(f64::total_cmp);
    (times[150], times[297])
}

fn main() {
    let (median, p99) = measure();
    println!("quiet: median {median:.0} µs, p99 {p99:.0} µs");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = || Command::new("nice").args(["-n", "19", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
    let mut loops: Vec<Child> = (0..cores).map(|_| busy()).collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let (median, p99) = measure();
    println!("beside {cores} busy loops of the lowest priority: median {median:.0} µs, p99 {p99:.0} µs");
    for child in &mut loops {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
