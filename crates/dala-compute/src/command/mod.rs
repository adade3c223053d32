//! Submitted work, to whoever waits for it.

mod outcome;
mod prepare;
mod runner;
mod stage;
mod stream;
mod work;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dala_kernels::Kernel;
use dala_schedule::{CommandId, CommandState, Lane, Submission, Ticket, Time, WhenFull};
use dala_spec::Params;

use crate::buffer::Buffer;
use crate::core::Core;
use crate::device::Device;
use crate::error::Error;
use crate::plan::profile::{LaunchTime, profile};

use outcome::outcome;
pub(crate) use runner::Runner;
pub use stage::Stage;
pub use stream::{FramePolicy, Pushed, Stream, StreamOptions, StreamStats, Times};
pub(crate) use work::{Job, Prepared};

/// How a command is to be queued: by default in the default lane, without a deadline, waiting if the lane is full.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SubmitOptions {
    /// Its lane.
    pub lane: Lane,
    /// How long it may wait: if it has not started by then, it fails and costs no device time.
    pub deadline: Option<Duration>,
    /// What to do if the lane is full.
    pub when_full: WhenFull,
    /// Whether to refuse kernels that were not planned yet, for callers that have no time: planning a call of a new shape may
    /// take milliseconds.
    pub only_planned: bool,
}

impl SubmitOptions {
    /// The defaults.
    pub fn new() -> SubmitOptions {
        SubmitOptions::default()
    }

    /// In this lane.
    pub fn lane(mut self, lane: Lane) -> SubmitOptions {
        self.lane = lane;
        self
    }

    /// To be started within `limit`, or not at all.
    pub fn deadline(mut self, limit: Duration) -> SubmitOptions {
        self.deadline = Some(limit);
        self
    }

    /// What to do if the lane is full.
    pub fn when_full(mut self, when_full: WhenFull) -> SubmitOptions {
        self.when_full = when_full;
        self
    }

    /// Refusing kernels that were not planned yet.
    pub fn only_planned(mut self) -> SubmitOptions {
        self.only_planned = true;
        self
    }

    fn submission(self) -> Submission {
        Submission {
            lane: self.lane,
            start_within: self.deadline,
            when_full: self.when_full,
            refuse_if_suspended: false,
        }
    }
}

impl From<Lane> for SubmitOptions {
    fn from(lane: Lane) -> SubmitOptions {
        SubmitOptions::new().lane(lane)
    }
}

/// Submitted work: poll it, wait for it, await it, cancel it. Clones are of the same command. Dropping it changes nothing:
/// the work goes on.
pub struct Command {
    ticket: Ticket<Arc<Error>>,
    device: Arc<Core>,
    /// Where this handle's waker is kept.
    waker: Option<usize>,
}

impl Command {
    fn new(ticket: Ticket<Arc<Error>>, device: Arc<Core>) -> Command {
        Command { ticket, device, waker: None }
    }

    /// Queues work.
    pub(crate) fn submit(core: &Arc<Core>, job: Job, options: SubmitOptions) -> Result<Command, Error> {
        Ok(Command::new(core.submit(job, options.submission())?, core.clone()))
    }

    /// Which command it is. [`Device::command`](crate::Device::command) finds it again.
    pub fn id(&self) -> CommandId {
        self.ticket.id()
    }

    /// Where it is in its life: one atomic load.
    pub fn poll(&self) -> CommandState {
        self.ticket.state()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Result<(), Error>> {
        self.ticket.end().map(|end| outcome(self.id(), end))
    }

    /// Waits until it ended; at most for `limit`, if there is one. It goes on after that.
    ///
    /// # Errors
    ///
    /// Why it did not complete, or that it has not ended yet ([`Error::WaitTimeout`]).
    pub fn wait(&self, limit: impl Into<Option<Duration>>) -> Result<(), Error> {
        let limit = limit.into();
        match self.device.queue.wait(&self.ticket, limit) {
            Some(end) => outcome(self.id(), &end),
            None => Err(Error::WaitTimeout { command: self.id(), limit: limit.unwrap_or_default() }),
        }
    }

    /// Cancels it: it does not start, or stops between two stages, and poisons what it should have written. Says whether it
    /// will not complete; one whose last stage is launched will.
    pub fn cancel(&self) -> bool {
        self.device.queue.cancel(self.id())
    }

    /// Calls back once, soon after it ended, from a thread of the device's that does nothing else. The callback may use the
    /// device, and may wait; other callbacks come after it. What it holds stays alive until then: a buffer keeps its device.
    pub fn on_complete(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.on_end_with_times(move |result, _| callback(result));
    }

    /// The same, with when it was submitted, when it started and when it ended.
    pub(crate) fn on_end_with_times(&self, callback: impl FnOnce(Result<(), Error>, [Time; 3]) + Send + 'static) {
        let ticket = self.ticket.clone();
        self.device.queue.on_end(&self.ticket, move |end| callback(outcome(ticket.id(), end), ticket.times()));
    }
}

impl Device {
    /// Runs a kernel and waits until its output is written. The output may be one of the inputs.
    ///
    /// This is [`submit`](Device::submit) and [`wait`](Command::wait) in the default lane; on an idle device this thread
    /// itself does the work.
    ///
    /// # Errors
    ///
    /// The call does not fit the kernel, or the device cannot run it: nothing was launched then. Or the device failed:
    /// then `output` is poisoned until it is written again.
    pub fn run(
        &self,
        kernel: &str,
        inputs: &[&Buffer],
        output: &Buffer,
        params: impl Into<Params>,
    ) -> Result<(), Error> {
        self.run_to(kernel, inputs, &[output], params)
    }

