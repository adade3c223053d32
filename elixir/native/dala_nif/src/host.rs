//! Data on its way between the VM and a device.

use std::sync::Mutex;

use dala_compute::{HostData, Readback};
use rustler::{Binary, OwnedEnv, Term};

use crate::lock::lock;
use crate::owners::later;

/// Smaller binaries are copied: holding one costs more.
const WORTH_HOLDING: usize = 16 * 1024;

/// A binary of the VM's, kept alive by an environment of its own. It is read where it lies.
struct HeldBinary {
    address: *const u8,
    len: usize,
    _env: OwnedEnv,
}

// SAFETY: binaries of the VM are never changed, and the environment keeps this one alive.
unsafe impl Send for HeldBinary {}
// SAFETY: as above; the environment itself is not used again.
unsafe impl Sync for HeldBinary {}

impl AsRef<[u8]> for HeldBinary {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the address and length of a binary that the environment keeps alive.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }
}

/// The bytes of a binary, for a command that may run after the caller is gone. Large ones are not copied.
pub(crate) fn host_data(term: Term) -> Option<HostData> {
    let bytes: Binary = term.decode().ok()?;
    if bytes.len() < WORTH_HOLDING {
        return Some(HostData::new(bytes.as_slice().to_vec()));
    }
    let env = OwnedEnv::new();
    let saved = env.save(term);
    // What was saved lies elsewhere if the VM had to copy it.
    let place = env.run(|env| {
        let bytes: Binary = saved.load(env).decode().ok()?;
        Some((bytes.as_slice().as_ptr(), bytes.len()))
    });
    place.map(|(address, len)| HostData::new(HeldBinary { address, len, _env: env }))
}

/// What was read from a device, until the last binary that shows it is gone.
pub(crate) struct Block(pub(crate) Vec<u8>);

impl Drop for Block {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

/// Memory that was read into, kept for the next read: memory that is fresh from the system is several times slower to fill.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// Smaller blocks come from the allocator's own reserves.
const WORTH_KEEPING: usize = 1024 * 1024;
/// The most that is kept, in bytes.
const MOST_KEPT: usize = 128 * 1024 * 1024;

/// A place to read into.
pub(crate) fn readback() -> Readback {
    Readback::reusing(memory)
}

/// Memory for so many bytes that was used before, if there is some.
fn memory(bytes: usize) -> Vec<u8> {
    let mut spare = lock(&SPARE);
    // One that is much larger would keep memory that nobody uses.
    let fits = |block: &Vec<u8>| (bytes..=2 * bytes).contains(&block.capacity());
    let place = spare.iter().rposition(fits);
    place.map_or_else(Vec::new, |place| spare.remove(place))
}

/// Keeps memory for the next read. What there is no room for goes, the oldest first.
fn give_back(block: Vec<u8>) {
    if block.capacity() < WORTH_KEEPING {
        return;
    }
    let mut gone = Vec::new();
    let mut spare = lock(&SPARE);
    if block.capacity() > MOST_KEPT {
        gone.push(block);
    } else {
        spare.push(block);
    }
    while spare.iter().map(Vec::capacity).sum::<usize>() > MOST_KEPT {
        gone.push(spare.remove(0));
    }
    drop(spare);
    if !gone.is_empty() {
        // Giving much memory back to the system takes milliseconds, which a scheduler does not have.
        later(move || drop(gone));
    }
}

/// Gives what is kept back to the system.
pub(crate) fn trim() {
    let gone = std::mem::take(&mut *lock(&SPARE));
    drop(gone);
}
