//! Callbacks, on a thread of their own: they may take their time and use the queue, and must not hold up the device.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use crate::sync::{Condvar, Mutex, lock, thread};

type Callback = Box<dyn FnOnce() + Send>;

/// Calls back in order. Dropping it lets the thread end, after what there is to call.
#[derive(Default)]
pub(crate) struct Callbacks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Callback>,
    started: bool,
    closed: bool,
}

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is a thread that calls back: one that must not wait for another callback.
pub fn in_callback() -> bool {
    CALLING.get()
}

impl Callbacks {
    /// Calls back soon, in the order of the calls, from the callbacks' thread. If the system gives none now, it may with the
    /// next call.
    pub(crate) fn call(&self, call: Callback) {
        let mut state = lock(&self.0.state);
        state.calls.push_back(call);
        if !state.started {
            let shared = self.0.clone();
            let thread = thread::Builder::new().name("dala-callbacks".to_owned()).spawn(move || serve(&shared));
            state.started = thread.is_ok();
        }
        self.0.changed.notify_one();
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let left = if state.started { VecDeque::new() } else { std::mem::take(&mut state.calls) };
        drop(state);
        self.0.changed.notify_one();
        // There never was a thread: better here than never.
        for call in left {
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    }
}

fn serve(shared: &Shared) {
    CALLING.set(true);
    loop {
        let mut state = lock(&shared.state);
        let call = loop {
            match state.calls.pop_front() {
                Some(call) => break call,
                None if state.closed => return,
                None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        // A callback that panics is its own affair, and must not keep others from being called.
        let _ = catch_unwind(AssertUnwindSafe(call));
    }
}
