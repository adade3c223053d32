//! Open adapters.

use std::sync::Arc;
#[cfg(feature = "graphics")]
use std::sync::Mutex;

use cubecl::client::Client;
use cubecl::future::block_on;
use dala_plan::DeviceFacts;

use super::error::EngineError;
use super::guard::{caught, guarded};
use super::held::HeldThread;
use super::info::DeviceInfo;
#[cfg(feature = "graphics")]
use super::interop::Graphics;
#[cfg(feature = "graphics")]
use super::staging::Staging;

/// An open adapter: shared by every device that is opened on it.
pub(crate) struct Adapter {
    pub(crate) info: DeviceInfo,
    pub(crate) facts: DeviceFacts,
    pub(super) client: Client,
    /// The thread of a device that only this library uses.
    pub(super) thread: Option<Arc<HeldThread>>,
    #[cfg(feature = "graphics")]
    pub(super) staging: Option<Mutex<Staging>>,
    #[cfg(feature = "graphics")]
    pub(super) graphics: Option<Graphics>,
}

impl Adapter {
    /// Does something with the engine's client, where that is done.
    pub(super) fn on_thread<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, EngineError> {
        match &self.thread {
            Some(thread) => thread.run(task),
            None => caught(task),
        }
    }

    /// Whether the device behind it is gone: nothing works on it any more.
    pub(super) fn is_lost(&self) -> bool {
        let asked = self.on_thread(|| guarded(|| block_on(self.client.sync()))).and_then(|answer| answer);
        matches!(asked, Err(EngineError::DeviceLost { .. }))
    }
}
