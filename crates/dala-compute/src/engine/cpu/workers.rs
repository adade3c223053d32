//! Threads that help with large launches, and sleep in between.
//!
//! A launch is a number of units that may run side by side. The thread that asks for it takes units until none are left, and
//! so does every helper that comes in time: a helper that the system lets wait takes nothing, and nobody waits for it. Whoever
//! waits spins for some microseconds, because the other is then mostly about to finish, and sleeps after that. Nobody
//! yields: on a busy machine that gives a whole time slice away.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};

/// How often a helper looks for the next launch before it sleeps: about 20 µs.
const HELPER_SPINS: u32 = 500;
/// How often a caller looks whether its helpers are done before it sleeps: about 40 µs.
const CALLER_SPINS: u32 = 1000;
/// Code that was built for wide machines keeps much on the stack.
const STACK: usize = 16 * 1024 * 1024;

/// Work in units that may run side by side.
pub(super) trait Units: Send + Sync {
    /// Does one of them. Does not panic.
    fn run_unit(&self, unit: u32);
}

/// A launch that threads share: which unit is next, and how many are not done.
pub(super) struct Shared<W> {
    pub(super) work: W,
    next: AtomicU32,
    left: AtomicU32,
    /// Who waits for the last unit, asleep.
    sleeper: Mutex<Option<Thread>>,
}

impl<W> Shared<W> {
    pub(super) fn new(work: W) -> Shared<W> {
        Shared { work, next: AtomicU32::new(u32::MAX / 2), left: AtomicU32::new(0), sleeper: Mutex::default() }
    }
}

trait Helped: Send + Sync {
    /// Does units until none are left.
    fn help(&self, units: u32);
}

impl<W: Units> Helped for Shared<W> {
    fn help(&self, units: u32) {
        loop {
            // A helper that is late finds none, or those of the same launch made again: both are right.
            let unit = self.next.fetch_add(1, Ordering::AcqRel);
            if unit >= units {
                return;
            }
            self.work.run_unit(unit);
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(sleeper) = lock(&self.sleeper).take()
            {
                sleeper.unpark();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a panic under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What helpers are to do now.
#[derive(Default)]
struct Board {
    /// Changes with every launch.
    turn: AtomicU64,
    launch: Mutex<Option<(Arc<dyn Helped>, u32)>>,
}

struct Helper {
    thread: Thread,
    asleep: Arc<AtomicBool>,
}

/// The helpers of this process. All devices share them: a device that finds them busy does its work alone.
pub(super) struct Helpers {
    board: Arc<Board>,
    helpers: Mutex<Vec<Helper>>,
    spins: bool,
}

impl Helpers {
    pub(super) fn get() -> &'static Helpers {
        static HELPERS: OnceLock<Helpers> = OnceLock::new();
        HELPERS.get_or_init(|| Helpers {
            board: Arc::default(),
            helpers: Mutex::default(),
            // On a single core, whoever spins keeps the other from finishing.
            spins: thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
        })
    }

    /// The helpers, for one caller at a time: at least so many, if the system has threads left.
    pub(super) fn enlist(&'static self, wanted: usize) -> Option<Enlisted> {
        let mut helpers = match self.helpers.try_lock() {
            Ok(helpers) => helpers,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        while helpers.len() < wanted {
            let (board, asleep) = (self.board.clone(), Arc::<AtomicBool>::default());
            let (own, spins) = (asleep.clone(), if self.spins { HELPER_SPINS } else { 0 });
            let builder = thread::Builder::new().name(format!("dala cpu {}", helpers.len())).stack_size(STACK);
            match builder.spawn(move || board.serve(&own, spins)) {
                Ok(handle) => helpers.push(Helper { thread: handle.thread().clone(), asleep }),
                // The caller does it alone.
                Err(_) => break,
            }
        }
        Some(Enlisted { own: self, helpers, wanted })
    }
}

/// The helpers, while one caller has them.
pub(super) struct Enlisted {
    own: &'static Helpers,
    helpers: MutexGuard<'static, Vec<Helper>>,
    wanted: usize,
}

impl Enlisted {
    /// Whether they look out for work: then they need not be woken.
    pub(super) fn are_awake(&self) -> bool {
        self.helpers.iter().take(self.wanted).any(|helper| !helper.asleep.load(Ordering::Relaxed))
    }

    /// Does all units, and returns when they are done.
    pub(super) fn share<W: Units + 'static>(&self, shared: &Arc<Shared<W>>, units: u32) {
        shared.left.store(units, Ordering::Release);
        shared.next.store(0, Ordering::Release);
        *lock(&self.own.board.launch) = Some((shared.clone(), units));
        self.own.board.turn.fetch_add(1, Ordering::SeqCst);
        for helper in self.helpers.iter().take(self.wanted.min(units as usize - 1)) {
            if helper.asleep.load(Ordering::SeqCst) {
                helper.thread.unpark();
            }
        }
        shared.help(units);
        let mut spins = if self.own.spins { CALLER_SPINS } else { 0 };
        while shared.left.load(Ordering::Acquire) != 0 {
            if spins > 0 {
                spins -= 1;
                spin_loop();
                continue;
            }
            *lock(&shared.sleeper) = Some(thread::current());
            // The last unit may have been done before anyone knew whom to wake.
            if shared.left.load(Ordering::Acquire) != 0 {
                thread::park();
            }
        }
    }
}

impl Board {
    /// A helper's life.
    fn serve(&self, asleep: &AtomicBool, spins: u32) {
        let mut seen = 0;
        loop {
            let mut left = spins;
            while self.turn.load(Ordering::Acquire) == seen && left > 0 {
                left -= 1;
                spin_loop();
            }
            asleep.store(true, Ordering::SeqCst);
            while self.turn.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            asleep.store(false, Ordering::SeqCst);
            seen = self.turn.load(Ordering::Acquire);
            let launch = lock(&self.launch).clone();
            if let Some((launch, units)) = launch {
                launch.help(units);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    struct Counts(Vec<AtomicU32>, Duration);

    impl Units for Counts {
        fn run_unit(&self, unit: u32) {
            let end = Instant::now() + self.1;
            self.0[unit as usize].fetch_add(1, Ordering::Relaxed);
            while Instant::now() < end {
                spin_loop();
            }
        }
    }

    fn counts(units: u32, each: Duration) -> Arc<Shared<Counts>> {
        Arc::new(Shared::new(Counts((0..units).map(|_| AtomicU32::new(0)).collect(), each)))
    }

    /// The helpers are the process's, and other tests use them too.
    fn enlist(helpers: usize) -> Enlisted {
        loop {
            match Helpers::get().enlist(helpers) {
                Some(enlisted) => return enlisted,
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn every_unit_is_done_once_in_every_launch() {
        for (units, each) in [(2, Duration::ZERO), (3, Duration::from_micros(5)), (8, Duration::from_micros(1))] {
            let shared = counts(units, each);
            for launch in 1..=2000 {
                enlist(3).share(&shared, units);
                for count in &shared.work.0 {
                    assert_eq!(count.load(Ordering::Relaxed), launch, "{units} units");
                }
                if launch % 500 == 0 {
                    // Long enough for all to fall asleep.
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    #[test]
    fn helpers_are_one_callers_at_a_time() {
        let first = enlist(1);
        assert!(Helpers::get().enlist(1).is_none());
        drop(first);
        drop(enlist(1));
    }

    #[test]
    fn long_units_are_waited_for_asleep() {
        let shared = counts(2, Duration::from_millis(20));
        enlist(1).share(&shared, 2);
        assert!(shared.work.0.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
