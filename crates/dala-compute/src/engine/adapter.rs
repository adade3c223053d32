//! Open adapters.

use std::sync::Arc;
#[cfg(feature = "graphics")]
use std::sync::Mutex;
use std::time::Duration;

use cubecl::client::Client;
use dala_plan::DeviceFacts;

use super::error::EngineError;
use super::guard::caught;
use super::held::HeldThread;
use super::info::DeviceInfo;
#[cfg(feature = "graphics")]
use super::interop::Graphics;
#[cfg(feature = "graphics")]
use super::staging::Staging;
use super::waiting::Started;

/// How long a device may take for what was queued: passes are short, so one that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

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

    /// What the engine answers to what was started on its thread. Waits, but not for ever.
    pub(super) fn answer<T>(&self, started: Started<'_, T>) -> Result<T, EngineError> {
        let answer = caught(|| started.within(TIMEOUT, || self.ask()))?;
        answer.ok_or(EngineError::Timeout { seconds: TIMEOUT.as_secs() })
    }

    /// Has the driver say what it has done. It is asked by a thread of the engine's, which ends for good if that panics: wgpu does if two
    /// ask at the same moment and the device was slow, or if OpenGL is held for seconds. Whoever waits then would wait in vain.
    fn ask(&self) {
        #[cfg(feature = "graphics")]
        if let Some(graphics) = &self.graphics {
            // What fails here is found out by what is waited for.
            let _ = caught(|| graphics.device.poll(cubecl::wgpu::wgpu::PollType::Poll));
        }
    }

    /// Whether the device behind it is gone: nothing works on it any more.
    pub(super) fn is_lost(&self) -> bool {
        let started = self.on_thread(|| Started::new(self.client.sync()));
        let asked =
            started.and_then(|started| self.answer(started)).and_then(|answer| answer.map_err(EngineError::from));
        matches!(asked, Err(EngineError::DeviceLost { .. } | EngineError::Timeout { .. }))
    }
}
