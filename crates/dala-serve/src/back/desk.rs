//! The desk: where requests wait for the device. What the batching core decides is carried out by threads.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dala_batch::{Batch, Batcher, End, Ended, Key, Limits, Load, Next, Outcome, Request, Sizes, Ticket, Time};
use tokio::sync::oneshot;

use super::work::{Failure, Ran, Served, Share};
use crate::{Refusal, Tensor, Terms, Times};

/// Requests, the rules by which they are run, and threads that run them.
pub(super) struct Desk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads and those who ask have in common.
pub(super) struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    start: Instant,
}

struct State {
    batcher: Batcher,
    jobs: HashMap<Ticket, Job>,
    /// Whether the threads end as soon as nothing is left.
    ends: bool,
    /// How long runs took in all.
    worked: Duration,
}

/// A request that was taken.
struct Job {
    served: Arc<dyn Served>,
    inputs: Arc<Vec<Tensor>>,
    /// Places of the outputs that are wanted.
    outputs: Vec<usize>,
    /// Whether it is with the device.
    runs: bool,
    answer: oneshot::Sender<Result<Done, Refusal>>,
}

/// A request that was run.
pub(super) struct Done {
    pub(super) outputs: Vec<Tensor>,
    pub(super) times: Times,
}

/// What a request asks of the desk.
pub(super) struct Asked {
    pub(super) key: Key,
    pub(super) served: Arc<dyn Served>,
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<usize>,
    pub(super) items: usize,
    pub(super) terms: Terms,
}

/// An answer that somebody waits for. Who lets go of it does not want it any more.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    ticket: Ticket,
    answer: oneshot::Receiver<Result<Done, Refusal>>,
    answered: bool,
}

