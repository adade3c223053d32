//! What Elixir holds of devices and buffers.

use std::sync::atomic::AtomicBool;

use dala_compute::{Buffer, Device};

use crate::models::Models;
use crate::owners::later;

/// A device, whether somebody records what it does, and the models that were loaded.
pub(crate) struct DeviceResource(pub(crate) Device, pub(crate) AtomicBool, pub(crate) Models);

/// A buffer.
pub(crate) struct BufferResource(pub(crate) Buffer);

/// Closing a device waits for what is in flight: not on a scheduler.
impl Drop for DeviceResource {
    fn drop(&mut self) {
        let (device, models) = (self.0.clone(), std::mem::take(&mut self.2));
        later(move || drop((models, device)));
    }
}
