//! Times kernels on a device, one line each, for comparison with other libraries: `benches/peers/run.py` runs both side by
//! side and prints the ratios.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example that prints, and stops on the first failure")]

use std::time::{Duration, Instant};

use dala_compute::prelude::*;

/// How long each kernel is timed.
const PATIENCE: Duration = Duration::from_millis(600);

/// Reproducible bytes.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Prints the shortest time of a call in milliseconds.
fn time(device: &Device, label: &str, kernel: &str, inputs: &[&Buffer], output: &Buffer, params: Params) {
    let wanted = std::env::args().nth(2).unwrap_or_default();
    if !label.starts_with(&wanted) {
        return;
    }
    for _ in 0..3 {
        device.run(kernel, inputs, output, &params).unwrap();
    }
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while start.elapsed() < PATIENCE {
        let call = Instant::now();
        device.run(kernel, inputs, output, &params).unwrap();
        best = best.min(call.elapsed());
    }
    println!("{label} {:.4}", best.as_secs_f64() * 1e3);
}

fn main() {
    let device = Device::open(&std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned())).unwrap();
    let image = Buffer::from_slice(&device, &noise(1080 * 1920 * 4), [1080, 1920, 4]).unwrap();
    let same = Buffer::zeros(&device, DType::U8, [1080, 1920, 4]).unwrap();
    let gray = Buffer::zeros(&device, DType::U8, [1080, 1920]).unwrap();
    let small = Buffer::zeros(&device, DType::U8, [720, 1280, 4]).unwrap();
    let run = |label, kernel, output: &Buffer, params| time(&device, label, kernel, &[&image], output, params);
    run("blur", "blur", &same, params! { radius: 3, sigma: 1.5 });
    run("blur_20", "blur", &same, params! { radius: 20, sigma: 7.0 });
    run("sharpen", "sharpen", &same, Params::new());
    run("sobel", "sobel", &same, Params::new());
    run("grayscale", "grayscale", &gray, Params::new());
    run("brightness_contrast", "brightness_contrast", &same, params! { contrast: 1.2 });
    run("flip", "flip", &same, Params::new());
    run("resize", "resize", &small, Params::new());
    run("resize_linear", "resize", &small, params! { antialias: false });
    run("resize_area", "resize", &small, params! { filter: "area" });
    for n in [256usize, 512, 1024] {
        let values: Vec<f32> = noise(n * n).into_iter().map(|byte| f32::from(byte) / 128.0 - 1.0).collect();
        let (a, b) = (&values, values.iter().rev().copied().collect::<Vec<_>>());
        let a = Buffer::from_slice(&device, a, [n, n]).unwrap();
        let b = Buffer::from_slice(&device, &b, [n, n]).unwrap();
        let c = Buffer::zeros(&device, DType::F32, [n, n]).unwrap();
        time(&device, &format!("matmul_{n}"), "matmul", &[&a, &b], &c, Params::new());
        if n == 1024 {
            time(&device, "softmax", "softmax", &[&a], &c, Params::new());
            time(&device, "layer_norm", "layer_norm", &[&a, &b_row(&device, n), &b_row(&device, n)], &c, Params::new());
            time(&device, "transpose", "transpose", &[&a], &c, Params::new());
            let row = Buffer::zeros(&device, DType::F32, [n]).unwrap();
            time(&device, "reduce_sum_rows", "reduce_sum", &[&a], &row, params! { axes: 1 });
            time(&device, "reduce_sum_columns", "reduce_sum", &[&a], &row, params! { axes: 0 });
        }
    }
}

fn b_row(device: &Device, n: usize) -> Buffer {
    Buffer::from_slice(device, &vec![0.5f32; n], [n]).unwrap()
}
