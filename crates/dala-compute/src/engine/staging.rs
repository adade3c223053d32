//! Fast copies between host memory and wgpu buffers, through a few buffers that stay mapped.
//!
//! The engine's own writes make a fresh staging buffer each time and spend most of their time on its page faults.
//! Here the host copies one piece while the device moves the one before.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use cubecl::wgpu::wgpu;
use wgpu::{BufferUsages, MapMode, PollType};

use super::EngineError;

/// Bytes per piece.
const PIECE: usize = 4 * 1024 * 1024;
/// Pieces in flight.
const PIECES: usize = 4;
/// How long the device may take for one piece.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Staging buffers of one device, made when they are first needed.
pub(super) struct Staging {
    device: wgpu::Device,
    queue: wgpu::Queue,
    up: Option<Ring>,
    down: Option<Ring>,
}

struct Ring {
    mode: MapMode,
    pieces: Vec<Piece>,
}

struct Piece {
    buffer: wgpu::Buffer,
    mapping: Mapping,
}

enum Mapping {
    Unmapped,
    /// Asked for; done once the device is done with that submission.
    Requested(Receiver<Result<(), wgpu::BufferAsyncError>>, Option<wgpu::SubmissionIndex>),
    Mapped,
}

/// A place in a device buffer.
pub(super) struct Place<'a> {
    pub(super) buffer: &'a wgpu::Buffer,
    pub(super) offset: u64,
}

impl Staging {
    pub(super) fn new(device: wgpu::Device, queue: wgpu::Queue) -> Staging {
        Staging { device, queue, up: None, down: None }
    }

    /// Copies `data` to `place`, and waits until it is there. The buffer must hold the data rounded up to four bytes.
    pub(super) fn upload(&mut self, place: &Place, data: &[u8]) -> Result<(), EngineError> {
        let ring = self.up.get_or_insert_with(|| Ring::new(&self.device, MapMode::Write));
        for (index, piece) in data.chunks(PIECE).enumerate() {
            let staging = &mut ring.pieces[index % PIECES];
            staging.wait_until_mapped(&self.device, ring.mode)?;
            let padded = piece.len().next_multiple_of(4) as u64;
            let mut view = staging
                .buffer
                .slice(..padded)
                .get_mapped_range_mut()
                .map_err(|error| EngineError::internal(format!("staging memory is not mapped: {error}")))?;
            view.slice(..piece.len()).copy_from_slice(piece);
            drop(view);
            staging.unmap();
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let at = place.offset + (index * PIECE) as u64;
            encoder.copy_buffer_to_buffer(&staging.buffer, 0, place.buffer, at, padded);
            let submission = self.queue.submit([encoder.finish()]);
            // Mapped again as soon as the device is done with it.
            staging.request(ring.mode, Some(submission));
        }
        poll(&self.device, None)
    }

    /// Copies from `place` to `into`.
    pub(super) fn download(&mut self, place: &Place, into: &mut [u8]) -> Result<(), EngineError> {
        let ring = self.down.get_or_insert_with(|| Ring::new(&self.device, MapMode::Read));
        let count = into.len().div_ceil(PIECE);
        let len = |index: usize| (into.len() - index * PIECE).min(PIECE);
        let lens: Vec<usize> = (0..count).map(len).collect();
        let start = |ring: &mut Ring, index: usize| {
            let staging = &mut ring.pieces[index % PIECES];
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let at = place.offset + (index * PIECE) as u64;
            let padded = lens[index].next_multiple_of(4) as u64;
            encoder.copy_buffer_to_buffer(place.buffer, at, &staging.buffer, 0, padded);
            let submission = self.queue.submit([encoder.finish()]);
            staging.request(ring.mode, Some(submission));
        };
        (0..count.min(PIECES)).for_each(|index| start(ring, index));
        for (index, piece) in into.chunks_mut(PIECE).enumerate() {
            let staging = &mut ring.pieces[index % PIECES];
            staging.wait_until_mapped(&self.device, ring.mode)?;
            let view = staging
                .buffer
                .slice(..)
                .get_mapped_range()
                .map_err(|error| EngineError::internal(format!("staging memory is not mapped: {error}")))?;
            piece.copy_from_slice(&view[..piece.len()]);
            drop(view);
            staging.unmap();
            if index + PIECES < count {
                start(ring, index + PIECES);
            }
        }
        Ok(())
    }

    /// Frees the staging buffers.
    pub(super) fn trim(&mut self) {
        self.up = None;
        self.down = None;
    }
}

/// Waits until the device is done with everything, or with what was submitted up to `submission`.
fn poll(device: &wgpu::Device, submission: Option<wgpu::SubmissionIndex>) -> Result<(), EngineError> {
    match device.poll(PollType::Wait { submission_index: submission, timeout: Some(TIMEOUT) }) {
        Ok(_) => Ok(()),
        Err(wgpu::PollError::Timeout) => Err(EngineError::Timeout { seconds: TIMEOUT.as_secs() }),
        Err(error) => Err(EngineError::internal(format!("waiting for the device failed: {error}"))),
    }
}

impl Ring {
    fn new(device: &wgpu::Device, mode: MapMode) -> Ring {
        let usage = match mode {
            MapMode::Write => BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
            MapMode::Read => BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        };
        let piece = |_| Piece {
            buffer: device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("dala staging"),
                size: PIECE as u64,
                usage,
                mapped_at_creation: matches!(mode, MapMode::Write),
            }),
            mapping: if matches!(mode, MapMode::Write) { Mapping::Mapped } else { Mapping::Unmapped },
        };
        Ring { mode, pieces: (0..PIECES).map(piece).collect() }
    }
}

impl Piece {
    fn request(&mut self, mode: MapMode, after: Option<wgpu::SubmissionIndex>) {
        let (answer, answered) = channel();
        // The receiver may be gone by then; nobody is interested in that case.
        self.buffer.slice(..).map_async(mode, move |result| drop(answer.send(result)));
        self.mapping = Mapping::Requested(answered, after);
    }

    fn unmap(&mut self) {
        self.buffer.unmap();
        self.mapping = Mapping::Unmapped;
    }

    fn wait_until_mapped(&mut self, device: &wgpu::Device, mode: MapMode) -> Result<(), EngineError> {
        if matches!(self.mapping, Mapping::Unmapped) {
            self.request(mode, None);
        }
        if let Mapping::Requested(answer, after) = &self.mapping {
            let failed = |error: String| EngineError::internal(format!("mapping staging memory failed: {error}"));
            let result = match answer.try_recv() {
                Ok(result) => result,
                Err(_) => {
                    poll(device, after.clone())?;
                    answer.recv_timeout(TIMEOUT).map_err(|error| failed(error.to_string()))?
                }
            };
            result.map_err(|error| failed(error.to_string()))?;
            self.mapping = Mapping::Mapped;
        }
        Ok(())
    }
}
