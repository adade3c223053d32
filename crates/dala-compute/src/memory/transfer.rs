//! Data on the host's side of a command.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes on their way to a device: of a vector, or of whatever else holds them. They are not copied before they are needed.
#[derive(Clone)]
pub struct HostData(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl HostData {
    /// The bytes of something that must give the same ones each time.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> HostData {
        HostData(Arc::new(bytes))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl AsRef<[u8]> for HostData {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl From<Vec<u8>> for HostData {
    fn from(bytes: Vec<u8>) -> HostData {
        HostData::new(bytes)
    }
}

impl From<&[u8]> for HostData {
    fn from(bytes: &[u8]) -> HostData {
        HostData::new(bytes.to_vec())
    }
}

impl From<Arc<[u8]>> for HostData {
    fn from(bytes: Arc<[u8]>) -> HostData {
        HostData::new(bytes)
    }
}

impl fmt::Debug for HostData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Where a command leaves what it read. Clones are of the same place.
///
/// ```
/// # use dala_compute::{Buffer, Device, Readback, Stage};
/// # fn main() -> Result<(), dala_compute::Error> {
/// # let device = Device::open("cpu")?;
/// let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2])?;
/// let data = Readback::new();
/// let stages = [Stage::run_kernel("relu", &[&x], &x, ()), Stage::read_buffer(&x, &data)];
/// device.submit(stages)?.wait(None)?;
/// assert_eq!(data.take(), Some([1.0f32, 0.0].map(f32::to_le_bytes).concat()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Readback(Arc<State>);

#[derive(Default)]
struct State {
    /// Where the memory comes from; fresh from the system if nobody says.
    memory: Option<fn(usize) -> Vec<u8>>,
    data: Mutex<Option<Vec<u8>>>,
}

impl Readback {
    /// An empty place.
    pub fn new() -> Readback {
        Readback::default()
    }

    /// A place whose memory comes from `memory`, which is asked for at least so many bytes when it is time to read, by the
    /// thread that does: memory fresh from the system is slow to fill for the first time.
    pub fn reusing(memory: fn(usize) -> Vec<u8>) -> Readback {
        Readback(Arc::new(State { memory: Some(memory), data: Mutex::default() }))
    }

    /// Takes the bytes, if a stage has read some and nobody took them yet.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.data().take()
    }

    /// So many bytes to read into.
    pub(crate) fn memory(&self, bytes: usize) -> Vec<u8> {
        let mut memory = self.0.memory.map_or_else(Vec::new, |memory| memory(bytes));
        if memory.capacity() < bytes {
            return vec![0; bytes];
        }
        memory.resize(bytes, 0);
        memory
    }

    pub(crate) fn put(&self, data: Vec<u8>) {
        *self.data() = Some(data);
    }

    fn data(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Readback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readback")
    }
}
