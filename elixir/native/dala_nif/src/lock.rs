//! The one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. Nothing in this crate is left half-done by a panic under one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
