//! A flow of frames through the same stages.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dala_schedule::{CommandId, Lane, Time, WhenFull, in_callback};

use super::stage::Stage;
use super::{Command, SubmitOptions};
use crate::device::Device;
use crate::engine::EngineError;
use crate::error::Error;

/// What happens to a frame that comes while as many are in flight as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePolicy {
    /// It waits, and takes the place of the one that waits already: what is shown is never old.
    Latest,
    /// So many wait; one more is dropped.
    Queue(usize),
    /// Whoever pushes it waits.
    Block,
}

/// How a stream works.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StreamOptions {
    /// What happens to frames that come too fast.
    pub policy: FramePolicy,
    /// Frames that may be on the device's queue at once; at least 1.
    pub in_flight: usize,
    /// The lane of its commands.
    pub lane: Lane,
    /// How long a frame may wait on the device's queue.
    pub deadline: Option<Duration>,
}

impl StreamOptions {
    /// Two frames in flight, in the interactive lane, with this policy.
    pub fn new(policy: FramePolicy) -> StreamOptions {
        StreamOptions { policy, in_flight: 2, lane: Lane::Interactive, deadline: None }
    }

    /// So many frames in flight at once.
    pub fn in_flight(mut self, frames: usize) -> StreamOptions {
        self.in_flight = frames;
        self
    }

    /// In this lane.
    pub fn lane(mut self, lane: Lane) -> StreamOptions {
        self.lane = lane;
        self
    }

    /// Frames that do not start within `limit` are dropped.
    pub fn deadline(mut self, limit: Duration) -> StreamOptions {
        self.deadline = Some(limit);
        self
    }
}

/// What became of a frame that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Its command was submitted.
    Started,
    /// It waits for its turn.
    Waiting,
    /// It waits for its turn, in place of an older frame that was dropped.
    Replaced,
    /// It was dropped.
    Dropped,
}

/// A stream, now and so far. Every frame that came in is out, dropped for one of the reasons, failed, waiting, in flight, or
/// about to be as soon as `push` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStats {
    /// Frames that were pushed.
    pub frames_in: u64,
    /// Frames that completed.
    pub frames_out: u64,
    /// Frames dropped because a newer one came.
    pub dropped_stale: u64,
    /// Frames dropped because the stream's queue, or the device's lane, was full.
    pub dropped_full: u64,
    /// Frames dropped because they did not start before their deadline.
    pub dropped_late: u64,
    /// Frames that failed otherwise, or were cancelled.
    pub failed: u64,
    /// Frames that wait for their turn.
    pub waiting: usize,
    /// Frames on the device's queue.
    pub in_flight: usize,
    /// From the push until the command starts, of the last 1,024 frames that completed.
    pub queue_time: Times,
    /// From the start until the end of the command, of the same frames.
    pub device_time: Times,
    /// From the push until the end, of the same frames.
    pub latency: Times,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Half took no longer.
    pub p50: Duration,
    /// All but one of a hundred took no longer.
    pub p99: Duration,
}

/// Frames whose times are remembered.
const REMEMBERED: usize = 1024;

type MakeStages<F> = dyn Fn(&F) -> Vec<Stage> + Send + Sync;
/// A frame, how it ended, and how long it took.
type Ended<F> = (Option<F>, Result<(), Error>, Option<[Duration; 3]>);
type OnFrame<F> = dyn Fn(F, Result<(), Error>) + Send + Sync;

