//! For tests: files that others wrote, and how much memory a call takes at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::{ImageError, Limits, Picture, decode};

/// The system's allocator, which remembers the largest piece that a thread asked for.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that ends has no memory of it any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call is passed on as it came, to an allocator that upholds the contract.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// What `work` gives, and the most bytes that it took in one piece.
pub(crate) fn largest_piece<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = work();
    (result, LARGEST.get())
}

/// Within the usual limits.
pub(crate) fn read(bytes: &[u8]) -> Result<Picture, ImageError> {
    decode(bytes, &Limits::default())
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Every picture in `tests/data`, by its name. `make.py` there made them.
        pub(crate) const FILES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../tests/data/", $name)))),*];
    };
}

files!(
    "bits.pbm",
    "big_endian.npy",
    "cmyk.jpg",
    "deflate.tiff",
    "floats.npy",
    "gray.jpg",
    "gray16.pgm",
    "gray16.png",
    "gray16.tiff",
    "levels.npy",
    "lzw.tiff",
    "palette.bmp",
    "palette.png",
    "progressive.jpg",
    "quarters.jpg",
    "quarters.webp",
    "rgb.bmp",
    "rgb.png",
    "rgb.ppm",
    "rgb.tiff",
    "rgb.webp",
    "rgb16.png",
    "rgba.png",
    "rgba.webp",
    "subsampled.jpg",
);

/// One of them.
pub(crate) fn file(name: &str) -> Vec<u8> {
    FILES.iter().find(|(own, _)| *own == name).unwrap().1.to_vec()
}