    /// As [`run`](Device::run), of a kernel with several outputs: all of them, in their order.
    ///
    /// # Errors
    ///
    /// As [`run`](Device::run).
    pub fn run_to(
        &self,
        kernel: &str,
        inputs: &[&Buffer],
        outputs: &[&Buffer],
        params: impl Into<Params>,
    ) -> Result<(), Error> {
        self.run_kernel(self.core().registry().get(kernel)?, inputs, outputs, params, Lane::Default)
    }

    /// As [`run_to`](Device::run_to), in a lane, of a kernel that the device need not know by name. What is compiled for its
    /// calls is remembered until it is [forgotten](Device::forget), with its scratch memory.
    ///
    /// # Errors
    ///
    /// As [`run`](Device::run).
    pub fn run_kernel(
        &self,
        kernel: &Arc<Kernel>,
        inputs: &[&Buffer],
        outputs: &[&Buffer],
        params: impl Into<Params>,
        lane: Lane,
    ) -> Result<(), Error> {
        let mut job = Job::default();
        self.core().prepare_kernel(&mut job, kernel, inputs, outputs, &params.into(), true)?;
        self.core().run_in(job, lane)
    }

    /// As [`run_kernel`](Device::run_kernel), launch by launch: says how long the device took for each.
    ///
    /// # Errors
    ///
    /// As [`run`](Device::run).
    pub fn profile_kernel(
        &self,
        kernel: &Arc<Kernel>,
        inputs: &[&Buffer],
        outputs: &[&Buffer],
        params: impl Into<Params>,
    ) -> Result<Vec<LaunchTime>, Error> {
        let mut job = Job::default();
        self.core().prepare_kernel(&mut job, kernel, inputs, outputs, &params.into(), true)?;
        let Some(run) = job.run() else { return Ok(Vec::new()) };
        let slots = |buffers: &[&Buffer]| buffers.iter().map(|buffer| buffer.slot().clone()).collect::<Vec<_>>();
        let (reads, writes) = (slots(inputs), slots(outputs));
        profile(self.core(), run, &reads.iter().collect::<Vec<_>>(), &writes.iter().collect::<Vec<_>>())
    }

    /// Forgets what was compiled for calls of a kernel, and the device memory that it holds. Calls that run go on.
    pub fn forget(&self, kernel: &Kernel) {
        self.core().calls.forget(kernel.id);
    }

    /// Queues stages in the default lane, to be executed in order, and returns at once; unless the lane is full: then it waits
    /// for room.
    ///
    /// Commands that touch the same buffer keep the order in which they were submitted, whatever their lanes. Buffers may
    /// be freed or dropped before the command ends.
    ///
    /// ```
    /// # use dala_compute::{Buffer, CommandState, DType, Device, Stage};
    /// # fn main() -> Result<(), dala_compute::Error> {
    /// # let device = Device::open("cpu")?;
    /// let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2])?;
    /// let y = Buffer::zeros(&device, DType::F32, [2])?;
    /// let stages = [
    ///     Stage::run_kernel("relu", &[&x], &y, ()),
    ///     Stage::run_kernel("scalar_mul", &[&y], &y, [("scalar", 3.0)]),
    /// ];
    /// let command = device.submit(stages)?;
    /// command.wait(None)?;
    /// assert_eq!(command.poll(), CommandState::Completed);
    /// assert_eq!(y.read::<f32>()?, [3.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A stage does not fit its kernel, a buffer is freed, of another device, or known to be unreadable; or the device is
    /// suspended and commands are to fail. Nothing is queued then.
    pub fn submit(&self, stages: impl Into<Vec<Stage>>) -> Result<Command, Error> {
        self.submit_with(stages, SubmitOptions::new())
    }

    /// As [`submit`](Device::submit), in a lane, or with all the [options](SubmitOptions).
    ///
    /// ```
    /// # use dala_compute::{Buffer, DType, Device, Lane, Stage, SubmitOptions};
    /// # fn main() -> Result<(), dala_compute::Error> {
    /// # let device = Device::open("cpu")?;
    /// # let x = Buffer::zeros(&device, DType::F32, [2])?;
    /// let stage = Stage::run_kernel("relu", &[&x], &x, ());
    /// device.submit_with(stage.clone(), Lane::Background)?;
    ///
    /// let soon = SubmitOptions::new().lane(Lane::Interactive).deadline(std::time::Duration::from_secs(60));
    /// device.submit_with(stage, soon)?.wait(None)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`submit`](Device::submit), or the lane is full and the options say not to wait.
    pub fn submit_with(
        &self,
        stages: impl Into<Vec<Stage>>,
        options: impl Into<SubmitOptions>,
    ) -> Result<Command, Error> {
        let options = options.into();
        let job = self.core().prepare(&stages.into(), options.only_planned)?;
        Command::submit(self.core(), job, options)
    }

    /// A command by its id: one that has not ended, or one of the last 65,536 that have.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn command(&self, id: CommandId) -> Result<Command, Error> {
        let ticket = self.core().queue.find(id).ok_or(Error::UnknownCommand { command: id })?;
        Ok(Command::new(ticket, self.core().clone()))
    }

    /// What is wrong with stages, all of it: an empty list if [`submit`](Device::submit) would take them.
    pub fn check(&self, stages: &[Stage]) -> Vec<Error> {
        self.core().problems(stages)
    }
}

impl Clone for Command {
    fn clone(&self) -> Command {
        Command::new(self.ticket.clone(), self.device.clone())
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if let Some(waker) = self.waker {
            self.ticket.unregister(waker);
        }
    }
}

impl Future for Command {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Command { ticket, waker, .. } = &mut *self;
        match ticket.register(context.waker(), waker) {
            Some(end) => Poll::Ready(outcome(ticket.id(), end)),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command {} ({})", self.id(), self.poll())
    }
}