/// A flow of frames through the same stages, with a limit of how many are in flight and a rule for those that come too
/// fast. Clones are of the same stream; with the last of them, frames that have not started are cancelled. Frames are
/// submitted in the order in which one thread pushes them, and complete in that order if their stages share a buffer.
///
/// ```
/// # use dala_compute::{Buffer, DType, Device, FramePolicy, Stage, Stream, StreamOptions};
/// # fn main() -> Result<(), dala_compute::Error> {
/// # let device = Device::open("cpu")?;
/// let input = Buffer::zeros(&device, DType::U8, [4, 4, 4])?;
/// let output = Buffer::zeros(&device, DType::U8, [4, 4, 4])?;
/// let (from, to) = (input.clone(), output.clone());
/// // A frame is whatever a camera gives: here, its bytes.
/// let stages = move |frame: &Vec<u8>| {
///     vec![Stage::write_buffer(&from, frame.as_slice()), Stage::run_kernel("blur", &[&from], &to, [("radius", 1)])]
/// };
/// let stream = Stream::new(&device, stages, StreamOptions::new(FramePolicy::Block));
/// for brightness in 0..10 {
///     stream.push(vec![brightness; 64])?;
/// }
/// stream.wait_idle(None)?;
/// assert_eq!(stream.stats().frames_out, 10);
/// assert_eq!(output.read::<u8>()?[0], 9);
/// # Ok(())
/// # }
/// ```
pub struct Stream<F: Send + 'static = ()>(Arc<Inner<F>>);

struct Inner<F> {
    options: StreamOptions,
    stages: Box<MakeStages<F>>,
    on_frame: Option<Box<OnFrame<F>>>,
    handles: AtomicUsize,
    state: Mutex<State<F>>,
    /// Notified when fewer frames are in flight.
    moved: Condvar,
}

struct State<F> {
    /// Frames in flight hold the stream, and must not hold the device: it goes with the last handle.
    device: Option<Device>,
    waiting: VecDeque<(F, Time)>,
    in_flight: usize,
    /// The commands of frames in flight.
    commands: Vec<CommandId>,
    counts: StreamStats,
    /// Queue time, device time and latency.
    times: VecDeque<[Duration; 3]>,
}

impl<F: Send + 'static> Clone for Stream<F> {
    fn clone(&self) -> Stream<F> {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Stream(self.0.clone())
    }
}

impl<F: Send + 'static> Drop for Stream<F> {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close();
        }
    }
}

impl Stream<()> {
    /// A stream that runs the same stages for every frame.
    pub fn repeat(device: &Device, stages: impl Into<Vec<Stage>>, options: StreamOptions) -> Stream<()> {
        let stages = stages.into();
        Stream::new(device, move |()| stages.clone(), options)
    }
}

