//! Shows what [`dala_compute`] has computed: in a window, or off-screen for pictures and tests.
//!
//! On Vulkan, OpenGL and Metal a surface is a texture of the very device that kernels run on. A buffer is drawn into it
//! there; nothing is read back until somebody asks for a [`snapshot`](Surface::snapshot), and
//! [`Stats::downloaded_bytes`](dala_compute::Stats) counts what is. On other devices the pixels are with the host, and handing
//! them over is all there is to presenting.
//!
//! ```
//! use dala_compute::{Buffer, DType, Device};
//! use dala_surface::Surface;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open("auto")?;
//! let picture = Buffer::zeros(&device, DType::U8, [48, 64, 4])?;
//! device.run("generate_gradient", &[], &picture, ())?;
//!
//! let surface = Surface::offscreen(&device, 64, 48)?;
//! surface.set_buffer(&picture)?;
//! surface.present()?;
//! assert_eq!(surface.snapshot()?.rgba, picture.read::<u8>()?);
//! # Ok(())
//! # }
//! ```

mod canvas;
#[cfg(feature = "window")]
mod display;
mod error;
#[cfg(feature = "graphics")]
mod gpu;
mod picture;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canvas::Canvas;
use dala_compute::{Buffer, Device};
use picture::Layout;

pub use error::SurfaceError;
pub use picture::Snapshot;

/// A place where pixels are shown: a window, or an off-screen picture. Clones are the same surface.
///
/// Pixels are set, and then presented: until then the ones before them are shown. A surface begins black.
#[derive(Clone)]
pub struct Surface(Arc<Inner>);

struct Inner {
    device: Device,
    state: Mutex<State>,
}

struct State {
    canvas: Canvas,
    #[cfg(feature = "window")]
    display: Option<display::Display>,
    width: u32,
    height: u32,
    presented: u64,
}

impl Surface {
    /// The longest side of a surface whose pixels are with the host.
    pub const MAX_HOST_SIDE: u32 = 16384;

    /// A surface that nobody sees: for pictures and tests, and where there is no display.
    ///
    /// # Errors
    ///
    /// A side is 0 or larger than the device allows, or the device fails.
    pub fn offscreen(device: &Device, width: u32, height: u32) -> Result<Surface, SurfaceError> {
        Ok(Surface(Arc::new(Inner {
            device: device.clone(),
            state: Mutex::new(State {
                canvas: Canvas::new(device, width, height)?,
                #[cfg(feature = "window")]
                display: None,
                width,
                height,
                presented: 0,
            }),
        })))
    }

    /// A surface in a window of its own. The window may have another size than asked for, and people may resize it: the
    /// picture is shown in its middle, as large as fits.
    ///
    /// Windows have a thread of their own, so this can be called from any; systems that allow windows on the main thread
    /// only, as macOS does, give an error.
    ///
    /// # Errors
    ///
    /// As [`offscreen`](Surface::offscreen); or there is no display, or no window can be opened.
    #[cfg(feature = "window")]
    pub fn window(device: &Device, width: u32, height: u32, title: &str) -> Result<Surface, SurfaceError> {
        let surface = Surface::offscreen(device, width, height)?;
        {
            let mut state = surface.state();
            let display = display::Display::open(&state.canvas, width, height, title)?;
            // Weak, or window and surface would keep each other.
            let inner = Arc::downgrade(&surface.0);
            display.window.on_redraw(move || {
                if let Some(inner) = inner.upgrade() {
                    // Who presents next is told of a failure.
                    let _ = Surface(inner).state().show();
                }
            });
            state.display = Some(display);
            state.show()?;
        }
        Ok(surface)
    }

    /// The device whose buffers it shows.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Width and height.
    pub fn size(&self) -> (u32, u32) {
        let state = self.state();
        (state.width, state.height)
    }

    /// How often it was presented.
    pub fn presented(&self) -> u64 {
        self.state().presented
    }

    /// Whether pictures get to the screen without leaving the device. Off-screen, whether they stay there.
    pub fn on_device(&self) -> bool {
        let state = self.state();
        #[cfg(feature = "window")]
        if let Some(display) = &state.display {
            return display.on_device();
        }
        match state.canvas {
            #[cfg(feature = "graphics")]
            Canvas::Graphics(_) => true,
            Canvas::Host(_) => false,
        }
    }

    /// Whether its window was closed. An off-screen surface never is.
    pub fn is_closed(&self) -> bool {
        #[cfg(feature = "window")]
        if let Some(display) = &self.state().display {
            return display.window.is_closed();
        }
        false
    }

    /// The next picture is this one: four bytes for each pixel, red, green, blue, alpha.
    ///
    /// # Errors
    ///
    /// There are more or fewer pixels than the surface has, or the device fails.
    pub fn set_pixels(&self, rgba: &[u8]) -> Result<(), SurfaceError> {
        let mut state = self.state();
        let (width, height) = (state.width, state.height);
        let expected = width as usize * height as usize * 4;
        if rgba.len() != expected {
            return Err(SurfaceError::PixelBytes { expected, actual: rgba.len(), width, height });
        }
        state.canvas.set_pixels(rgba)
    }

    /// The next picture is what `buffer` holds when everything submitted before is done: u8 or f32 (0 to 1), with 4, 3 or 1
    /// channels or none. Nothing is read back from a graphics device.
    ///
    /// # Errors
    ///
    /// The buffer is no picture, one of another size, of another device, freed or never written; or the device fails.
    pub fn set_buffer(&self, buffer: &Buffer) -> Result<(), SurfaceError> {
        let layout = Layout::of(buffer)?;
        buffer.check_on(&self.0.device)?;
        let mut state = self.state();
        if (layout.width, layout.height) != (state.width, state.height) {
            return Err(SurfaceError::PictureSize {
                found_width: layout.width,
                found_height: layout.height,
                width: state.width,
                height: state.height,
            });
        }
        state.canvas.set_buffer(buffer, layout)
    }

    /// Shows the picture that was set last.
    ///
    /// # Errors
    ///
    /// The window was closed, or the device fails.
    pub fn present(&self) -> Result<(), SurfaceError> {
        let mut state = self.state();
        state.canvas.advance();
        state.show()?;
        state.presented += 1;
        Ok(())
    }

    /// Changes the size of the picture, which becomes black, and asks for a window of that size.
    ///
    /// # Errors
    ///
    /// A side is 0 or larger than the device allows, or the device fails: then nothing has changed.
    pub fn resize(&self, width: u32, height: u32) -> Result<(), SurfaceError> {
        let mut state = self.state();
        state.canvas.resize(width, height)?;
        (state.width, state.height) = (width, height);
        #[cfg(feature = "window")]
        if let Some(display) = &state.display {
            display.window.resize(width, height);
        }
        Ok(())
    }

    /// The picture that is shown. This is what leaves the device, and it is counted.
    ///
    /// # Errors
    ///
    /// The device fails.
    pub fn snapshot(&self) -> Result<Snapshot, SurfaceError> {
        self.state().canvas.shown()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done by a panic under this lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn show(&mut self) -> Result<(), SurfaceError> {
        #[cfg(feature = "window")]
        if let Some(display) = &mut self.display {
            return display.show(&mut self.canvas);
        }
        Ok(())
    }
}

impl fmt::Debug for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = self.size();
        write!(f, "Surface {width} x {height} on {:?}", self.0.device)
    }
}

/// The examples of the guide are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/SURFACES.md")]
struct Guide;
