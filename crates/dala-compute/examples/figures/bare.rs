//! The bare engine, as someone would use it by hand.

use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::Handle;

use super::seconds;

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
pub(crate) struct Tuning(pub(crate) usize, pub(crate) u32, pub(crate) u32);

pub(crate) struct Bare {
    client: Client,
    pub(crate) cpu: bool,
    buffers: [Handle; 3],
    len: usize,
}

impl Bare {
    pub(crate) fn new(name: &str, len: usize) -> Bare {
        let device = match name {
            "cpu" => cubecl::Device::cpu(),
            "gl" => cubecl::Device::gl(cubecl::device::WgpuDeviceKind::DefaultDevice),
            _ => cubecl::Device::vulkan(cubecl::device::WgpuDeviceKind::DefaultDevice),
        };
        let client = device.unwrap().client();
        let buffers = [0; 3].map(|_| client.create_from_slice(bytemuck::cast_slice(&vec![1.5f32; len])));
        Bare { client, cpu: name == "cpu", buffers, len }
    }

    /// A launch and a checked synchronisation.
    pub(crate) fn run(&self, tuning: Tuning) {
        self.launch(tuning);
        block_on(self.client.sync_buffers([&self.buffers[2]])).unwrap();
    }

    /// Many launches in one pass on the device's own thread, and one check.
    pub(crate) fn run_many(&self, tuning: Tuning, count: usize) {
        self.client.exclusive(|| (0..count).for_each(|_| self.launch(tuning))).unwrap();
        block_on(self.client.sync_buffers([&self.buffers[2]])).unwrap();
    }

    fn launch(&self, Tuning(width, units, steps): Tuning) {
        let vectors = self.len.div_ceil(width);
        let cubes = vectors.div_ceil((units * steps) as usize) as u32;
        // SAFETY: every buffer holds `vectors` vectors.
        let [a, b, out] = self.buffers.clone().map(|h| unsafe { BufferArg::from_raw_parts(h, vectors) });
        let (count, dim) = (CubeCount::Static(cubes, 1, 1), CubeDim::new_1d(units));
        let (vectors, interleaved) = (vectors as u32, !self.cpu);
        // SAFETY: as above.
        unsafe { bare_add::launch_unchecked(&self.client, count, dim, width, a, b, out, vectors, steps, interleaved) };
    }

    pub(crate) fn best_tuning(&self) -> Tuning {
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
