//! Pictures in the host's memory, for devices that draw nothing: there the upload is the presenting.

use dala_compute::Buffer;

use crate::canvas::check_sides;
use crate::picture::{Layout, Snapshot};
use crate::{Surface, SurfaceError};

pub(crate) struct HostCanvas {
    shown: Snapshot,
    next: Option<Vec<u8>>,
}

impl HostCanvas {
    pub(crate) fn new(width: u32, height: u32) -> Result<HostCanvas, SurfaceError> {
        check_sides(width, height, Surface::MAX_HOST_SIDE)?;
        Ok(HostCanvas { shown: Snapshot::black(width, height), next: None })
    }

    pub(crate) fn set_buffer(&mut self, buffer: &Buffer, layout: Layout) -> Result<(), SurfaceError> {
        self.next = Some(layout.rgba(buffer.read_bytes()?));
        Ok(())
    }

    pub(crate) fn set_pixels(&mut self, rgba: &[u8]) {
        self.next = Some(rgba.to_vec());
    }

    pub(crate) fn advance(&mut self) {
        if let Some(next) = self.next.take() {
            self.shown.rgba = next;
        }
    }

    pub(crate) fn shown(&self) -> &Snapshot {
        &self.shown
    }
}
