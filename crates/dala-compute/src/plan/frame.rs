//! What the next run of compiled stages takes over from one that ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::engine::Launch;
use crate::memory::Allocation;

/// What does not depend on the users' buffers.
pub(crate) struct Frame {
    /// The launches over scratch memory and constants alone, each in its place.
    pub(super) launches: Vec<Option<Arc<Launch>>>,
    pub(super) scratch: SmallVec<[Allocation; 1]>,
}

/// What runs that have ended left for the next. Runs at the same time never have the same one.
#[derive(Default)]
pub(crate) struct Frames(Mutex<Option<Arc<Frame>>>);

impl Frames {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Frame>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<Arc<Frame>> {
        self.lock().take()
    }

    /// Runs side by side are rare: the memory of one is kept.
    pub(super) fn put(&self, frame: Arc<Frame>) {
        let other = self.lock().replace(frame);
        // Not under the lock: giving memory back takes others.
        drop(other);
    }
}
