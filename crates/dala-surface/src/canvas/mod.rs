//! Where pixels are before and while they are shown: on the graphics device, or with the host.

#[cfg(feature = "graphics")]
pub(crate) mod graphics;
pub(crate) mod host;

use dala_compute::{Buffer, Device};

use crate::SurfaceError;
use crate::picture::{Layout, Snapshot};

/// Two pictures: the one that is shown, and the next one.
pub(crate) enum Canvas {
    #[cfg(feature = "graphics")]
    Graphics(Box<graphics::GraphicsCanvas>),
    Host(host::HostCanvas),
}

impl Canvas {
    /// Both pictures are black.
    pub(crate) fn new(device: &Device, width: u32, height: u32) -> Result<Canvas, SurfaceError> {
        #[cfg(feature = "graphics")]
        if let Some(shared) = device.graphics() {
            return Ok(Canvas::Graphics(Box::new(graphics::GraphicsCanvas::new(device, shared, width, height)?)));
        }
        let _ = device;
        Ok(Canvas::Host(host::HostCanvas::new(width, height)?))
    }

    /// Black again, in another size.
    pub(crate) fn resize(&mut self, width: u32, height: u32) -> Result<(), SurfaceError> {
        match self {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(canvas) => canvas.resize(width, height),
            Canvas::Host(canvas) => {
                *canvas = host::HostCanvas::new(width, height)?;
                Ok(())
            }
        }
    }

    /// The next picture is what the buffer holds now.
    pub(crate) fn set_buffer(&mut self, buffer: &Buffer, layout: Layout) -> Result<(), SurfaceError> {
        match self {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(canvas) => canvas.set_buffer(buffer, layout),
            Canvas::Host(canvas) => canvas.set_buffer(buffer, layout),
        }
    }

    /// The next picture is this.
    pub(crate) fn set_pixels(&mut self, rgba: &[u8]) -> Result<(), SurfaceError> {
        match self {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(canvas) => canvas.set_pixels(rgba),
            Canvas::Host(canvas) => {
                canvas.set_pixels(rgba);
                Ok(())
            }
        }
    }

    /// The next picture, if there is one, becomes the one that is shown.
    pub(crate) fn advance(&mut self) {
        match self {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(canvas) => canvas.advance(),
            Canvas::Host(canvas) => canvas.advance(),
        }
    }

    /// The picture that is shown.
    pub(crate) fn shown(&mut self) -> Result<Snapshot, SurfaceError> {
        match self {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(canvas) => canvas.shown(),
            Canvas::Host(canvas) => Ok(canvas.shown().clone()),
        }
    }
}

pub(crate) fn check_sides(width: u32, height: u32, max: u32) -> Result<(), SurfaceError> {
    let fits = |side: u32| (1..=max).contains(&side);
    if fits(width) && fits(height) { Ok(()) } else { Err(SurfaceError::InvalidSize { width, height, max }) }
}
