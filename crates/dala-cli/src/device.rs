//! Opening the device that was asked for.

use anyhow::{Result, anyhow};
use dala_compute::{Device, Error, KernelCache};

use crate::output;

/// Opens a device. If there is none of that name, says which there are.
pub(crate) fn open(name: &str) -> Result<Device> {
    warn_if_kernels_are_not_kept();
    Device::open(name).map_err(|error| match error {
        Error::UnknownDevice { .. } | Error::DeviceUnavailable { .. } => anyhow!("{error}\n  {}", choice(&available())),
        other => other.into(),
    })
}

/// Says why the next start will take as long as this one, if it will.
pub(crate) fn warn_if_kernels_are_not_kept() {
    if let Some(why) = KernelCache::get().refused() {
        output::warn(&format!("kernels are not kept for the next time: {why}"));
    }
}

fn available() -> Vec<String> {
    Device::list().into_iter().map(|info| info.id).collect()
}

fn choice(names: &[String]) -> String {
    match names {
        [] => "this build finds no device on this machine: `dala info` shows all of them".to_owned(),
        names => format!("this machine has {}: `dala info` says more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_to_choose_from_are_named() {
        let names = ["gl:0", "cpu"].map(str::to_owned);
        assert_eq!(choice(&names), "this machine has gl:0, cpu: `dala info` says more");
        assert!(choice(&[]).starts_with("this build finds no device"));
    }
}