impl Desk {
    /// A desk with as many threads as batches may be with the device, those that pass others included.
    pub(super) fn open(limits: Limits) -> std::io::Result<Desk> {
        let state = State { batcher: Batcher::new(limits), jobs: HashMap::new(), ends: false, worked: Duration::ZERO };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new(), start: Instant::now() });
        let desk = Desk { shared: shared.clone(), threads: Mutex::new(Vec::new()) };
        for number in 0..limits.slots.max(1) + u32::from(limits.overtakes) {
            let shared = shared.clone();
            let thread = thread::Builder::new().name(format!("dala-serve-{number}")).spawn(move || shared.work())?;
            desk.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(desk)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Takes a request, or says why not.
    pub(super) fn ask(&self, asked: Asked) -> Result<Waiting, Refusal> {
        let bytes = asked.inputs.iter().map(|input| input.data.len() as u64).sum();
        let request = Request {
            key: asked.key,
            lane: asked.terms.lane,
            caller: asked.terms.caller,
            deadline: asked.terms.deadline.map(|deadline| self.shared.time(deadline)),
            items: u32::try_from(asked.items).unwrap_or(u32::MAX),
            bytes,
        };
        let (sender, answer) = oneshot::channel();
        let job = Job {
            served: asked.served,
            inputs: Arc::new(asked.inputs),
            outputs: asked.outputs,
            runs: false,
            answer: sender,
        };
        let mut state = self.shared.lock();
        let ticket = match state.batcher.offer(self.shared.now(), request) {
            Ok(ticket) => ticket,
            Err(refused) => {
                // Nothing that was taken in is let go of under the lock.
                drop(state);
                return Err(refusal(&refused));
            }
        };
        state.jobs.insert(ticket, job);
        drop(state);
        self.shared.wake.notify_one();
        Ok(Waiting { shared: self.shared.clone(), ticket, answer, answered: false })
    }

    /// How busy it is.
    pub(super) fn load(&self) -> Load {
        self.shared.lock().batcher.load(self.shared.now())
    }

    /// Items of requests for something that wait, and those that are being run.
    pub(super) fn of(&self, served: &dyn Served) -> (usize, usize) {
        let state = self.shared.lock();
        let own = state.jobs.values().filter(|job| std::ptr::addr_eq(Arc::as_ptr(&job.served), served));
        let items = |job: &Job| served.items(&job.inputs);
        own.fold((0, 0), |(waits, runs), job| match job.runs {
            true => (waits, runs + items(job)),
            false => (waits + items(job), runs),
        })
    }

    /// How long a request of this key and lane would wait.
    pub(super) fn expected_wait(&self, key: Key, lane: dala_batch::Lane) -> Duration {
        self.shared.lock().batcher.expected_wait(self.shared.now(), key, lane)
    }

    /// How long runs took since the desk was opened.
    pub(super) fn worked(&self) -> Duration {
        self.shared.lock().worked
    }

    /// Takes nothing new.
    pub(super) fn drain(&self) {
        self.shared.lock().batcher.drain(self.shared.now());
        self.shared.wake.notify_all();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.batcher.drain(self.shared.now());
        state.ends = true;
        drop(state);
        self.shared.wake.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // What a thread of the desk runs is guarded: there is no panic to hand on.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Runs are guarded, and what is done under the lock does not panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed())
    }

    fn time(&self, at: Instant) -> Time {
        Time(at.saturating_duration_since(self.start))
    }

    /// A key for requests that may share runs of these sizes.
    pub(super) fn key(&self, sizes: impl Into<Sizes>) -> Key {
        self.lock().batcher.key(sizes)
    }

    /// How long a run of a size is known to take.
    pub(super) fn assume(&self, key: Key, size: u32, takes: Duration) {
        self.lock().batcher.assume(key, size, takes);
    }

    /// Nothing more will be asked by these keys.
    pub(super) fn forget(&self, keys: &[Key]) {
        let mut state = self.lock();
        for key in keys {
            state.batcher.forget(self.now(), *key);
        }
        let ended = state.settle(Vec::new(), None);
        drop(state);
        ended.into_iter().for_each(Settled::tell);
    }

    /// A thread of the desk, until it ends.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            let next = state.batcher.next(self.now());
            // What expired while it waited is told before anything is run.
            let ended = state.settle(Vec::new(), None);
            if !ended.is_empty() {
                drop(state);
                ended.into_iter().for_each(Settled::tell);
                state = self.lock();
            }
            state = match next {
                Next::Run(batch) => self.run(state, &batch),
                Next::WaitUntil(time) => {
                    let span = time.since(self.now());
                    self.wake
                        .wait_timeout(state, span)
                        .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
                }
                Next::Idle if state.ends && state.batcher.is_empty() => return,
                Next::Idle => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn run<'s>(&'s self, mut state: MutexGuard<'s, State>, batch: &Batch) -> MutexGuard<'s, State> {
        let jobs = batch.tickets.iter().filter_map(|ticket| state.jobs.get(ticket));
        let shares: Vec<Share> =
            jobs.map(|job| Share { inputs: job.inputs.clone(), outputs: job.outputs.clone() }).collect();
        for ticket in &batch.tickets {
            state.jobs.entry(*ticket).and_modify(|job| job.runs = true);
        }
        let served = batch.tickets.first().and_then(|ticket| Some(state.jobs.get(ticket)?.served.clone()));
        // Another thread may have a slot that is free.
        self.wake.notify_one();
        drop(state);

        let begun = Instant::now();
        let ran = match served {
            Some(served) if shares.len() == batch.tickets.len() => {
                let run = || served.run(batch.size as usize, batch.lane, &shares);
                let caught = catch_unwind(AssertUnwindSafe(run));
                caught.unwrap_or_else(|_| Err(Failure::Refused(Refusal::Internal("a run panicked".to_owned()))))
            }
            _ => Err(Failure::Refused(Refusal::Internal("a request of a batch is not there".to_owned()))),
        };
        // Inputs of hundreds of megabytes are let go of before others wait for the lock.
        drop(shares);
        let took = begun.elapsed();

        let (outcome, refusal, Ran { outputs, .. }) = match ran {
            Ok(ran) => (Outcome::Done, None, ran),
            Err(Failure::Refused(refusal)) => (Outcome::Failed, Some(refusal), Ran::default()),
            Err(Failure::Lost) => (Outcome::Lost, None, Ran::default()),
        };
        let results = batch.tickets.iter().copied().zip(outputs).collect();
        let mut state = self.lock();
        state.worked += took;
        state.batcher.finished(self.now(), batch.id, outcome);
        for ticket in &batch.tickets {
            state.jobs.entry(*ticket).and_modify(|job| job.runs = false);
        }
        let ended = state.settle(results, Some(&Run { took, items: batch.items as usize, refusal }));
        drop(state);
        ended.into_iter().for_each(Settled::tell);
        self.lock()
    }
}

/// What became of a run, for those that were part of it.
struct Run {
    took: Duration,
    items: usize,
    /// Why it failed.
    refusal: Option<Refusal>,
}

impl State {
    /// Takes those requests out that ended, with what they are told.
    fn settle(&mut self, results: Vec<(Ticket, Vec<Tensor>)>, run: Option<&Run>) -> Vec<Settled> {
        let ended = self.batcher.take_ended();
        if ended.is_empty() {
            return Vec::new();
        }
        let mut results: HashMap<Ticket, Vec<Tensor>> = results.into_iter().collect();
        let settled = |ended: Ended| {
            let job = self.jobs.remove(&ended.ticket)?;
            let told = match (ended.end, run) {
                (End::Done, Some(run)) => {
                    let times = Times { queued: ended.waited, ran: run.took, batch: run.items };
                    match results.remove(&ended.ticket) {
                        Some(outputs) => Ok(Done { outputs, times }),
                        None => Err(Refusal::Internal("a run gave no result for a request".to_owned())),
                    }
                }
                (End::Failed, Some(Run { refusal: Some(refusal), .. })) => Err(refusal.clone()),
                (End::Done | End::Failed, _) => Err(Refusal::Internal("a request ended without a run".to_owned())),
                (End::Lost, _) => Err(Refusal::DeviceLost),
                (End::Expired, _) => Err(Refusal::Expired),
                // Nobody hears it.
                (End::Left, _) => Err(Refusal::Expired),
                (End::Unloaded, _) => {
                    let reason = "it was unloaded".to_owned();
                    Err(Refusal::NotReady { model: job.served.name().to_owned(), reason })
                }
            };
            Some(Settled { job, told, ended })
        };
        ended.into_iter().filter_map(settled).collect()
    }
}

/// A request that ended, and what is told to whoever asked.
struct Settled {
    job: Job,
    told: Result<Done, Refusal>,
    ended: Ended,
}

impl Settled {
    fn tell(self) {
        self.job.served.note(&self.ended);
        // Who is gone is not told.
        let _ = self.job.answer.send(self.told);
    }
}

/// What a refusal of the rules is for clients.
fn refusal(refused: &dala_batch::Refused) -> Refusal {
    use dala_batch::Refusal as Why;
    match refused.why {
        Why::Full { .. } => Refusal::Full { retry_after: refused.retry_after },
        Why::TooLate { expected_wait } => Refusal::TooLate { expected_wait },
        Why::TooLarge { .. } | Why::Empty => Refusal::BadInput(refused.to_string()),
        Why::Draining => Refusal::Draining,
        Why::UnknownKey => Refusal::Internal("the queue does not know the model".to_owned()),
    }
}

impl Future for Waiting {
    type Output = Result<Done, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| {
            self.answered = true;
            answer.unwrap_or_else(|_| Err(Refusal::Internal("a request was let go of".to_owned())))
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut state = self.shared.lock();
        state.batcher.gone(self.shared.now(), self.ticket);
        let ended = state.settle(Vec::new(), None);
        drop(state);
        ended.into_iter().for_each(Settled::tell);
    }
}
