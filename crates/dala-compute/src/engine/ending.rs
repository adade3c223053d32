//! The end of the process.
//!
//! `exit()` destroys the static objects of all libraries while every other thread goes on. One that is in a driver or a
//! compiler just then uses objects that are gone, and the process dies by a signal instead of ending with its code. Threads
//! cannot be stopped in there, those of the engine least of all. So calls are counted, from their beginning until the device
//! has answered for what they queued. When the process ends, no further call is let in. If some are under way, it leaves at
//! once, with its code and without destroying anything; if none is, it ends as it would without us.
//!
//! Waiting for calls instead would be worse. Exit handlers run in the opposite order of their registration, destructors among
//! them, and LLVM makes some objects when it first needs them: they are gone before a handler runs that was there earlier,
//! and a compiler that is given time will use them. For the same reason our handler must be the last that is registered. On
//! threads that are known to us it is registered when `exit()` begins ([`attend_exit`]); for others, such as the VM's that
//! looks after Ctrl-C, a thread registers it again and again while devices are new ([`stay_first`]).
//!
//! A handler that is told the code, `on_exit`, exists in glibc only. Elsewhere nothing is done: Windows ends threads first, and
//! other systems were not looked at.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::error::EngineError;

/// Calls that are under way.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The thread that registers the handler again and again while devices are new, and whether it does. It need not otherwise.
static WATCHER: Mutex<Option<Thread>> = Mutex::new(None);
static WATCHES: AtomicBool = AtomicBool::new(true);
/// How often the handler is registered at most: each time takes 32 bytes.
const REGISTRATIONS: usize = 16_384;
/// How long a device is new: after that, drivers and compilers have made what they need.
const NEW: Duration = Duration::from_secs(60);

/// A call into the engine, or what it left to the engine's threads.
pub(super) struct EngineCall(());

impl EngineCall {
    /// # Errors
    /// If the process is ending.
    pub(super) fn begin() -> Result<EngineCall, EngineError> {
        // In this order, which is the opposite of the handler's: one of the two sees the other.
        CALLS.fetch_add(1, Ordering::SeqCst);
        let call = EngineCall(());
        if !WATCHES.load(Ordering::SeqCst) && !WATCHES.swap(true, Ordering::SeqCst) {
            lock(&WATCHER).iter().for_each(Thread::unpark);
        }
        if ENDING.load(Ordering::SeqCst) {
            return Err(EngineError::DeviceLost { message: "the process is ending".to_owned() });
        }
        Ok(call)
    }
}

impl Drop for EngineCall {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::Release);
    }
}

/// Lets this thread end the process at any moment: `exit()` called here, or the end of `main`, does not make a compiler or a
/// driver crash that is busy on another thread. [`Device::open`](crate::Device::open) does this for its caller.
pub fn attend_exit() {
    struct Attending;
    impl Drop for Attending {
        fn drop(&mut self) {
            // Before it runs any handler, exit() destroys what is local to its thread.
            run_first();
        }
    }
    thread_local!(static ATTENDING: Attending = const { Attending });
    // A thread that is about to end has no need of it.
    let _ = ATTENDING.try_with(|_| ());
}

/// To be called before a driver is loaded or a device opened: whoever ends the process, our handler runs before others, or soon after.
pub(super) fn stay_first() {
    run_first();
    // When the newest device was opened, while a thread looks after it.
    static NEWEST: Mutex<Option<Instant>> = Mutex::new(None);
    let newest = || lock(&NEWEST);
    let age = move || {
        let mut newest = newest();
        // None are new any more, and the thread ends.
        newest.take_if(|since| since.elapsed() > NEW);
        newest.map(|since| since.elapsed())
    };
    let work = move || {
        while let Some(age) = age() {
            if CALLS.load(Ordering::Relaxed) > 0 {
                run_first();
                // Most is loaded and made in the beginning.
                thread::sleep((age / 64).max(Duration::from_micros(100)));
                continue;
            }
            // An idle device costs nothing: the next call wakes this thread.
            WATCHES.store(false, Ordering::SeqCst);
            if CALLS.load(Ordering::SeqCst) == 0 {
                thread::park_timeout(NEW);
            }
            WATCHES.store(true, Ordering::SeqCst);
        }
    };
    if newest().replace(Instant::now()).is_none() {
        // Without it, threads that are known to us are safe all the same.
        if let Ok(watcher) = thread::Builder::new().name("dala-ending".to_owned()).spawn(work) {
            *lock(&WATCHER) = Some(watcher.thread().clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets our handler run before those that were registered until now.
fn run_first() {
    static REGISTERED: AtomicUsize = AtomicUsize::new(0);
    if REGISTERED.fetch_add(1, Ordering::Relaxed) < REGISTRATIONS {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        glibc::register();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::atomic::Ordering;

    use super::{CALLS, ENDING};

    unsafe extern "C" {
        static stdout: *mut c_void;
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        fn ftrylockfile(file: *mut c_void) -> c_int;
        fn fflush_unlocked(file: *mut c_void) -> c_int;
        fn _exit(code: c_int) -> !;
    }

    pub(super) fn register() {
        // SAFETY: the handler takes no argument, and is there as long as this code is. It fails for want of memory only;
        // then the process ends as it would without us.
        unsafe { on_exit(ending, ptr::null_mut()) };
    }

    extern "C" fn ending(code: c_int, _argument: *mut c_void) {
        if ENDING.swap(true, Ordering::SeqCst) || CALLS.load(Ordering::SeqCst) == 0 {
            return;
        }
        // SAFETY: C's standard output is a valid stream, and is not touched if another thread has it.
        unsafe {
            // What exit() would have done at last, for a host that prints by C.
            if ftrylockfile(stdout) == 0 {
                fflush_unlocked(stdout);
            }
            _exit(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_until_they_are_dropped() {
        // Other tests' calls are counted too.
        let calls = [EngineCall::begin(), EngineCall::begin()];
        assert!(calls.iter().all(Result::is_ok));
        assert!(CALLS.load(Ordering::SeqCst) >= 2);
    }
}
