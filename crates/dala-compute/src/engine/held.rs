//! The engine's own thread of a device, taken over for good.
//!
//! Kernels can be described to the engine, and memory taken from it, only on that thread. Between tasks the engine's loop
//! spins, yields, and then looks around every 150 µs: on a busy machine each yield costs a whole time slice, and an idle device
//! uses processor time. Here the thread runs one task that never ends, ours, which sleeps until somebody has work for it.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread, ThreadId};

use cubecl::client::Client;

use super::error::EngineError;
use super::guard::caught;

type Task = Box<dyn FnOnce() + Send>;

/// How often a caller looks whether its task is done before it sleeps: some 10 µs.
const CALLER_SPINS: u32 = 250;
/// How often the thread looks for the next task before it sleeps: some 40 µs.
const THREAD_SPINS: u32 = 1000;

/// A device's thread. For devices that nobody but us uses: tasks of others would never run.
///
/// Waits are short: a caller and the thread look for each other for some microseconds before they sleep.
pub(super) struct HeldThread(Arc<Shared>);

struct Shared {
    tasks: Mutex<VecDeque<(Task, Arc<Answer>)>>,
    work: Condvar,
    /// How many tasks wait.
    waiting: AtomicUsize,
    id: ThreadId,
    spins: bool,
}

/// Tells a caller that its task is done.
struct Answer {
    done: AtomicBool,
    caller: Thread,
}

impl HeldThread {
    /// Takes the thread of the client's device.
    pub(super) fn take(client: &Client) -> Result<HeldThread, EngineError> {
        let id = super::guard::guarded(|| client.exclusive(|| thread::current().id()))?;
        // On a single core, whoever spins keeps the other from finishing.
        let spins = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let (tasks, work, waiting) = (Mutex::default(), Condvar::new(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { tasks, work, waiting, id, spins });
        let (client, own) = (client.clone(), shared.clone());
        // It waits for a task that never ends, and so does nothing more.
        let keeper = thread::Builder::new().name("dala device".to_owned()).stack_size(128 * 1024);
        keeper
            .spawn(move || drop(client.exclusive(move || own.serve())))
            .map_err(|error| EngineError::internal(format!("no thread for a device: {error}")))?;
        Ok(HeldThread(shared))
    }

    /// Does something on the thread, and waits for it. A panic comes back as an error.
    pub(super) fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, EngineError> {
        if thread::current().id() == self.0.id {
            return caught(task);
        }
        let mut result = None;
        let into = &mut result;
        let task: Box<dyn FnOnce() + Send + '_> = Box::new(move || *into = Some(caught(task)));
        // SAFETY: the task is run and gone before this function returns; what it borrows lives longer than that.
        let task: Task = unsafe { std::mem::transmute(task) };
        let answer = Arc::new(Answer { done: AtomicBool::new(false), caller: thread::current() });
        self.0.waiting.fetch_add(1, Ordering::Release);
        self.0.tasks().push_back((task, answer.clone()));
        self.0.work.notify_one();
        let mut spins = if self.0.spins { CALLER_SPINS } else { 0 };
        while !answer.done.load(Ordering::Acquire) {
            if spins > 0 {
                spins -= 1;
                spin_loop();
            } else {
                thread::park();
            }
        }
        result.unwrap_or_else(|| Err(EngineError::internal("a task of the device's thread was lost")))
    }
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, VecDeque<(Task, Arc<Answer>)>> {
        // Nothing is left half-done by a panic under this lock.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        loop {
            let (task, answer) = self.next();
            // It catches what it may panic with.
            task();
            answer.done.store(true, Ordering::Release);
            answer.caller.unpark();
            let mut spins = if self.spins { THREAD_SPINS } else { 0 };
            while spins > 0 && self.waiting.load(Ordering::Acquire) == 0 {
                spins -= 1;
                spin_loop();
            }
        }
    }

    fn next(&self) -> (Task, Arc<Answer>) {
        let mut tasks = self.tasks();
        loop {
            if let Some(next) = tasks.pop_front() {
                self.waiting.fetch_sub(1, Ordering::Release);
                return next;
            }
            tasks = self.work.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::super::{AdapterId, Backend, open_adapter};

    #[test]
    fn tasks_run_on_one_thread_and_panics_come_back() {
        let adapter = open_adapter(AdapterId { backend: Backend::Cpu, number: 0 }).unwrap();
        let thread = adapter.thread.as_ref().unwrap();
        let id = thread.run(|| std::thread::current().id()).unwrap();
        assert_ne!(id, std::thread::current().id());
        let error = thread.run(|| panic!("on purpose")).unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        let inner = thread.run(|| thread.run(|| std::thread::current().id()).unwrap()).unwrap();
        assert_eq!(inner, id, "a task may ask for another");
        let mut counts = [0; 8];
        std::thread::scope(|scope| {
            for count in &mut counts {
                scope.spawn(|| (0..200).for_each(|_| thread.run(|| *count += 1).unwrap()));
            }
        });
        assert_eq!(counts, [200; 8]);
    }
}
