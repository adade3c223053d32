//! The engine as someone would use it by hand: what our own figures are compared with.
//!
//! It is here, and uses the engine that the library hands out, because the library itself has no use for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::anyhow;
use dala_compute::{Backend, cubecl};

use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::{Handle, ServerError};

#[cube(launch_unchecked)]
fn copy<N: Size>(
    x: &[Vector<f32, N>],
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
                out[i as usize] = x[i as usize];
            }
        }
    } else {
        let first = ABSOLUTE_POS as u32 * steps;
        let end = min(first + steps, vectors);
        for i in first..end {
            out[i as usize] = x[i as usize];
        }
    }
}

#[cube(launch_unchecked)]
fn multiply<N: Size>(x: &[Vector<f32, N>], out: &mut [Vector<f32, N>], by: f32, vectors: u32) {
    let i = ABSOLUTE_POS;
    if i < vectors as usize {
        out[i] = x[i] * Vector::new(by);
    }
}

#[cube(launch_unchecked)]
fn add<N: Size>(x: &[Vector<f32, N>], out: &mut [Vector<f32, N>], what: f32, vectors: u32) {
    let i = ABSOLUTE_POS;
    if i < vectors as usize {
        out[i] = x[i] + Vector::new(what);
    }
}

#[cube(launch_unchecked)]
fn rectify<N: Size>(x: &[Vector<f32, N>], out: &mut [Vector<f32, N>], vectors: u32) {
    let i = ABSOLUTE_POS;
    if i < vectors as usize {
        out[i] = max(x[i], Vector::new(0.0f32));
    }
}

/// The mean of three by three elements of a square, one unit to a row.
#[cube(launch_unchecked)]
fn mean(x: &[f32], out: &mut [f32], side: u32) {
    let y = ABSOLUTE_POS as u32;
    if y < side {
        let above = (max(y, 1u32) - 1u32) * side;
        let below = min(y + 1u32, side - 1u32) * side;
        for column in 0..side {
            let left = max(column, 1u32) - 1u32;
            let right = min(column + 1u32, side - 1u32);
            let mut sum = x[(above + left) as usize] + x[(above + column) as usize] + x[(above + right) as usize];
            let own = y * side;
            sum += x[(own + left) as usize] + x[(own + column) as usize] + x[(own + right) as usize];
            sum += x[(below + left) as usize] + x[(below + column) as usize] + x[(below + right) as usize];
            out[(own + column) as usize] = sum / 9.0;
        }
    }
}

/// The softmax of rows, one unit to a row.
#[cube(launch_unchecked)]
#[allow(clippy::needless_range_loop, reason = "kernels have no iterators")]
fn softmax(x: &[f32], out: &mut [f32], side: u32) {
    let y = ABSOLUTE_POS as u32;
    if y < side {
        let row = (y * side) as usize;
        let end = row + side as usize;
        let mut largest = x[row];
        for i in row..end {
            largest = max(largest, x[i]);
        }
        let mut sum = 0.0f32;
        for i in row..end {
            sum += (x[i] - largest).exp();
        }
        for i in row..end {
            out[i] = (x[i] - largest).exp() / sum;
        }
    }
}

/// Elements of a vector, units of a cube, vectors of a unit: what someone would try out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning(usize, u32, u32);

/// The device of a back end that everybody shares who uses the engine.
fn shared_device(backend: Backend) -> anyhow::Result<cubecl::Device> {
    let device: Result<cubecl::Device, cubecl::device::DeviceUnavailable> = match backend {
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => cubecl::Device::vulkan(cubecl::device::WgpuDeviceKind::DefaultDevice),
        #[cfg(feature = "gl")]
        Backend::Gl => cubecl::Device::gl(cubecl::device::WgpuDeviceKind::DefaultDevice),
        #[cfg(feature = "metal")]
        Backend::Metal => {
            use cubecl::device::{WgpuBackend, WgpuDevice, WgpuDeviceKind};
            Ok(cubecl::Device::Wgpu(WgpuDevice::new(WgpuDeviceKind::DefaultDevice).on(WgpuBackend::Metal)))
        }
        #[cfg(feature = "cuda")]
        Backend::Cuda => cubecl::Device::cuda(0),
        #[cfg(feature = "rocm")]
        Backend::Rocm => cubecl::Device::rocm(0),
        #[cfg(feature = "cpu")]
        Backend::Cpu => cubecl::Device::cpu(),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        other => anyhow::bail!("this build has no {other} back end"),
    };
    device.map_err(|error| anyhow!("{error}"))
}

/// Runs a call into the engine, which may panic.
fn caught<T>(call: impl FnOnce() -> T) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| anyhow!("the engine panicked"))
}

