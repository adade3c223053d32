//! The device that everything runs on, opened again when it is lost.

use std::sync::{Mutex, PoisonError};

use dala_compute::{Device, DeviceOptions, Error};

/// The device that everything runs on.
pub(super) struct Home {
    name: String,
    threads: Option<usize>,
    device: Mutex<Opened>,
}

/// A device, and how many there were before it.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) device: Device,
    pub(super) number: usize,
}

impl Home {
    pub(super) fn open(name: &str, threads: Option<usize>) -> Result<Home, Error> {
        let device = open(name, threads)?;
        Ok(Home { name: name.to_owned(), threads, device: Mutex::new(Opened { device, number: 0 }) })
    }

    /// The device as it is now.
    pub(super) fn now(&self) -> Opened {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the device again after it was lost; once, however many find out.
    ///
    /// # Errors
    /// It cannot be opened: the next to find out tries again.
    pub(super) fn again(&self, lost: usize) -> Result<(), Error> {
        let mut opened = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.number == lost {
            let device = open(&self.name, self.threads)?;
            *opened = Opened { device, number: lost + 1 };
        }
        Ok(())
    }
}

fn open(name: &str, threads: Option<usize>) -> Result<Device, Error> {
    let options = threads.map_or_else(DeviceOptions::new, |threads| DeviceOptions::new().threads(threads));
    Device::open_with(name, options)
}

/// Whether a device that says this is gone.
pub(super) fn is_lost(code: &str) -> bool {
    code == "device_lost"
}

/// A lane of the queue as one of the device.
pub(super) fn on_device(lane: dala_batch::Lane) -> dala_compute::Lane {
    match lane {
        dala_batch::Lane::Interactive => dala_compute::Lane::Interactive,
        dala_batch::Lane::Default => dala_compute::Lane::Default,
        dala_batch::Lane::Background => dala_compute::Lane::Background,
    }
}
