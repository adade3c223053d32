//! Keeps panics off the terminal that come back to callers as errors.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    /// How many calls of [`caught`](super::caught) this thread is in.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, panics of this thread are somebody's errors.
pub(super) struct Catching(());

impl Catching {
    pub(super) fn begin() -> Catching {
        CATCHING.set(CATCHING.get() + 1);
        Catching(())
    }
}

impl Drop for Catching {
    fn drop(&mut self) {
        CATCHING.set(CATCHING.get() - 1);
    }
}

/// Installs, once per process, a panic hook that is silent where panics are caught and passes everything else on.
pub(super) fn silence_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A thread that is about to end catches nothing.
            if CATCHING.try_with(Cell::get).unwrap_or_default() == 0 {
                previous(info);
            }
        }));
    });
}