/// The same, of one that gives an answer.
fn guarded<T>(call: impl FnOnce() -> Result<T, ServerError>) -> anyhow::Result<T> {
    caught(call)?.map_err(|error| anyhow!("{error}"))
}

/// Two buffers and an engine.
pub(super) struct Bare {
    client: Client,
    cpu: bool,
    buffers: [Handle; 2],
    len: usize,
}

impl Bare {
    /// On the device of that back end, with `len` floats in each buffer.
    pub(super) fn open(backend: Backend, len: usize) -> anyhow::Result<Bare> {
        // The engine's own device, not ours.
        let client = caught(|| shared_device(backend))??.client();
        let bytes: Vec<u8> = (0..len).flat_map(|_| 0.5f32.to_ne_bytes()).collect();
        let buffer = || client.create_from_slice(&bytes);
        let buffers = caught(|| [buffer(), buffer()])?;
        Ok(Bare { client, cpu: backend == Backend::Cpu, buffers, len })
    }

    fn check(&self) -> anyhow::Result<()> {
        guarded(|| block_on(self.client.sync_buffers([&self.buffers[0], &self.buffers[1]])))
    }

    /// A copy of one buffer to the other, and a check.
    pub(super) fn copy(&self, Tuning(width, units, steps): Tuning) -> anyhow::Result<()> {
        let vectors = self.len.div_ceil(width);
        let cubes = vectors.div_ceil((units * steps) as usize) as u32;
        // SAFETY: both buffers hold `vectors` vectors.
        let [from, to] = self.buffers.clone().map(|handle| unsafe { BufferArg::from_raw_parts(handle, vectors) });
        let (count, dim) = (CubeCount::Static(cubes, 1, 1), CubeDim::new_1d(units));
        // SAFETY: as above.
        caught(|| unsafe {
            copy::launch_unchecked(&self.client, count, dim, width, from, to, vectors as u32, steps, !self.cpu);
        })?;
        self.check()
    }

    /// The quickest way to copy, by trying.
    pub(super) fn best_tuning(&self) -> anyhow::Result<Tuning> {
        const CPU: &[Tuning] = &[Tuning(64, 2, 64), Tuning(64, 2, 512), Tuning(64, 2, 4096), Tuning(16, 2, 4096)];
        const GPU: &[Tuning] = &[Tuning(4, 64, 16), Tuning(4, 128, 16), Tuning(4, 256, 8), Tuning(4, 256, 32)];
        let candidates = if self.cpu { CPU } else { GPU };
        let mut best = (f64::INFINITY, candidates[0]);
        for tuning in candidates {
            self.copy(*tuning)?;
            for _ in 0..7 {
                let start = std::time::Instant::now();
                self.copy(*tuning)?;
                let time = start.elapsed().as_secs_f64();
                if time < best.0 {
                    best = (time, *tuning);
                }
            }
        }
        Ok(best.1)
    }

    /// `count` launches over 1,024 floats in one pass on the device's own thread, and one check: three simple kernels, then a
    /// mean of neighbours or a softmax of rows, and again.
    pub(super) fn hundred(&self, count: usize) -> anyhow::Result<()> {
        let pass = || (0..count).for_each(|index| self.one(index));
        guarded(|| self.client.exclusive(pass))?;
        self.check()
    }

    fn one(&self, index: usize) {
        const SIDE: u32 = 32;
        let (width, units) = if self.cpu { (16, 1) } else { (4, 256) };
        let vectors = 1024 / width;
        let elements = 1024;
        let (from, to) = (self.buffers[index % 2].clone(), self.buffers[(index + 1) % 2].clone());
        let cubes = CubeCount::Static((vectors as u32).div_ceil(units), 1, 1);
        let (rows, row_units) = if self.cpu { (SIDE, 1) } else { (1, SIDE) };
        let rows = CubeCount::Static(rows, 1, 1);
        let (dim, row_dim) = (CubeDim::new_1d(units), CubeDim::new_1d(row_units));
        let (client, count) = (&self.client, vectors as u32);
        // SAFETY: both buffers hold 1,024 elements, which is all that the kernels touch.
        unsafe {
            let vector = |handle| BufferArg::from_raw_parts(handle, vectors);
            let single = |handle| BufferArg::from_raw_parts(handle, elements);
            match (index % 4, index / 4 % 2) {
                (0, _) => multiply::launch_unchecked(client, cubes, dim, width, vector(from), vector(to), 1.01, count),
                (1, _) => add::launch_unchecked(client, cubes, dim, width, vector(from), vector(to), 0.01, count),
                (2, _) => rectify::launch_unchecked(client, cubes, dim, width, vector(from), vector(to), count),
                (_, 0) => mean::launch_unchecked(client, rows, row_dim, single(from), single(to), SIDE),
                _ => softmax::launch_unchecked(client, rows, row_dim, single(from), single(to), SIDE),
            }
        }
    }
}
