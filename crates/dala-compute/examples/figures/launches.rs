//! What a launch costs: inside a plan that is run again, and by itself.

use std::time::Instant;

use dala_compute::{Buffer, DType, Device, DeviceOptions, Pipeline, Plan, PlanOptions, Stage};

/// So many launches of one kernel over `len` floats, each reading what the one before it wrote.
fn plan(device: &Device, launches: usize, len: usize) -> Plan {
    let buffers = [0; 2].map(|_| Buffer::zeros(device, DType::F32, [len]).unwrap());
    let mut pipeline = Pipeline::new();
    for launch in 0..launches {
        let (from, to) = (&buffers[launch % 2], &buffers[(launch + 1) % 2]);
        pipeline.push(Stage::run_kernel("scalar_add", [from], to, [("scalar", 0.5)]));
    }
    let plan = device.compile_with(&pipeline, PlanOptions::unfused()).unwrap();
    assert_eq!(plan.launches(), launches);
    plan
}

/// The best of many runs, in microseconds.
fn best(rounds: usize, mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..rounds).map(time).fold(f64::INFINITY, f64::min)
}

/// What one more launch costs: the slope between a hundred and a thousand.
fn slope(device: &Device, len: usize) -> f64 {
    let (few, many) = (plan(device, 100, len), plan(device, 1000, len));
    let time = |plan: &Plan| best(60, || plan.run().unwrap());
    // Both learn how long their launches take before they count.
    let _ = (time(&few), time(&many));
    (time(&many) - time(&few)) / 900.0
}

pub(crate) fn measure(name: &str) {
    let device = Device::open(name).unwrap();
    println!("  one more launch of 16 floats in a plan: {:.3} µs", slope(&device, 16));
    let long = slope(&device, 65_536);
    println!("  one more launch of 65,536 floats in a plan: {long:.2} µs");
    if name == "cpu" {
        let single = Device::open_with(name, DeviceOptions::new().threads(1)).unwrap();
        let alone = slope(&single, 65_536);
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        println!("  the same on one thread: {alone:.2} µs; sharing it costs {:.2} µs", long - alone / threads);
    }
    let [a, b, c] = [0; 3].map(|_| Buffer::from_slice(&device, &[1.5f32; 16], [16]).unwrap());
    let call = || device.run("elementwise_add", &[&a, &b], &c, ()).unwrap();
    let mut rounds: Vec<f64> = (0..20).map(|_| best(1, || (0..1000).for_each(|_| call())) / 1000.0).collect();
    rounds.sort_by(f64::total_cmp);
    println!("  one call, kernel and buffers known: {:.2} µs (median {:.2})", rounds[0], rounds[10]);
}
