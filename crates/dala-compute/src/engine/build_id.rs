//! Where the engine asks for the identity of the program's build on 32-bit systems.
//!
//! It asks the crate `buildid`, which takes the headers of 32-bit programs for 64-bit ones and so does not compile there (1.1.0). With its
//! feature `buildid-custom-inject` it asks this function instead.

use std::ffi::c_int;

/// There is none: the engine uses it for files that we do not let it keep.
// SAFETY: the name is the one that `buildid` gives for this purpose, and nobody else in the program defines it.
#[unsafe(no_mangle)]
extern "C" fn build_id__get(_id: *mut *const u8, _bytes: *mut usize) -> c_int {
    0
}
