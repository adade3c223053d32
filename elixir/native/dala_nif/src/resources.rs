//! What Elixir holds of devices and buffers.

use std::sync::atomic::AtomicBool;

use dala_compute::{Buffer, Device};

use crate::models::Models;
use crate::owners::later;
use crate::recipes::Recipes;

/// A device, whether somebody records what it does, the models that were loaded, and the recipes that were asked for.
pub(crate) struct DeviceResource(pub(crate) Device, pub(crate) AtomicBool, pub(crate) Models, pub(crate) Recipes);

/// A buffer.
pub(crate) struct BufferResource(pub(crate) Buffer);

/// Closing a device waits for what is in flight: not on a scheduler.
impl Drop for DeviceResource {
    fn drop(&mut self) {
        let (models, recipes) = (std::mem::take(&mut self.2), std::mem::take(&mut self.3));
        let device = self.0.clone();
        later(move || drop((models, recipes, device)));
    }
}
