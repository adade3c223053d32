//! A window that is given pixels by the host.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::fitted;
use super::window::Window;
use crate::SurfaceError;
use crate::picture::Snapshot;

pub(crate) struct Software {
    surface: softbuffer::Surface<Arc<winit::window::Window>, Arc<winit::window::Window>>,
}

fn failed(error: softbuffer::SoftBufferError) -> SurfaceError {
    SurfaceError::Graphics { message: error.to_string() }
}

impl Software {
    pub(crate) fn new(window: &Window) -> Result<Software, SurfaceError> {
        let context = softbuffer::Context::new(window.handle()).map_err(failed)?;
        Ok(Software { surface: softbuffer::Surface::new(&context, window.handle()).map_err(failed)? })
    }

    pub(crate) fn show(&mut self, picture: &Snapshot, window: &Window) -> Result<(), SurfaceError> {
        let (across, down) = window.size();
        let (Some(columns), Some(rows)) = (NonZeroU32::new(across), NonZeroU32::new(down)) else {
            // Minimised: there is nothing to draw on.
            return Ok(());
        };
        self.surface.resize(columns, rows).map_err(failed)?;
        let mut pixels = self.surface.buffer_mut().map_err(failed)?;
        let (left, top, width, height) = fitted((picture.width, picture.height), (across, down));
        pixels.fill(0);
        for y in 0..height {
            let from = (u64::from(y) * u64::from(picture.height) / u64::from(height)) as usize;
            let row = &picture.rgba[from * picture.width as usize * 4..][..picture.width as usize * 4];
            let start = (top + y) as usize * across as usize + left as usize;
            for (x, pixel) in pixels[start..start + width as usize].iter_mut().enumerate() {
                // The nearest one.
                let at = x * picture.width as usize / width as usize * 4;
                *pixel = u32::from_be_bytes([0, row[at], row[at + 1], row[at + 2]]);
            }
        }
        pixels.present().map_err(failed)?;
        // On X11 that only puts a request into a buffer; a question whose answer is waited for sends it.
        window.handle().inner_size();
        Ok(())
    }
}
