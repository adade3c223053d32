//! The device that everything runs on, opened again when it is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use dala_compute::{Device, DeviceOptions, Error};

/// How often it is tried to open a device that is gone.
const AGAIN: Duration = Duration::from_millis(250);

/// The device that everything runs on.
pub(super) struct Home {
    name: String,
    threads: Option<usize>,
    device: Mutex<Opened>,
    gone: AtomicBool,
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
        Ok(Home {
            name: name.to_owned(),
            threads,
            device: Mutex::new(Opened { device, number: 0 }),
            gone: false.into(),
        })
    }

    /// The device as it is now.
    pub(super) fn now(&self) -> Opened {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the device was lost and cannot be opened again, so far.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Opens the device again after it was lost; once, however many find out. If that fails, it is tried until it does not.
    pub(super) fn again(self: &Arc<Home>, lost: usize) {
        if self.try_again(lost) || self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        let home = Arc::downgrade(self);
        let trying = move || {
            loop {
                thread::sleep(AGAIN);
                let Some(home) = home.upgrade() else { return };
                if home.try_again(lost) {
                    return;
                }
            }
        };
        if thread::Builder::new().name("dala-serve-device".to_owned()).spawn(trying).is_err() {
            // The next to find out tries.
            self.gone.store(false, Ordering::Release);
        }
    }

    fn try_again(&self, lost: usize) -> bool {
        let mut opened = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.number == lost {
            let Ok(device) = open(&self.name, self.threads) else { return false };
            *opened = Opened { device, number: lost + 1 };
            self.gone.store(false, Ordering::Release);
        }
        true
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
