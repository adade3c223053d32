//! Fast copies between host memory and wgpu buffers, through one buffer in each direction that is kept.
//!
//! The engine's own writes make a fresh staging buffer each time and spend most of their time on its page faults.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use cubecl::wgpu::wgpu;
use wgpu::{BufferUsages, MapMode, PollType};

use super::error::EngineError;
use super::interop::Place;

/// The largest staging buffer; more data goes in pieces. Small pieces cost more than they save: software drivers copy in
/// the caller's thread, and every piece is waited for.
const LARGEST: usize = 64 * 1024 * 1024;
/// How long the device may take for one piece.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Staging buffers of one device, made when they are first needed.
pub(super) struct Staging {
    device: wgpu::Device,
    queue: wgpu::Queue,
    up: Option<StagingBuffer>,
    down: Option<StagingBuffer>,
}

impl Staging {
    pub(super) fn new(device: wgpu::Device, queue: wgpu::Queue) -> Staging {
        Staging { device, queue, up: None, down: None }
    }

    /// Copies `data` to `place`, and waits until it is there. The buffer must hold the data rounded up to four bytes.
    pub(super) fn upload(&mut self, place: &Place, data: &[u8]) -> Result<(), EngineError> {
        let staging = StagingBuffer::at_least(&mut self.up, &self.device, MapMode::Write, data.len());
        for (index, part) in data.chunks(LARGEST).enumerate() {
            staging.wait_until_mapped(&self.device)?;
            staging.fill(part)?;
            staging.unmap();
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let (at, bytes) = (place.offset + (index * LARGEST) as u64, part.len().next_multiple_of(4) as u64);
            encoder.copy_buffer_to_buffer(&staging.buffer, 0, place.buffer, at, bytes);
            self.queue.submit([encoder.finish()]);
            // Asked for now, so that the next upload finds it mapped.
            staging.request();
        }
        poll(&self.device)
    }

    /// Copies from `place` to `into`.
    pub(super) fn download(&mut self, place: &Place, into: &mut [u8]) -> Result<(), EngineError> {
        let staging = StagingBuffer::at_least(&mut self.down, &self.device, MapMode::Read, into.len());
        for (index, part) in into.chunks_mut(LARGEST).enumerate() {
            staging.unmap();
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let (at, bytes) = (place.offset + (index * LARGEST) as u64, part.len().next_multiple_of(4) as u64);
            encoder.copy_buffer_to_buffer(place.buffer, at, &staging.buffer, 0, bytes);
            self.queue.submit([encoder.finish()]);
            staging.wait_until_mapped(&self.device)?;
            staging.drain(part)?;
        }
        Ok(())
    }

    /// Frees the staging buffers.
    pub(super) fn trim(&mut self) {
        self.up = None;
        self.down = None;
    }
}

/// Waits until the device has done everything.
fn poll(device: &wgpu::Device) -> Result<(), EngineError> {
    match device.poll(PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) }) {
        Ok(_) => Ok(()),
        Err(wgpu::PollError::Timeout) => Err(EngineError::Timeout { seconds: TIMEOUT.as_secs() }),
        Err(error) => Err(EngineError::internal(format!("waiting for the device failed: {error}"))),
    }
}

/// A staging buffer and whether the host sees it.
struct StagingBuffer {
    buffer: wgpu::Buffer,
    mode: MapMode,
    mapping: Mapping,
}

enum Mapping {
    Unmapped,
    Requested(Receiver<Result<(), wgpu::BufferAsyncError>>),
    Mapped,
}

impl StagingBuffer {
    /// The piece in `slot`, made anew if there is none or it is too small.
    fn at_least<'a>(
        slot: &'a mut Option<StagingBuffer>,
        device: &wgpu::Device,
        mode: MapMode,
        bytes: usize,
    ) -> &'a mut StagingBuffer {
        let size = bytes.next_power_of_two().min(LARGEST) as u64;
        if slot.as_ref().is_some_and(|piece| piece.buffer.size() < size) {
            *slot = None;
        }
        slot.get_or_insert_with(|| {
            let usage = match mode {
                MapMode::Write => BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
                MapMode::Read => BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            };
            let label = Some("dala staging");
            let buffer =
                device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false });
            StagingBuffer { buffer, mode, mapping: Mapping::Unmapped }
        })
    }

    fn request(&mut self) {
        let (answer, answered) = channel();
        // The receiver may be gone by then; nobody is interested in that case.
        self.buffer.slice(..).map_async(self.mode, move |result| drop(answer.send(result)));
        self.mapping = Mapping::Requested(answered);
    }

    fn unmap(&mut self) {
        if !matches!(self.mapping, Mapping::Unmapped) {
            self.buffer.unmap();
            self.mapping = Mapping::Unmapped;
        }
    }

    fn wait_until_mapped(&mut self, device: &wgpu::Device) -> Result<(), EngineError> {
        if matches!(self.mapping, Mapping::Unmapped) {
            self.request();
        }
        if let Mapping::Requested(answer) = &self.mapping {
            let failed = |error: String| EngineError::internal(format!("mapping staging memory failed: {error}"));
            let result = match answer.try_recv() {
                Ok(result) => result,
                Err(_) => {
                    poll(device)?;
                    answer.recv_timeout(TIMEOUT).map_err(|error| failed(error.to_string()))?
                }
            };
            result.map_err(|error| failed(error.to_string()))?;
            self.mapping = Mapping::Mapped;
        }
        Ok(())
    }

    /// Copies `data` into the mapped buffer.
    fn fill(&self, data: &[u8]) -> Result<(), EngineError> {
        let part = part_size(data.len());
        let map = |(index, data): (usize, &[u8])| {
            let start = (index * part) as u64;
            let end = start + data.len().next_multiple_of(4) as u64;
            self.buffer.slice(start..end).get_mapped_range_mut().map_err(not_mapped)
        };
        let mut views = data.chunks(part).enumerate().map(map).collect::<Result<Vec<_>, _>>()?;
        in_parallel(views.iter_mut().zip(data.chunks(part)), |(view, data)| {
            view.slice(..data.len()).copy_from_slice(data);
        });
        Ok(())
    }

    /// Copies the mapped buffer into `into`.
    fn drain(&self, into: &mut [u8]) -> Result<(), EngineError> {
        let view = self.buffer.slice(..).get_mapped_range().map_err(not_mapped)?;
        let part = part_size(into.len());
        in_parallel(into.chunks_mut(part).zip(view.chunks(part)), |(into, data)| {
            into.copy_from_slice(&data[..into.len()]);
        });
        Ok(())
    }
}

/// Bytes that one thread copies: a single core moves less than the memory gives. At least 1 MiB, and aligned for mapping.
fn part_size(bytes: usize) -> usize {
    const WORTH_A_THREAD: usize = 1024 * 1024;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(4).min(bytes / WORTH_A_THREAD).max(1);
    bytes.div_ceil(threads).next_multiple_of(64)
}

/// Does the work for every part, each in a thread of its own, the first in this one.
fn in_parallel<T: Send>(mut parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let own = parts.next();
        for part in parts {
            let work = &work;
            scope.spawn(move || work(part));
        }
        own.map(&work);
    });
}

fn not_mapped(error: wgpu::MapRangeError) -> EngineError {
    EngineError::internal(format!("staging memory is not mapped: {error}"))
}
