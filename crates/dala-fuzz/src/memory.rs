//! How much memory an input takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that a process gets: one that asks for more aborts, before the machine suffers.
const MOST: usize = 3 << 30;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes in use, and remembers the most there were. A program makes it its global allocator.
pub struct Counting;

fn take(size: usize) -> bool {
    let used = USED.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    PEAK.fetch_max(used, Ordering::Relaxed);
    let fits = used <= MOST;
    if !fits {
        give(size);
    }
    fits
}

fn give(size: usize) {
    USED.fetch_sub(size, Ordering::Relaxed);
}

// SAFETY: every call goes on to the system's allocator as it came, or is refused as the rules allow; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the rules of `alloc_zeroed`. Pages that are never touched cost nothing, but count.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller keeps the rules of `dealloc`, and `pointer` came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What `work` gives, and the most bytes it held at any time. Zero if the program does not count.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = USED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}
