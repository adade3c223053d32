//! The threads: hand passes to an executor, answer whoever waits.
//!
//! One thread at a time drives: it asks the scheduler what to do, does it without holding the lock, and tells the
//! scheduler how it went. On an idle device that is the thread that waits for a command, so that nothing is handed to another
//! thread and back. Otherwise it is the queue's own thread, which sleeps while there is nothing to do. Whoever stops driving
//! while there is work wakes it. Callbacks have a thread of their own: no code of users runs while this one drives.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::callbacks::Callbacks;
use crate::command::{Callback, Cell};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, thread};
use crate::{
    Clock, CommandId, End, Executor, Governor, Lane, Next, Pass, Power, QueueStats, Refusal, Schedulable, Scheduler,
    Submission, Thermal, Ticket, Time, Unfinished, WhenFull, WhileSuspended,
};

/// How many finished commands are remembered by id.
const REMEMBERED: usize = 65_536;

/// How long the queue's thread looks out for more before it sleeps, if commands came that quickly: to wake it would cost
/// whoever submits the next one several times what submitting costs.
const LOOK_OUT: Duration = if cfg!(feature = "shuttle") { Duration::ZERO } else { Duration::from_micros(20) };

/// How a queue is set up.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Commands that may wait in each lane.
    pub capacity: usize,
}

/// Queued work of one device. Dropping it ends what is pending and waits for what is in flight.
pub struct Queue<X: Executor>(Arc<Shared<X>>);

struct Shared<X: Executor> {
    executor: X,
    clock: Clock,
    callbacks: Callbacks,
    state: Mutex<State<X>>,
    /// How many commands were submitted, for whoever looks out for them without the lock.
    submitted: AtomicU64,
    /// The queue's thread sleeps here.
    work: Condvar,
    /// Threads that wait for room, or for the device to be idle, sleep here.
    settled: Condvar,
}

struct State<X: Executor> {
    scheduler: Scheduler<X::Job, X::Error>,
    /// Commands that have not ended, and the last ones that have.
    /// A tree: a hash table of so many would now and then move them all, while somebody submits who has no time for that.
    cells: BTreeMap<CommandId, Arc<Cell<X::Error>>>,
    finished: VecDeque<CommandId>,
    /// Some thread drives.
    driven: bool,
    /// Passes in flight, the oldest first.
    launched: VecDeque<InFlight<X>>,
    /// When the device was last done with a pass.
    settled_at: Time,
    /// When the last command was submitted, and how long after the one before it.
    submitted_at: Time,
    pace: Duration,
    thread: Option<thread::JoinHandle<()>>,
    asleep: bool,
    /// Threads that sleep on `settled`.
    watchers: usize,
    closed: bool,
}

/// A pass that was launched.
struct InFlight<X: Executor> {
    pass: Arc<Pass<X::Job>>,
    /// What launching it gave, or what it panicked with.
    launched: Result<X::Launched, X::Error>,
    started: Time,
}

type Guard<'a, X> = MutexGuard<'a, State<X>>;
type Accepted<'a, X> = (Guard<'a, X>, Arc<Cell<<X as Executor>::Error>>);

/// What is to be done after commands ended.
#[derive(Default)]
struct Notices {
    /// Whether any did.
    ended: bool,
    /// The tasks that wait for them: waking them calls code of others, so not under the lock.
    wakers: Vec<Waker>,
}

/// What a thread that waits for a command came to.
enum Turn {
    Ended,
    /// It is to execute the command itself, and drives.
    Granted,
}

impl<X: Executor> Queue<X> {
    /// A queue before an executor. Its thread is started when it is first needed.
    pub fn new(executor: X, options: QueueOptions) -> Queue<X> {
        let depth = executor.depth();
        Queue(Arc::new(Shared {
            executor,
            clock: Clock::start(),
            callbacks: Callbacks::default(),
            state: Mutex::new(State {
                scheduler: Scheduler::new(options.capacity, depth),
                cells: BTreeMap::new(),
                finished: VecDeque::with_capacity(REMEMBERED + 1),
                driven: false,
                launched: VecDeque::new(),
                settled_at: Time::default(),
                submitted_at: Time::default(),
                pace: Duration::MAX,
                thread: None,
                asleep: false,
                watchers: 0,
                closed: false,
            }),
            submitted: AtomicU64::new(0),
            work: Condvar::new(),
            settled: Condvar::new(),
        }))
    }

