//! Submitted work, to whoever waits for it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dala_schedule::{CommandId, CommandState, End, Lane, Refusal, Submission, Ticket, Time, Unfinished, WhenFull};

use crate::Error;
use crate::device::Core;

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

    pub(crate) fn submission(self) -> Submission {
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

impl From<()> for SubmitOptions {
    fn from((): ()) -> SubmitOptions {
        SubmitOptions::default()
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
    pub(crate) fn new(ticket: Ticket<Arc<Error>>, device: Arc<Core>) -> Command {
        Command { ticket, device, waker: None }
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

/// What an end means to a caller.
pub(crate) fn outcome(id: CommandId, end: &End<Arc<Error>>) -> Result<(), Error> {
    Err(match end {
        End::Completed => return Ok(()),
        End::Failed(error) => Error::clone(error),
        End::Cancelled => Error::Cancelled { command: id },
        End::DeadlineExceeded => Error::DeadlineExceeded { command: Some(id) },
        End::Dropped => Error::Dropped { command: id },
        End::Suspended => Error::Suspended,
        End::DependencyFailed { root, cause } => {
            let cause = outcome(*root, cause).err().unwrap_or(Error::Cancelled { command: *root });
            Error::DependencyFailed { command: *root, cause: Arc::new(cause) }
        }
    })
}

impl From<Refusal<Arc<Error>>> for Error {
    fn from(refusal: Refusal<Arc<Error>>) -> Error {
        match refusal {
            Refusal::Full { lane, capacity } => Error::Overloaded { lane, capacity },
            Refusal::DeadlineExceeded => Error::DeadlineExceeded { command: None },
            Refusal::Suspended => Error::Suspended,
            Refusal::Unreadable(error) => Error::clone(&error),
            Refusal::Closed => crate::EngineError::internal("the device was dropped").into(),
            Refusal::NoThread(message) => crate::EngineError::internal(format!("no thread: {message}")).into(),
        }
    }
}

impl From<Unfinished<Arc<Error>>> for Error {
    fn from(unfinished: Unfinished<Arc<Error>>) -> Error {
        match unfinished {
            Unfinished::Refused(refusal) => refusal.into(),
            Unfinished::Ended(command, end) => outcome(command, &end).err().unwrap_or(Error::Cancelled { command }),
        }
    }
}
