//! Threads that help with large launches, and sleep in between.
//!
//! A launch is a number of units that may run side by side. The thread that asks for it takes units until none are left, and
//! so does every helper that comes in time: a helper that the system lets wait takes nothing, and nobody waits for it. Whoever
//! waits spins for some microseconds, because the other is then mostly about to finish, and sleeps after that. Nobody
//! yields: on a busy machine that gives a whole time slice away.
//!
//! What two threads both write travels between their caches, and that is most of what sharing costs. So there is one word to
//! take units from and one to count them down, and nothing else is written while a launch runs.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};

/// How often a helper looks for the next launch before it sleeps: about 20 µs.
const HELPER_SPINS: u32 = 500;
/// How often a caller looks whether its helpers are done before it sleeps: about 40 µs.
const CALLER_SPINS: u32 = 1000;
/// Code that was built for wide machines keeps much on the stack.
const STACK: usize = 16 * 1024 * 1024;
/// More units than this in a launch are not shared: numbers of them are parts of one word.
pub(super) const MAX_UNITS: u32 = u16::MAX as u32 / 4;

/// Work in units that may run side by side.
pub(super) trait Units: Send + Sync {
    /// Does one of them. Does not panic.
    fn run_unit(&self, unit: u32);
}

/// What helpers are to do now. It is one launch's at a time.
#[derive(Default)]
#[repr(align(128))]
struct Board {
    /// What of the launch was taken: [`Taken`].
    taken: Line<AtomicU64>,
    /// How many are not done.
    left: Line<AtomicU64>,
    launch: Line<Launch>,
    /// Who waits for the last unit, asleep.
    sleeper: Mutex<Option<Thread>>,
}

/// On a line of the cache by itself.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

/// A reference to a launch's work, and how to do one of its units.
#[derive(Default)]
struct Launch {
    work: AtomicPtr<()>,
    run: AtomicPtr<()>,
}

type Run = unsafe fn(*const (), u32);

/// # Safety
/// The pointer is one to a `W` that lives.
unsafe fn run_unit_of<W: Units>(work: *const (), unit: u32) {
    // SAFETY: as the caller promises.
    unsafe { &*work.cast::<W>() }.run_unit(unit);
}

/// How many units a launch has, and how many were taken at each end. The caller takes them from the first on, helpers from the
/// last: so each finds in its cache what it wrote when it did the launch before.
#[derive(Clone, Copy)]
struct Taken {
    units: u16,
    first: u16,
    last: u16,
}

const AT_FIRST: u64 = 1;
const AT_LAST: u64 = 1 << 16;

impl Taken {
    fn unpack(word: u64) -> Taken {
        Taken { first: word as u16, last: (word >> 16) as u16, units: (word >> 32) as u16 }
    }

    fn none_of(units: u32) -> u64 {
        u64::from(units) << 32
    }

    fn are_left(self) -> bool {
        self.first + self.last < self.units
    }
}

impl Board {
    fn has_work(&self, order: Ordering) -> bool {
        Taken::unpack(self.taken.0.load(order)).are_left()
    }

    /// Does units until none are left, from one end.
    fn help(&self, end: u64) {
        // Looking before taking bounds how far the counts run over: by one for each thread.
        while self.has_work(Ordering::Relaxed) {
            let taken = Taken::unpack(self.taken.0.fetch_add(end, Ordering::AcqRel));
            if !taken.are_left() {
                return;
            }
            let unit = if end == AT_FIRST { taken.first } else { taken.units - 1 - taken.last };
            let work = self.launch.0.work.load(Ordering::Relaxed);
            let run = self.launch.0.run.load(Ordering::Relaxed);
            // SAFETY: `share` wrote both before it offered the unit that was taken here. It returns when all units are done,
            // so the work lives, and both are still those of this unit's launch, whichever that is.
            unsafe { std::mem::transmute::<*mut (), Run>(run)(work, unit.into()) };
            if self.left.0.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(sleeper) = lock(&self.sleeper).take()
            {
                sleeper.unpark();
            }
        }
    }

    /// A helper's life.
    fn serve(&self, asleep: &AtomicBool, spins: u32) {
        loop {
            let mut left = spins;
            while !self.has_work(Ordering::Acquire) {
                if left > 0 {
                    left -= 1;
                    spin_loop();
                    continue;
                }
                asleep.store(true, Ordering::SeqCst);
                while !self.has_work(Ordering::SeqCst) {
                    thread::park();
                }
                asleep.store(false, Ordering::SeqCst);
            }
            self.help(AT_LAST);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a panic under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Does all units, at most [`MAX_UNITS`], and returns when they are done.
    pub(super) fn share<W: Units>(&self, work: &W, units: u32) {
        debug_assert!(units <= MAX_UNITS);
        let board = &*self.own.board;
        let run: Run = run_unit_of::<W>;
        board.launch.0.work.store(ptr::from_ref(work).cast_mut().cast(), Ordering::Relaxed);
        board.launch.0.run.store(run as *mut (), Ordering::Relaxed);
        board.left.0.store(units.into(), Ordering::Relaxed);
        board.taken.0.store(Taken::none_of(units), Ordering::SeqCst);
        for helper in self.helpers.iter().take(self.wanted.min(units as usize - 1)) {
            if helper.asleep.load(Ordering::SeqCst) {
                helper.thread.unpark();
            }
        }
        board.help(AT_FIRST);
        let mut spins = if self.own.spins { CALLER_SPINS } else { 0 };
        while board.left.0.load(Ordering::Acquire) != 0 {
            if spins > 0 {
                spins -= 1;
                spin_loop();
                continue;
            }
            *lock(&board.sleeper) = Some(thread::current());
            // The last unit may have been done before anyone knew whom to wake.
            if board.left.0.load(Ordering::Acquire) != 0 {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
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

    fn counts(units: u32, each: Duration) -> Counts {
        Counts((0..units).map(|_| AtomicU32::new(0)).collect(), each)
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
                for count in &shared.0 {
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
        assert!(shared.0.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
