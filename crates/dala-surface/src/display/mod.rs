//! Where a canvas is shown: nowhere, or in a window, from the device itself or through the host.

mod software;
#[cfg(feature = "graphics")]
mod swapchain;
mod window;

use crate::SurfaceError;
use crate::canvas::Canvas;

pub(crate) use window::Window;

/// A window, and how pictures get there.
pub(crate) struct Display {
    pub(crate) window: Window,
    way: Way,
}

enum Way {
    /// Drawn by the device that computed them.
    #[cfg(feature = "graphics")]
    Device(Box<swapchain::Swapchain>),
    /// Copied through the host, because this device draws in no window.
    Host(software::Software),
}

impl Display {
    pub(crate) fn open(canvas: &Canvas, width: u32, height: u32, title: &str) -> Result<Display, SurfaceError> {
        let window = Window::open(width, height, title)?;
        #[cfg(feature = "graphics")]
        if let Canvas::Graphics(canvas) = canvas
            && let Some(swapchain) = swapchain::Swapchain::new(&canvas.graphics, &window)?
        {
            return Ok(Display { window, way: Way::Device(Box::new(swapchain)) });
        }
        let _ = canvas;
        let way = Way::Host(software::Software::new(&window)?);
        Ok(Display { window, way })
    }

    /// Whether pictures stay on the device.
    pub(crate) fn on_device(&self) -> bool {
        match self.way {
            #[cfg(feature = "graphics")]
            Way::Device(_) => true,
            Way::Host(_) => false,
        }
    }

    /// Shows the canvas, in the middle of the window and as large as fits.
    pub(crate) fn show(&mut self, canvas: &mut Canvas) -> Result<(), SurfaceError> {
        if self.window.is_closed() {
            return Err(SurfaceError::Closed);
        }
        match (&mut self.way, canvas) {
            #[cfg(feature = "graphics")]
            (Way::Device(swapchain), Canvas::Graphics(canvas)) => swapchain.show(canvas, &self.window),
            #[cfg(feature = "graphics")]
            (Way::Device(_), Canvas::Host(_)) => {
                Err(SurfaceError::Graphics { message: "a window of another device".to_owned() })
            }
            (Way::Host(software), canvas) => software.show(&canvas.shown()?, &self.window),
        }
    }
}

/// The largest part of a window with the proportions of a picture: left, top, width and height.
pub(crate) fn fitted(picture: (u32, u32), window: (u32, u32)) -> (u32, u32, u32, u32) {
    let (width, height) = (u64::from(picture.0), u64::from(picture.1));
    let (across, down) = (u64::from(window.0), u64::from(window.1));
    let (fitted_width, fitted_height) = if width * down <= across * height {
        ((width * down / height).max(1), down)
    } else {
        (across, (height * across / width).max(1))
    };
    let (left, top) = ((across - fitted_width) / 2, (down - fitted_height) / 2);
    (left as u32, top as u32, fitted_width as u32, fitted_height as u32)
}

#[cfg(test)]
mod tests {
    use super::fitted;

    #[test]
    fn pictures_keep_their_proportions() {
        assert_eq!(fitted((640, 480), (640, 480)), (0, 0, 640, 480));
        assert_eq!(fitted((640, 480), (1280, 480)), (320, 0, 640, 480));
        assert_eq!(fitted((640, 480), (320, 480)), (0, 120, 320, 240));
        assert_eq!(fitted((1, 10_000), (100, 100)), (49, 0, 1, 100));
    }
}
