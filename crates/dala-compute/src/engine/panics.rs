//! Keeps panics of the engine's own threads off the terminal: they come back to callers as errors.

use std::sync::Once;

/// Installs, once per process, a panic hook that is silent for the engine's device threads and passes everything else on.
pub(super) fn silence_device_threads() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The engine names its threads DSD-… and DSU-….
            let is_device_thread = std::thread::current().name().is_some_and(|name| name.starts_with("DS"));
            if !is_device_thread {
                previous(info);
            }
        }));
    });
}
