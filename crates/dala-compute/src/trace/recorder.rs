//! Records what a device does, while somebody asked for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dala_schedule::{CommandId, Lane};

use super::{Sample, Span, Trace, Track};

/// The most spans that are kept: a trace that nobody stops must not fill the memory.
const MOST_SPANS: usize = 1 << 18;

/// Records what a device does. Off, it costs one load for each pass.
#[derive(Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    taken: Mutex<Option<(Instant, Trace)>>,
}

impl Recorder {
    fn taken(&self) -> MutexGuard<'_, Option<(Instant, Trace)>> {
        // Nothing is left half-done by a panic under this lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, device: String) {
        *self.taken() = Some((Instant::now(), Trace { device, ..Trace::default() }));
        self.on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) -> Trace {
        self.on.store(false, Ordering::Relaxed);
        self.taken().take().map(|(_, trace)| trace).unwrap_or_default()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// A command that waited on the queue until now.
    pub(crate) fn waited(&self, command: CommandId, lane: Lane, submitted: Instant) {
        let details = vec![("lane".to_owned(), lane.to_string())];
        self.span(Track::Queue(lane), format!("command {command}"), submitted, Instant::now(), details);
    }

    /// Something that the device did.
    pub(crate) fn worked(&self, name: String, start: Instant, end: Instant, details: Vec<(String, String)>) {
        self.span(Track::Device, name, start, end, details);
    }

    fn span(&self, track: Track, name: String, start: Instant, end: Instant, details: Vec<(String, String)>) {
        if let Some((began, trace)) = &mut *self.taken()
            && trace.spans.len() < MOST_SPANS
        {
            let (start, end) = (since(*began, start), since(*began, end));
            trace.spans.push(Span { track, name, start, length: end.saturating_sub(start), details });
        }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self, live: u64) {
        if let Some((began, trace)) = &mut *self.taken()
            && trace.samples.len() < MOST_SPANS
        {
            trace.samples.push(Sample { name: "live bytes".to_owned(), at: began.elapsed(), value: live });
        }
    }
}

fn since(began: Instant, at: Instant) -> Duration {
    at.saturating_duration_since(began)
}
