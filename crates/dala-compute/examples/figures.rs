//! Measures this library beside the bare engine and beside memcpy, as ratios in one run.
//!
//! `cargo run -p dala-compute --example figures [cpu] [vulkan] [gl]`
//!
//! Samples of both sides alternate, because machines are noisy; each line shows the medians and their ratio, and the
//! ratio of the best ones. The bare engine against itself shows how much of a ratio is noise.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a measurement that people run")]

use std::time::Instant;

use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::Handle;
use dala_compute::{Buffer, DType, Device};

#[cube(launch_unchecked)]
fn bare_add<N: Size>(
    a: &[Vector<f32, N>],
    b: &[Vector<f32, N>],
    out: &mut [Vector<f32, N>],
    vectors: u32,
    steps: u32,
    #[comptime] interleaved: bool,
) {
    if comptime!(interleaved) {
        let first = CUBE_POS as u32 * steps * CUBE_DIM + UNIT_POS;
        for step in 0..steps {
            let i = first + step * CUBE_DIM;
            if i < vectors {
                out[i as usize] = a[i as usize] + b[i as usize];
            }
        }
    } else {
        let first = ABSOLUTE_POS as u32 * steps;
        let end = min(first + steps, vectors);
        for i in first..end {
            out[i as usize] = a[i as usize] + b[i as usize];
        }
    }
}

/// Width, units, steps: what a hand-written kernel would be tuned over.
#[derive(Clone, Copy, Debug)]
struct Tuning(usize, u32, u32);

struct Bare {
    client: Client,
    cpu: bool,
    buffers: [Handle; 3],
    len: usize,
}

impl Bare {
    fn new(name: &str, len: usize) -> Bare {
        let device = match name {
            "cpu" => cubecl::Device::cpu(),
            "gl" => cubecl::Device::gl(cubecl::device::WgpuDeviceKind::DefaultDevice),
            _ => cubecl::Device::vulkan(cubecl::device::WgpuDeviceKind::DefaultDevice),
        };
        let client = device.unwrap().client();
        let buffers = [0; 3].map(|_| client.create_from_slice(bytemuck::cast_slice(&vec![1.5f32; len])));
        Bare { client, cpu: name == "cpu", buffers, len }
    }

    fn run(&self, Tuning(width, units, steps): Tuning) {
        let vectors = self.len.div_ceil(width);
        let cubes = vectors.div_ceil((units * steps) as usize) as u32;
        // SAFETY: every buffer holds `vectors` vectors.
        let [a, b, out] = self.buffers.clone().map(|h| unsafe { BufferArg::from_raw_parts(h, vectors) });
        let (count, dim) = (CubeCount::Static(cubes, 1, 1), CubeDim::new_1d(units));
        let (vectors, interleaved) = (vectors as u32, !self.cpu);
        // SAFETY: as above.
        unsafe { bare_add::launch_unchecked(&self.client, count, dim, width, a, b, out, vectors, steps, interleaved) };
        block_on(self.client.sync_buffers([&self.buffers[2]])).unwrap();
    }

    fn best_tuning(&self) -> Tuning {
        let candidates: &[Tuning] = if self.cpu {
            &[Tuning(64, 2, 64), Tuning(64, 2, 512), Tuning(64, 2, 4096), Tuning(32, 2, 2048), Tuning(16, 2, 4096)]
        } else {
            &[
                Tuning(4, 64, 16),
                Tuning(4, 64, 64),
                Tuning(4, 128, 16),
                Tuning(4, 256, 8),
                Tuning(4, 256, 16),
                Tuning(4, 256, 32),
            ]
        };
        let time = |tuning: &Tuning| {
            self.run(*tuning);
            let mut samples: Vec<f64> = (0..7).map(|_| seconds(|| self.run(*tuning))).collect();
            samples.sort_by(f64::total_cmp);
            samples[3]
        };
        *candidates.iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap()
    }
}

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
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (middle, best) = (rounds / 2, 0);
    println!(
        "  {what}: {:.3} ms against {:.3} ms, ratio {:.2} (best {:.2})",
        a[middle] * 1e3,
        b[middle] * 1e3,
        a[middle] / b[middle],
        a[best] / b[best]
    );
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let names = if names.is_empty() { vec!["cpu".into(), "vulkan".into(), "gl".into()] } else { names };
    for name in names {
        let device = Device::open(&name).unwrap();
        println!("{name}: {}", device.info().name);

        let len = 1 << 24;
        let ones = vec![1.5f32; len];
        let [a, b] = [0; 2].map(|_| Buffer::from_slice(&device, &ones, [len]).unwrap());
        let out = Buffer::zeros(&device, DType::F32, [len]).unwrap();
        let bare = Bare::new(&name, len);
        let tuning = bare.best_tuning();
        compare(
            &format!("elementwise_add on 16M f32 against the bare engine at {tuning:?}"),
            41,
            || device.run("elementwise_add", &[&a, &b], &out, ()).unwrap(),
            || bare.run(tuning),
        );
        let twin = Bare::new(&name, len);
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

        let small = 1024;
        let [a, b] = [0; 2].map(|_| Buffer::from_slice(&device, &ones[..small], [small]).unwrap());
        let out = Buffer::zeros(&device, DType::F32, [small]).unwrap();
        let bare = Bare::new(&name, small);
        let tuning = if bare.cpu { Tuning(64, 2, 8) } else { Tuning(4, 64, 1) };
        compare(
            "one small run against a bare launch and checked synchronisation",
            2001,
            || device.run("elementwise_add", &[&a, &b], &out, ()).unwrap(),
            || bare.run(tuning),
        );
    }
}
