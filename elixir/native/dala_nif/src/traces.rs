//! What a device does while somebody takes it down.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use dala_compute::trace::Trace;
use rustler::ResourceArc;

use crate::lock::lock;
use crate::owners::later;
use crate::resources::DeviceResource;

/// A trace that is being taken. It ends with the process that takes it, if that dies: nobody else holds it.
pub(crate) struct Tracing(Mutex<Option<ResourceArc<DeviceResource>>>);

impl Tracing {
    /// Begins one; none if there is one already, which would be forgotten.
    pub(crate) fn start(device: ResourceArc<DeviceResource>) -> Option<Tracing> {
        if device.1.swap(true, Ordering::AcqRel) {
            return None;
        }
        device.0.start_trace();
        Some(Tracing(Mutex::new(Some(device))))
    }

    /// Ends it; nothing if that was done before.
    pub(crate) fn stop(&self) -> Option<Trace> {
        lock(&self.0).take().map(|device| end(&device))
    }
}

fn end(device: &DeviceResource) -> Trace {
    let trace = device.0.stop_trace();
    device.1.store(false, Ordering::Release);
    trace
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(device) = lock(&self.0).take() {
            // Much may have been recorded: that is no work for a scheduler.
            later(move || drop(end(&device)));
        }
    }
}
