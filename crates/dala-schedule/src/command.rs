//! One submitted piece of work, as whoever waits for it sees it.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::Time;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, lock};

/// Which command: unique in a process, in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Where a command is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandState {
    /// Not started.
    Pending,
    /// At least one stage was launched.
    Running,
    /// Done: a checked synchronisation said so.
    Completed,
    /// Not done, for a reason that its outcome tells.
    Failed,
    /// Not done, because someone cancelled it.
    Cancelled,
}

impl CommandState {
    const ALL: [CommandState; 5] = [
        CommandState::Pending,
        CommandState::Running,
        CommandState::Completed,
        CommandState::Failed,
        CommandState::Cancelled,
    ];

    /// Whether nothing will change any more.
    pub fn is_final(self) -> bool {
        !matches!(self, CommandState::Pending | CommandState::Running)
    }

    /// Its name, as a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            CommandState::Pending => "pending",
            CommandState::Running => "running",
            CommandState::Completed => "completed",
            CommandState::Failed => "failed",
            CommandState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for CommandState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a command ended. `E` is what the executor says about a failure of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum End<E> {
    /// It was executed.
    Completed,
    /// Executing it failed.
    Failed(E),
    /// Someone cancelled it, or the queue was closed.
    Cancelled,
    /// It had not started by its deadline.
    DeadlineExceeded,
    /// Its lane was full, and a newer command took its place.
    Dropped,
    /// The device was suspended.
    Suspended,
    /// A command whose result it was to read did not complete.
    DependencyFailed {
        /// The first command that did not complete.
        root: CommandId,
        /// Why not.
        cause: Arc<End<E>>,
    },
}

impl<E> End<E> {
    /// The state that a command ends in.
    pub fn state(&self) -> CommandState {
        match self {
            End::Completed => CommandState::Completed,
            End::Cancelled => CommandState::Cancelled,
            _ => CommandState::Failed,
        }
    }
}

pub(crate) type Callback<E> = Box<dyn FnOnce(&End<E>) + Send>;

struct Waiters<E> {
    /// The thread that submitted it is to execute it now.
    granted: bool,
    /// Threads that sleep until something changes.
    sleepers: usize,
    /// One for each handle that is awaited; handles that are dropped leave their places to others.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    callbacks: Vec<Callback<E>>,
}

/// What a command's waiters share with the queue.
pub(crate) struct Cell<E> {
    pub(crate) id: CommandId,
    /// Whether someone else than the thread that runs it has its id.
    pub(crate) is_known: bool,
    state: AtomicU8,
    /// Nanoseconds on the queue's clock: when it was submitted, when it started, when it ended.
    times: [AtomicU64; 3],
    end: OnceLock<End<E>>,
    waiters: Mutex<Waiters<E>>,
    changed: Condvar,
}

impl<E> Cell<E> {
    pub(crate) fn new(id: CommandId, is_known: bool, now: Time) -> Cell<E> {
        Cell {
            id,
            is_known,
            state: AtomicU8::new(CommandState::Pending as u8),
            times: [now; 3].map(|now| AtomicU64::new(now.as_nanos())),
            end: OnceLock::new(),
            waiters: Mutex::new(Waiters {
                granted: false,
                sleepers: 0,
                wakers: Vec::new(),
                free: Vec::new(),
                callbacks: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn started(&self, now: Time) {
        if self.state() == CommandState::Running {
            return;
        }
        self.times[1].store(now.as_nanos(), Ordering::Relaxed);
        self.state.store(CommandState::Running as u8, Ordering::Relaxed);
    }

    /// Lets the thread that submitted the command execute it.
    pub(crate) fn grant(&self) {
        let mut waiters = lock(&self.waiters);
        waiters.granted = true;
        if waiters.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn is_granted(&self) -> bool {
        lock(&self.waiters).granted
    }

    /// Ends the command and wakes the threads that wait. Code of others is not called: tasks to wake and callbacks are given
    /// back. Called once.
    pub(crate) fn finish(&self, end: End<E>, now: Time) -> (Vec<Waker>, Vec<Callback<E>>) {
        let state = end.state();
        if self.state() == CommandState::Pending {
            self.times[1].store(now.as_nanos(), Ordering::Relaxed);
        }
        self.times[2].store(now.as_nanos(), Ordering::Relaxed);
        let _ = self.end.set(end);
        let mut waiters = lock(&self.waiters);
        // Under the lock, so that nobody registers after this and is forgotten.
        self.state.store(state as u8, Ordering::Release);
        if waiters.sleepers > 0 {
            self.changed.notify_all();
        }
        let wakers = std::mem::take(&mut waiters.wakers).into_iter().flatten().collect();
        (wakers, std::mem::take(&mut waiters.callbacks))
    }

    /// Keeps a callback for the end, or gives it back if the command has ended.
    pub(crate) fn keep(&self, callback: Callback<E>) -> Option<Callback<E>> {
        let mut waiters = lock(&self.waiters);
        if self.state().is_final() {
            return Some(callback);
        }
        waiters.callbacks.push(callback);
        None
    }

    /// Sleeps until the command ended or was granted, or until time is up.
    pub(crate) fn sleep(&self, limit: Option<Duration>) {
        // A limit beyond the end of time is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut waiters = lock(&self.waiters);
        waiters.sleepers += 1;
        while !waiters.granted && !self.state().is_final() {
            waiters = match until {
                None => self.changed.wait(waiters).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.changed.wait_timeout(waiters, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        waiters.sleepers -= 1;
    }

    pub(crate) fn state(&self) -> CommandState {
        CommandState::ALL[self.state.load(Ordering::Acquire) as usize]
    }

    pub(crate) fn end(&self) -> Option<&End<E>> {
        if self.state().is_final() { self.end.get() } else { None }
    }
}

/// A command, to whoever waits for it. Clones are of the same command.
pub struct Ticket<E>(pub(crate) Arc<Cell<E>>);

impl<E> Clone for Ticket<E> {
    fn clone(&self) -> Ticket<E> {
        Ticket(self.0.clone())
    }
}

impl<E> Ticket<E> {
    /// Which command it is.
    pub fn id(&self) -> CommandId {
        self.0.id
    }

    /// Where it is in its life: one atomic load.
    pub fn state(&self) -> CommandState {
        self.0.state()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&End<E>> {
        self.0.end()
    }

    /// When it was submitted, when it started, and when it ended, on the queue's clock. Only once it ended are all three
    /// known; one that never started started when it ended.
    pub fn times(&self) -> [Time; 3] {
        [0, 1, 2].map(|which| Time(Duration::from_nanos(self.0.times[which].load(Ordering::Relaxed))))
    }

    /// Wakes `waker` when the command ends. Gives the end if it has ended. `slot` is the waiter's own memory of where it
    /// registered before, so that waiting again takes no more room.
    pub fn register(&self, waker: &Waker, slot: &mut Option<usize>) -> Option<&End<E>> {
        // Wakers are cloned and dropped under no lock: they may be the last of something that waits here too.
        let waker = waker.clone();
        let mut waiters = lock(&self.0.waiters);
        if let Some(end) = self.0.end() {
            return Some(end);
        }
        let place = *slot.get_or_insert_with(|| match waiters.free.pop() {
            Some(place) => place,
            None => {
                waiters.wakers.push(None);
                waiters.wakers.len() - 1
            }
        });
        let before = waiters.wakers.get_mut(place).and_then(|registered| registered.replace(waker));
        drop(waiters);
        drop(before);
        None
    }

    /// Forgets the waker that was registered at `slot`.
    pub fn unregister(&self, slot: usize) {
        let mut waiters = lock(&self.0.waiters);
        if let Some(registered) = waiters.wakers.get_mut(slot) {
            let waker = registered.take();
            waiters.free.push(slot);
            drop(waiters);
            // Not under the lock: it may be the last of something.
            drop(waker);
        }
    }
}