    /// The time now, on the queue's clock.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Queues a command; the queue's thread executes it.
    ///
    /// # Errors
    ///
    /// Why it was not accepted.
    pub fn submit(&self, work: X::Job, how: Submission) -> Result<Ticket<X::Error>, Refusal<X::Error>> {
        self.0.start(&mut lock(&self.0.state)).map_err(|error| Refusal::NoThread(error.to_string()))?;
        let (mut state, cell) = self.0.accept(work, how, true)?;
        let now = self.0.clock.now();
        state.pace = now.since(std::mem::replace(&mut state.submitted_at, now));
        self.0.submitted.fetch_add(1, Ordering::Release);
        self.0.leave(state);
        Ok(Ticket(cell))
    }

    /// Queues a command and waits for it. On an idle device this thread executes it.
    ///
    /// # Errors
    ///
    /// Why it was not accepted, or how it ended if it did not complete.
    pub fn run(&self, work: X::Job, how: Submission) -> Result<(), Unfinished<X::Error>> {
        let (state, cell) = self.0.accept(work, how, false)?;
        self.0.turn(state, &cell);
        match cell.end() {
            Some(End::Completed) => Ok(()),
            end => Err(Unfinished::Ended(cell.id, end.cloned().unwrap_or(End::Cancelled))),
        }
    }

    /// Queues a command that this thread executes when it is its turn, by calling `act`, while nothing else runs.
    ///
    /// # Errors
    ///
    /// Why it was not accepted, or how it ended if it did not complete.
    pub fn act<T>(
        &self,
        work: X::Job,
        how: Submission,
        act: impl FnOnce() -> Result<T, X::Error>,
    ) -> Result<T, Unfinished<X::Error>> {
        let (state, cell) = self.0.accept(work, how, false)?;
        let mut value = None;
        if let Turn::Granted = self.0.turn(state, &cell) {
            let started = self.0.clock.now();
            let result = catch_unwind(AssertUnwindSafe(act))
                .unwrap_or_else(|payload| Err(self.0.executor.panicked(panic_message(&*payload))));
            let state = lock(&self.0.state);
            let state = self.0.settle(state, vec![result.map(|result| value = Some(result))], started);
            self.0.leave(state);
        }
        match (cell.end(), value) {
            (Some(End::Completed), Some(value)) => Ok(value),
            (end, _) => Err(Unfinished::Ended(cell.id, end.cloned().unwrap_or(End::Cancelled))),
        }
    }

    /// Waits until a command ended, and says how; or `None` once `limit` has passed.
    pub fn wait(&self, ticket: &Ticket<X::Error>, limit: Option<Duration>) -> Option<End<X::Error>> {
        let cell = &ticket.0;
        if !cell.state().is_final() {
            match limit {
                // Executing work may take longer than the limit, so someone else must.
                Some(limit) => cell.sleep(Some(limit)),
                None => drop(self.0.turn(lock(&self.0.state), cell)),
            }
        }
        cell.end().cloned()
    }

    /// Calls back once, when a command ends, from a thread that does nothing else; soon, if it has ended. The callback may use
    /// the queue. Others wait for it.
    pub fn on_end(&self, ticket: &Ticket<X::Error>, callback: impl FnOnce(&End<X::Error>) + Send + 'static) {
        if let Some(callback) = ticket.0.keep(Box::new(callback)) {
            self.0.call_back(&ticket.0, callback);
        }
    }

    /// Cancels a command. Says whether it will not complete: one whose last stage is launched will, and one that has ended
    /// has ended.
    pub fn cancel(&self, id: CommandId) -> bool {
        self.0.change(|scheduler| scheduler.cancel(id))
    }

    /// A command by its id: one that has not ended, or one of the last 65,536 that have.
    pub fn find(&self, id: CommandId) -> Option<Ticket<X::Error>> {
        lock(&self.0.state).cells.get(&id).filter(|cell| cell.is_known).cloned().map(Ticket)
    }

    /// Nothing starts until [`resume`](Queue::resume). When this returns, nothing is in flight.
    pub fn suspend(&self, pending: WhileSuspended) {
        self.0.change(|scheduler| scheduler.suspend(pending));
        let mut state = lock(&self.0.state);
        // Called by what is in flight, it would wait for itself.
        while state.scheduler.is_in_flight() && state.governor().suspended.is_some() {
            state = self.0.watch(state, None);
        }
    }

