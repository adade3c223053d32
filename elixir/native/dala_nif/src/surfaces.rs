//! Surfaces, each behind a process of its own.

use dala_compute::Device;
use dala_surface::{Surface, SurfaceError};
use rustler::{Encoder, Env, Term};

use crate::owners::later;
use crate::terms::{self, Detail, atoms};

/// A surface.
pub(crate) struct SurfaceResource(pub(crate) Surface);

/// What it has on the device may be in use: waiting for that is not done on a scheduler.
impl Drop for SurfaceResource {
    fn drop(&mut self) {
        let surface = self.0.clone();
        later(move || drop(surface));
    }
}

/// A window if there is a title, otherwise a surface that nobody sees.
pub(crate) fn open(device: &Device, width: u32, height: u32, title: Option<&str>) -> Result<Surface, SurfaceError> {
    match title {
        None => Surface::offscreen(device, width, height),
        #[cfg(feature = "window")]
        Some(title) => Surface::window(device, width, height, title),
        #[cfg(not(feature = "window"))]
        Some(_) => Err(SurfaceError::NoWindow { reason: "the library was built without windows".to_owned() }),
    }
}

/// `:ok` or `{:error, error}`.
pub(crate) fn done<'a>(env: Env<'a>, result: Result<(), SurfaceError>) -> Term<'a> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(error) => failed(env, &error),
    }
}

/// `{:error, error}`.
pub(crate) fn failed<'a>(env: Env<'a>, error: &SurfaceError) -> Term<'a> {
    let details: Vec<Detail> = match error {
        SurfaceError::Compute(error) => return (atoms::error(), terms::error(env, error)).encode(env),
        SurfaceError::PixelBytes { expected, actual, .. } => {
            vec![(atoms::expected(), expected.encode(env)), (atoms::actual(), actual.encode(env))]
        }
        SurfaceError::PictureSize { found_width, found_height, width, height } => vec![
            (atoms::expected(), (width, height).encode(env)),
            (atoms::actual(), (found_width, found_height).encode(env)),
        ],
        SurfaceError::InvalidSize { max, .. } => vec![(atoms::max(), max.encode(env))],
        _ => Vec::new(),
    };
    (atoms::error(), terms::error_struct(env, error.code(), &error.to_string(), &details)).encode(env)
}
