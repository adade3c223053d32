//! Data on its way between the VM and a device.

use dala_compute::HostData;
use rustler::{Binary, OwnedEnv, Term};

/// Smaller binaries are copied: holding one costs more.
const WORTH_HOLDING: usize = 16 * 1024;

/// A binary of the VM's, kept alive by an environment of its own. It is read where it lies.
struct Held {
    address: *const u8,
    len: usize,
    _env: OwnedEnv,
}

// SAFETY: binaries of the VM are never changed, and the environment keeps this one alive.
unsafe impl Send for Held {}
// SAFETY: as above; the environment itself is not used again.
unsafe impl Sync for Held {}

impl AsRef<[u8]> for Held {
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
    place.map(|(address, len)| HostData::new(Held { address, len, _env: env }))
}

/// What was read from a device, until the last binary that shows it is gone.
pub(crate) struct Block(pub(crate) Vec<u8>);