    /// Work starts again.
    pub fn resume(&self) {
        self.0.change(Scheduler::resume);
    }

    /// Changes how much energy may be spent.
    pub fn set_power(&self, power: Power) {
        self.0.change(|scheduler| scheduler.set_power(power));
    }

    /// Changes how hot the device is.
    pub fn set_thermal(&self, thermal: Thermal) {
        self.0.change(|scheduler| scheduler.set_thermal(thermal));
    }

    /// The queue, now and so far.
    pub fn stats(&self) -> QueueStats {
        let state = lock(&self.0.state);
        QueueStats {
            totals: state.scheduler.totals(),
            lanes: Lane::ALL.map(|lane| state.scheduler.lane(lane)),
            governor: state.governor(),
        }
    }
}

impl<X: Executor> Drop for Queue<X> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        state.scheduler.close();
        let notices = self.0.collect(&mut state);
        let thread = state.thread.take();
        drop(state);
        self.0.work.notify_all();
        tell(notices);
        // The last handle may be dropped by a waker, on the thread itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl<X: Executor> State<X> {
    fn governor(&self) -> Governor {
        self.scheduler.governor()
    }
}

impl<X: Executor> Shared<X> {
    /// Puts a command into the queue. Only one that is known to someone is remembered after it ended.
    fn accept(
        self: &Arc<Self>,
        work: X::Job,
        how: Submission,
        is_known: bool,
    ) -> Result<Accepted<'_, X>, Refusal<X::Error>> {
        let now = self.clock.now();
        let deadline = how.start_within.map(|span| now + span);
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return Err(Refusal::Closed);
            }
            let suspended = state.governor().suspended;
            if suspended == Some(WhileSuspended::Fail) || (suspended.is_some() && how.refuse_if_suspended) {
                return Err(Refusal::Suspended);
            }
            // A caller that waits for its turn takes no room: there are no more of them than threads.
            if work.needs_caller() || !state.scheduler.is_full(how.lane) {
                break;
            }
            match how.when_full {
                WhenFull::Refuse => {
                    return Err(Refusal::Full { lane: how.lane, capacity: state.scheduler.capacity() });
                }
                WhenFull::DropOldest => {
                    state.scheduler.drop_oldest(how.lane);
                    state = self.publish(state);
                }
                WhenFull::Wait => {
                    let left = deadline.map(|deadline| deadline.since(self.clock.now()));
                    if left.is_some_and(|left| left.is_zero()) {
                        return Err(Refusal::DeadlineExceeded);
                    }
                    if !state.driven {
                        self.wake(&mut state);
                    }
                    state = self.watch(state, left);
                }
            }
        }
        for read in work.reads() {
            // Where a command before it will write, its end tells.
            if state.scheduler.source(*read).is_none() {
                self.executor.readable(&work, *read).map_err(Refusal::Unreadable)?;
            }
        }
        let id = next_id();
        let cell = Arc::new(Cell::new(id, is_known, now));
        state.cells.insert(id, cell.clone());
        state.scheduler.submit(id, Arc::new(work), how.lane, deadline);
        Ok((state, cell))
    }

    /// Waits for a command: drives while nobody else does, else sleeps.
    fn turn<'a>(self: &'a Arc<Self>, mut state: Guard<'a, X>, cell: &Cell<X::Error>) -> Turn {
        loop {
            if cell.state().is_final() {
                self.leave(state);
                return Turn::Ended;
            }
            if cell.is_granted() {
                return Turn::Granted;
            }
            if state.driven {
                state = self.sleep_until_changed(state, cell);
                continue;
            }
            let (guard, now) = self.expire(state);
            state = guard;
            let Some(now) = now else { continue };
            match state.scheduler.next(now) {
                Next::Run(pass) => state = self.launch(state, pass),
                Next::Finish => state = self.finish(state),
                Next::Caller(id) => {
                    let is_own = id == cell.id;
                    state = self.hand_over(state, id);
                    if is_own {
                        return Turn::Granted;
                    }
                }
                Next::Idle { .. } => {
                    // Nothing can start now. The queue's thread looks after what starts by itself, later.
                    self.wake(&mut state);
                    state = self.sleep_until_changed(state, cell);
                }
            }
        }
    }

    /// Sleeps while others drive.
    fn sleep_until_changed<'a>(self: &'a Arc<Self>, mut state: Guard<'a, X>, cell: &Cell<X::Error>) -> Guard<'a, X> {
        // Whoever drives leaves the rest to the queue's thread. If there cannot be one, this thread looks again itself.
        let limit = self.start(&mut state).err().map(|_| Duration::from_millis(1));
        drop(state);
        cell.sleep(limit);
        lock(&self.state)
    }

    /// One thing, on the queue's own thread.
    fn step<'a>(self: &'a Arc<Self>, state: Guard<'a, X>) -> Guard<'a, X> {
        let (mut state, now) = self.expire(state);
        let Some(now) = now else { return state };
        match state.scheduler.next(now) {
            Next::Run(pass) => self.launch(state, pass),
            Next::Finish => self.finish(state),
            Next::Caller(id) => self.hand_over(state, id),
            Next::Idle { .. } if state.pace < LOOK_OUT => self.look_out(state),
            Next::Idle { until } => self.sleep(state, until),
        }
    }

    /// Looks out for a command, once.
    fn look_out<'a>(&'a self, mut state: Guard<'a, X>) -> Guard<'a, X> {
        state.pace = Duration::MAX;
        let seen = self.submitted.load(Ordering::Acquire);
        drop(state);
        let end = self.clock.now() + LOOK_OUT;
        while self.submitted.load(Ordering::Acquire) == seen && self.clock.now() < end {
            std::hint::spin_loop();
        }
        lock(&self.state)
    }

    /// What the queue's thread does.
    fn serve(self: Arc<Self>) {
        let mut state = lock(&self.state);
        while !state.closed || state.driven || !state.launched.is_empty() {
            state = if state.driven { self.sleep(state, None) } else { self.step(state) };
        }
    }

    fn sleep<'a>(&'a self, mut state: Guard<'a, X>, until: Option<Time>) -> Guard<'a, X> {
        state.asleep = true;
        state = match until {
            None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.since(self.clock.now());
                self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.asleep = false;
        state
    }

    /// Starts the queue's thread, if it was not started.
    fn start(self: &Arc<Self>, state: &mut Guard<'_, X>) -> std::io::Result<()> {
        if state.thread.is_none() && !state.closed {
            let shared = self.clone();
            let thread = thread::Builder::new().name("dala-queue".to_owned()).spawn(move || shared.serve())?;
            state.thread = Some(thread);
        }
        Ok(())
    }

    /// Wakes the queue's thread, if it sleeps.
    fn wake(&self, state: &mut Guard<'_, X>) {
        if state.asleep {
            state.asleep = false;
            self.work.notify_one();
        }
    }

    /// Sleeps until something was settled.
    fn watch<'a>(&'a self, mut state: Guard<'a, X>, limit: Option<Duration>) -> Guard<'a, X> {
        state.watchers += 1;
        state = match limit {
            None => self.settled.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => self.settled.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0,
        };
        state.watchers -= 1;
        state
    }

    /// Ends the commands whose deadline passed. If there are any they are told before this thread drives, because what is woken
    /// by that may use the queue; and everything must be looked at again. Otherwise it gives the time.
    fn expire<'a>(&'a self, mut state: Guard<'a, X>) -> (Guard<'a, X>, Option<Time>) {
        let now = self.clock.now();
        state.scheduler.expire(now);
        let notices = self.collect(&mut state);
        if !notices.ended {
            return (state, Some(now));
        }
        drop(state);
        tell(notices);
        (lock(&self.state), None)
    }

    /// Launches a pass.
    fn launch<'a>(self: &'a Arc<Self>, mut state: Guard<'a, X>, pass: Arc<Pass<X::Job>>) -> Guard<'a, X> {
        state.driven = true;
        let started = self.clock.now();
        for piece in &pass.pieces {
            if let Some(cell) = state.cells.get(&piece.command) {
                cell.started(started);
            }
        }
        self.notify_watchers(&state);
        drop(state);
        let launched = catch_unwind(AssertUnwindSafe(|| self.executor.launch(&pass)))
            .map_err(|payload| self.executor.panicked(panic_message(&*payload)));
        let mut state = lock(&self.state);
        state.launched.push_back(InFlight { pass, launched, started });
        state.driven = false;
        state
    }

    /// Waits for the oldest pass in flight and tells whoever waits for its commands.
    fn finish<'a>(self: &'a Arc<Self>, mut state: Guard<'a, X>) -> Guard<'a, X> {
        let Some(InFlight { pass, launched, started }) = state.launched.pop_front() else { return state };
        state.driven = true;
        drop(state);
        let all = |error: X::Error| pass.pieces.iter().map(|_| Err(error.clone())).collect();
        let results = match launched {
            Ok(launched) => catch_unwind(AssertUnwindSafe(|| self.executor.finish(&pass, launched)))
                .unwrap_or_else(|payload| all(self.executor.panicked(panic_message(&*payload)))),
            Err(error) => all(error),
        };
        self.settle(lock(&self.state), results, started)
    }

    /// Makes the thread that submitted a command the one that drives.
    fn hand_over<'a>(&'a self, mut state: Guard<'a, X>, id: CommandId) -> Guard<'a, X> {
        state.driven = true;
        let cell = state.cells.get(&id).cloned();
        if let Some(cell) = &cell {
            cell.started(self.clock.now());
        }
        self.notify_watchers(&state);
        if let Some(cell) = cell {
            cell.grant();
        }
        state
    }

    /// The device is done with the oldest pass in flight.
    fn settle<'a>(
        &'a self,
        mut state: Guard<'a, X>,
        results: Vec<Result<(), X::Error>>,
        started: Time,
    ) -> Guard<'a, X> {
        let now = self.clock.now();
        // It was busy with the pass before it until that was settled.
        let busy = now.since(started.max(state.settled_at));
        state.settled_at = now;
        state.scheduler.settle(now, results, busy);
        state.driven = false;
        let notices = self.collect(&mut state);
        if notices.wakers.is_empty() {
            return state;
        }
        // Waking tasks may take a while.
        self.leave(state);
        tell(notices);
        lock(&self.state)
    }

    /// Leaves the queue to itself: if there is something to do and nobody drives, its thread does.
    fn leave(&self, mut state: Guard<'_, X>) {
        let wakes = !state.driven && state.scheduler.is_active() && std::mem::take(&mut state.asleep);
        // What wakes while this thread has the lock sleeps again.
        drop(state);
        if wakes {
            self.work.notify_one();
        }
    }

    /// Changes something about the queue; what ends by that is told.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Scheduler<X::Job, X::Error>) -> T) -> T {
        let mut state = lock(&self.state);
        let result = change(&mut state.scheduler);
        let state = self.publish(state);
        self.leave(state);
        result
    }

    /// Tells of the commands that ended, without holding the lock.
    fn publish<'a>(&'a self, mut state: Guard<'a, X>) -> Guard<'a, X> {
        let notices = self.collect(&mut state);
        if notices.wakers.is_empty() {
            return state;
        }
        drop(state);
        tell(notices);
        lock(&self.state)
    }

    /// There may be room in a lane, or nothing in flight.
    fn notify_watchers(&self, state: &Guard<'_, X>) {
        if state.watchers > 0 {
            self.settled.notify_all();
        }
    }

    fn call_back(&self, cell: &Arc<Cell<X::Error>>, callback: Callback<X::Error>) {
        let cell = cell.clone();
        self.callbacks.call(Box::new(move || {
            if let Some(end) = cell.end() {
                callback(end);
            }
        }));
    }

    /// Ends commands for whoever waits: threads are woken, and callbacks are queued in the order of the ends.
    fn collect(&self, state: &mut Guard<'_, X>) -> Notices {
        self.notify_watchers(state);
        let mut notices = Notices::default();
        let ended = state.scheduler.take_ended();
        if ended.is_empty() {
            return notices;
        }
        notices.ended = true;
        let now = self.clock.now();
        for ended in ended {
            self.executor.ended(ended.id, &ended.work, &ended.end);
            let Some(cell) = state.cells.get(&ended.id).cloned() else { continue };
            if cell.is_known {
                state.finished.push_back(ended.id);
            } else {
                state.cells.remove(&ended.id);
            }
            if state.finished.len() > REMEMBERED
                && let Some(forgotten) = state.finished.pop_front()
            {
                state.cells.remove(&forgotten);
            }
            let (wakers, callbacks) = cell.finish(ended.end, now);
            notices.wakers.extend(wakers);
            for callback in callbacks {
                self.call_back(&cell, callback);
            }
        }
        notices
    }
}

/// Wakes the tasks that wait for commands that ended.
fn tell(notices: Notices) {
    for waker in notices.wakers {
        // One that panics must not keep others from being answered.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// Ids rise in the order of submission, whatever the queue.
fn next_id() -> CommandId {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    CommandId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a panic said.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}

#[cfg(test)]
mod tests;