impl<F: Send + 'static> Stream<F> {
    /// A stream that runs, for each frame, the stages that `stages` makes of it.
    pub fn new(
        device: &Device,
        stages: impl Fn(&F) -> Vec<Stage> + Send + Sync + 'static,
        options: StreamOptions,
    ) -> Stream<F> {
        Stream::build(device, Box::new(stages), None, options)
    }

    /// The same; and each frame that waited or was started is given back with how it ended, from the thread of the device's
    /// callbacks. Frames that were dropped before they were submitted are not. The callback may push frames; there,
    /// [`FramePolicy::Block`] queues them instead of waiting.
    pub fn with_callback(
        device: &Device,
        stages: impl Fn(&F) -> Vec<Stage> + Send + Sync + 'static,
        options: StreamOptions,
        on_frame: impl Fn(F, Result<(), Error>) + Send + Sync + 'static,
    ) -> Stream<F> {
        Stream::build(device, Box::new(stages), Some(Box::new(on_frame)), options)
    }

    fn build(
        device: &Device,
        stages: Box<MakeStages<F>>,
        on_frame: Option<Box<OnFrame<F>>>,
        mut options: StreamOptions,
    ) -> Stream<F> {
        options.in_flight = options.in_flight.max(1);
        Stream(Arc::new(Inner {
            options,
            stages,
            on_frame,
            handles: AtomicUsize::new(1),
            state: Mutex::new(State {
                device: Some(device.clone()),
                waiting: VecDeque::new(),
                in_flight: 0,
                commands: Vec::new(),
                counts: StreamStats::default(),
                times: VecDeque::new(),
            }),
            moved: Condvar::new(),
        }))
    }

    /// A new frame. Waits only if the policy says so.
    ///
    /// # Errors
    ///
    /// The frame's stages do not fit their kernels, or the device refuses them. The frame is counted as dropped or failed
    /// then.
    pub fn push(&self, frame: F) -> Result<Pushed, Error> {
        let inner = &self.0;
        let mut state = inner.state();
        let Some(pushed_at) = state.device.as_ref().map(|device| device.core().queue.now()) else {
            return Err(Error::Stopped);
        };
        state.counts.frames_in += 1;
        let blocks = inner.options.policy == FramePolicy::Block && !in_callback();
        while state.in_flight >= inner.options.in_flight && blocks {
            state = inner.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.in_flight < inner.options.in_flight {
            state.in_flight += 1;
            drop(state);
            return match inner.submit(&frame) {
                Ok(command) => {
                    inner.watch(&command, frame, pushed_at);
                    Ok(Pushed::Started)
                }
                Err(error) => {
                    inner.ended(None, Err(error.clone()), None);
                    Err(error)
                }
            };
        }
        match inner.options.policy {
            FramePolicy::Queue(limit) if state.waiting.len() >= limit => {
                state.counts.dropped_full += 1;
                Ok(Pushed::Dropped)
            }
            FramePolicy::Queue(_) | FramePolicy::Block => {
                state.waiting.push_back((frame, pushed_at));
                Ok(Pushed::Waiting)
            }
            FramePolicy::Latest => {
                let stale = state.waiting.len() as u64;
                state.counts.dropped_stale += stale;
                let stale_frames = std::mem::take(&mut state.waiting);
                state.waiting.push_back((frame, pushed_at));
                drop(state);
                drop(stale_frames);
                Ok(if stale > 0 { Pushed::Replaced } else { Pushed::Waiting })
            }
        }
    }

    /// Waits until no frame waits and none is in flight; at most for `limit`, if there is one; in a callback, not at all.
    ///
    /// # Errors
    ///
    /// Time is up.
    pub fn wait_idle(&self, limit: impl Into<Option<Duration>>) -> Result<(), Error> {
        // Frames end by callbacks: one that waited for them would wait for itself.
        let limit = if in_callback() { Some(Duration::ZERO) } else { limit.into() };
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.0.state();
        while state.in_flight > 0 || !state.waiting.is_empty() {
            state = match until {
                None => self.0.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::StreamBusy { limit: limit.unwrap_or_default() });
                    }
                    self.0.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Ok(())
    }

    /// Starts a frame if there is room for it now: none waits, fewer are in flight than may be, and the device's lane is not
    /// full. Otherwise gives it back, as if it had never been pushed.
    ///
    /// # Errors
    ///
    /// As [`push`](Stream::push).
    pub fn try_push(&self, frame: F) -> Result<Option<F>, Error> {
        let inner = &self.0;
        let mut state = inner.state();
        let Some(pushed_at) = state.device.as_ref().map(|device| device.core().queue.now()) else {
            return Err(Error::Stopped);
        };
        if state.in_flight >= inner.options.in_flight || !state.waiting.is_empty() {
            return Ok(Some(frame));
        }
        state.in_flight += 1;
        drop(state);
        match inner.submit(&frame) {
            Ok(command) => {
                inner.state().counts.frames_in += 1;
                inner.watch(&command, frame, pushed_at);
                Ok(None)
            }
            Err(Error::Overloaded { .. }) => {
                inner.give_place_to_next(None);
                Ok(Some(frame))
            }
            Err(error) => {
                inner.state().counts.frames_in += 1;
                inner.ended(None, Err(error.clone()), None);
                Err(error)
            }
        }
    }

    /// Ends the stream: cancels the frames in flight that have not started, and gives back those that wait. Frames that are
    /// pushed later are refused.
    pub fn close(&self) -> Vec<F> {
        self.0.close().into_iter().map(|(frame, _)| frame).collect()
    }

    /// The stream, now and so far.
    pub fn stats(&self) -> StreamStats {
        let state = self.0.state();
        let [queue_time, device_time, latency] = [0, 1, 2].map(|which| {
            let mut times: Vec<Duration> = state.times.iter().map(|times| times[which]).collect();
            times.sort_unstable();
            let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
            Times { p50: at(50).copied().unwrap_or_default(), p99: at(99).copied().unwrap_or_default() }
        });
        let (waiting, in_flight) = (state.waiting.len(), state.in_flight);
        StreamStats { waiting, in_flight, queue_time, device_time, latency, ..state.counts }
    }
}

impl<F: Send + 'static> Inner<F> {
    fn state(&self) -> MutexGuard<'_, State<F>> {
        // Nothing is left half-done by a panic under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what has not started, and gives what waits.
    fn close(&self) -> VecDeque<(F, Time)> {
        let mut state = self.state();
        let (device, waiting) = (state.device.take(), std::mem::take(&mut state.waiting));
        let commands = std::mem::take(&mut state.commands);
        drop(state);
        // Frames hold buffers, and buffers the device: on one that is suspended they would never end.
        if let Some(device) = &device {
            for command in commands {
                device.core().queue.cancel(command);
            }
        }
        waiting
    }

    fn submit(&self, frame: &F) -> Result<Command, Error> {
        // A full lane must not make the thread wait that empties it.
        let StreamOptions { lane, deadline, .. } = self.options;
        let options = SubmitOptions { lane, deadline, when_full: WhenFull::Refuse, only_planned: false };
        let device = self.state().device.clone();
        let Some(device) = device else { return Err(Error::Stopped) };
        // A panic here would leave the frame in flight for ever.
        let stages = catch_unwind(AssertUnwindSafe(|| (self.stages)(frame)))
            .map_err(|_| EngineError::internal("what makes the stages of a stream panicked"))?;
        device.submit_with(stages, options)
    }

    fn watch(self: &Arc<Self>, command: &Command, frame: F, pushed_at: Time) {
        let (stream, id) = (self.clone(), command.id());
        let is_dropped = {
            let mut state = self.state();
            state.commands.push(id);
            state.device.is_none()
        };
        if is_dropped {
            // The last handle went while it was submitted.
            command.cancel();
        }
        command.on_end_with_times(move |result, [_, started, ended]| {
            let times = [started.since(pushed_at), ended.since(started), ended.since(pushed_at)];
            stream.state().commands.retain(|command| *command != id);
            stream.ended(Some(frame), result, Some(times));
        });
    }

    /// A frame in flight has ended: the next may start.
    fn ended(self: &Arc<Self>, frame: Option<F>, result: Result<(), Error>, times: Option<[Duration; 3]>) {
        self.give_place_to_next(Some((frame, result, times)));
    }

    /// The place of a frame is free: of one that ended, or of one that never started.
    fn give_place_to_next(self: &Arc<Self>, mut ended: Option<Ended<F>>) {
        // Frames that the device does not take end at once. A loop, so that they do not pile up on the stack.
        loop {
            let mut state = self.state();
            if let Some((_, result, times)) = &ended {
                state.count(result, *times);
            }
            let next = state.waiting.pop_front();
            if next.is_none() {
                state.in_flight -= 1;
                self.moved.notify_all();
            }
            drop(state);
            let submitted = next.map(|(frame, pushed_at)| (self.submit(&frame), frame, pushed_at));
            // After its place was given to the next: the callback may push one more.
            let give_back = |ended: Option<Ended<F>>| {
                if let (Some(on_frame), Some((Some(frame), result, _))) = (&self.on_frame, ended) {
                    // Its panics are its own affair.
                    let _ = catch_unwind(AssertUnwindSafe(|| on_frame(frame, result)));
                }
            };
            match submitted {
                None => return give_back(ended),
                Some((Ok(command), next, pushed_at)) => {
                    self.watch(&command, next, pushed_at);
                    return give_back(ended);
                }
                Some((Err(error), next, _)) => {
                    give_back(ended);
                    ended = Some((Some(next), Err(error), None));
                }
            }
        }
    }
}

impl<F> State<F> {
    fn count(&mut self, result: &Result<(), Error>, times: Option<[Duration; 3]>) {
        match result {
            Ok(()) => {
                self.counts.frames_out += 1;
                if self.times.len() == REMEMBERED {
                    self.times.pop_front();
                }
                self.times.extend(times);
            }
            Err(Error::DeadlineExceeded { .. }) => self.counts.dropped_late += 1,
            Err(Error::Overloaded { .. } | Error::Dropped { .. }) => self.counts.dropped_full += 1,
            Err(_) => self.counts.failed += 1,
        }
    }
}
