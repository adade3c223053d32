//! Typed, shaped memory on a device.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dala_schedule::{CommandId, ResourceId};
use dala_spec::{DType, Data, Element, Shape, TensorType};
use rustc_hash::FxHashMap;

use crate::device::Core;
use crate::job::Job;
use crate::pool::Allocation;
use crate::replay::{Binding, Users};
use crate::{Device, Error};

/// Which buffer: unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Typed, shaped memory on a device. Clones share the memory; it is given back when the last clone is dropped, or at
/// once by [`free`](Buffer::free).
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    device: Arc<Core>,
    ty: TensorType,
    slot: Arc<Slot>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.device.buffers.part(self.slot.id).remove(&self.slot.id);
    }
}

/// The buffers of a device that somebody holds, by id. In parts: a table that grows moves all it holds, which takes too long
/// for whoever makes a buffer just then.
#[derive(Default)]
pub(crate) struct Directory([Mutex<FxHashMap<BufferId, Weak<Inner>>>; 32]);

impl Directory {
    fn part(&self, id: BufferId) -> MutexGuard<'_, FxHashMap<BufferId, Weak<Inner>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0[id.0 as usize % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        (0..self.0.len() as u64).map(|part| self.part(BufferId(part)).len()).sum()
    }
}

/// What a buffer shares with the commands that use it. They do not keep its device alive.
pub(crate) struct Slot {
    id: BufferId,
    state: Mutex<State>,
}

struct State {
    memory: Option<Arc<Allocation>>,
    /// The last command that was to write it, of those that ended.
    writer: CommandId,
    /// Why the contents are not to be trusted.
    poison: Option<Arc<Error>>,
    /// Plans that hold the memory.
    users: Users,
}

impl Slot {
    pub(crate) fn resource(&self) -> ResourceId {
        ResourceId(self.id.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done by a panic under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a plan that is told when the buffer is freed.
    pub(crate) fn used_by(&self, plan: Weak<Binding>) {
        let users = &mut self.state().users;
        if users.len().is_power_of_two() {
            users.retain(|user| user.strong_count() > 0);
        }
        users.push(plan);
    }

    /// Whether anyone knows what is in it.
    pub(crate) fn check_readable(&self) -> Result<(), Error> {
        match &self.state().poison {
            Some(cause) => Err(Error::Poisoned { buffer: self.id, cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Records how a command that was to write it ended. One that came later may have ended before: then that counts.
    pub(crate) fn settle(&self, command: CommandId, result: &Result<(), Arc<Error>>) {
        let mut state = self.state();
        if command >= state.writer {
            state.writer = command;
            // The first cause, not the chain.
            state.poison = result.as_ref().err().map(|error| match &**error {
                Error::Poisoned { cause, .. } | Error::DependencyFailed { cause, .. } => cause.clone(),
                _ => error.clone(),
            });
        }
    }
}

impl Buffer {
    /// A buffer with the elements of `data`.
    ///
    /// # Errors
    ///
    /// `shape` has another number of elements, there is no memory, or the device fails.
    pub fn from_slice<T: Element>(device: &Device, data: &[T], shape: impl Into<Shape>) -> Result<Buffer, Error> {
        Buffer::from_bytes(device, bytemuck::cast_slice(data), T::DTYPE, shape)
    }

    /// A buffer with little-endian `bytes` as its elements.
    ///
    /// # Errors
    ///
    /// `shape` has another size, there is no memory, or the device fails.
    pub fn from_bytes(device: &Device, bytes: &[u8], dtype: DType, shape: impl Into<Shape>) -> Result<Buffer, Error> {
        let ty = TensorType::new(dtype, shape);
        let expected = size_bytes(&ty)?;
        if bytes.len() != expected {
            return Err(Error::SizeMismatch { expected, actual: bytes.len() });
        }
        let buffer = Buffer::of_type(device, ty)?;
        buffer.write_bytes(bytes)?;
        Ok(buffer)
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    ///
    /// There is no memory, or the device fails.
    pub fn zeros(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Buffer, Error> {
        let buffer = Buffer::of_type(device, TensorType::new(dtype, shape))?;
        if !buffer.is_empty() {
            let core = &buffer.0.device;
            let mut job = Job::default();
            core.prepare_zeros(&mut job, &buffer)?;
            core.run_job(job)?;
        }
        Ok(buffer)
    }

    /// A buffer that nothing was written to: reading it is an error until something is. Nothing waits for the device,
    /// whose memory is taken by the first command that writes it.
    ///
    /// ```
    /// # use dala_compute::{Buffer, DType, Device, Stage};
    /// # fn main() -> Result<(), dala_compute::Error> {
    /// # let device = Device::open("cpu")?;
    /// let buffer = Buffer::reserve(&device, DType::U8, [3])?;
    /// assert_eq!(buffer.read::<u8>().unwrap_err().code(), "poisoned");
    /// device.submit(Stage::write_buffer(&buffer, vec![1, 2, 3]), ())?;
    /// assert_eq!(buffer.read::<u8>()?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory, or the device takes no buffers of this size.
    pub fn reserve(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Buffer, Error> {
        Buffer::of_type(device, TensorType::new(dtype, shape))
    }

    fn of_type(device: &Device, ty: TensorType) -> Result<Buffer, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let core = device.core();
        let memory = Arc::new(core.allocate(size_bytes(&ty)?)?);
        let id = BufferId(NEXT.fetch_add(1, Ordering::Relaxed));
        // Nothing is nothing, whoever wrote it.
        let poison = (!ty.shape.is_empty()).then(|| Arc::new(Error::Unwritten { buffer: id }));
        let state = Mutex::new(State { memory: Some(memory), writer: CommandId(0), poison, users: Users::new() });
        let inner = Arc::new(Inner { device: core.clone(), ty, slot: Arc::new(Slot { id, state }) });
        core.buffers.part(id).insert(id, Arc::downgrade(&inner));
        Ok(Buffer(inner))
    }

    /// A buffer that somebody still holds.
    pub(crate) fn find(core: &Core, id: BufferId) -> Result<Buffer, Error> {
        let found = core.buffers.part(id).get(&id).and_then(Weak::upgrade);
        found.map(Buffer).ok_or(Error::UnknownBuffer { buffer: id })
    }

    /// Which buffer this is.
    pub fn id(&self) -> BufferId {
        self.0.slot.id
    }

    /// The device that it is on.
    pub fn device(&self) -> Device {
        Device::from_core(self.0.device.clone())
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.0.ty.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    /// The size of the elements in bytes.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.dtype().size()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.ty.shape.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    ///
    /// # Errors
    ///
    /// The elements are not of type `T`, the buffer was freed, or the work that should have written it failed.
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.read_into(&mut elements)?;
        Ok(elements)
    }

    /// Reads the elements into `into`: the fast way to read again and again.
    ///
    /// # Errors
    ///
    /// As [`read`](Buffer::read); also if `into` has another length.
    pub fn read_into<T: Element>(&self, into: &mut [T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        self.read_bytes_into(bytemuck::cast_slice_mut(into))
    }

    /// The elements as little-endian bytes.
    ///
    /// # Errors
    ///
    /// The buffer was freed, or the work that should have written it failed.
    pub fn read_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.size_bytes()];
        self.read_bytes_into(&mut bytes)?;
        Ok(bytes)
    }

    /// The elements with their type.
    ///
    /// # Errors
    ///
    /// As [`read_bytes`](Buffer::read_bytes).
    pub fn read_data(&self) -> Result<Data, Error> {
        Ok(Data::from_bytes(self.dtype(), &self.read_bytes()?))
    }

    fn read_bytes_into(&self, into: &mut [u8]) -> Result<(), Error> {
        self.check_size(into.len())?;
        let memory = self.memory()?;
        let core = &self.0.device;
        let read = || if into.is_empty() { Ok(()) } else { core.pool.download(&memory, into) };
        core.access(&[self.slot()], &[], read).map_err(|error| self.to_reader(error))
    }

    /// What those are told who read it: whether a failure came before or after they called is the same to them.
    pub(crate) fn to_reader(&self, error: Error) -> Error {
        match error {
            Error::DependencyFailed { cause, .. } => Error::Poisoned { buffer: self.id(), cause },
            other => other,
        }
    }

    /// Replaces the elements.
    ///
    /// # Errors
    ///
    /// `data` has another type or length, the buffer was freed, or the device fails.
    pub fn write<T: Element>(&self, data: &[T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        self.write_bytes(bytemuck::cast_slice(data))
    }

    /// Replaces the elements by little-endian `bytes`, after every command before it that uses the buffer.
    ///
    /// # Errors
    ///
    /// `bytes` has another size, the buffer was freed, or the device fails.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        self.check_size(bytes.len())?;
        let memory = self.memory()?;
        let core = &self.0.device;
        let write = || if bytes.is_empty() { Ok(()) } else { core.pool.upload(&memory, bytes) };
        core.access(&[], &[self.slot()], write)
    }

    /// Copies the bytes of this buffer to another of the same size on the same device, whatever their types.
    ///
    /// # Errors
    ///
    /// The sizes or devices differ, one was freed, this one was never written, or the device fails.
    pub fn copy_to(&self, to: &Buffer) -> Result<(), Error> {
        let core = &self.0.device;
        let mut job = Job::default();
        core.prepare_copy(&mut job, self, to)?;
        core.run_job(job)
    }

    /// Gives the memory back at once; work that still uses it ends first. Every other use of the buffer, by any clone,
    /// is an error from now on. Freeing twice is harmless.
    pub fn free(&self) {
        let (memory, users) = {
            let mut state = self.0.slot.state();
            (state.memory.take(), std::mem::take(&mut state.users))
        };
        // Not under the lock: giving memory back takes others.
        users.iter().filter_map(Weak::upgrade).for_each(|plan| plan.forget());
        drop(memory);
    }

    fn check_element<T: Element>(&self) -> Result<(), Error> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        Err(Error::ElementMismatch { expected: self.dtype(), actual: T::DTYPE })
    }

    pub(crate) fn check_size(&self, actual: usize) -> Result<(), Error> {
        let expected = self.size_bytes();
        if actual == expected { Ok(()) } else { Err(Error::SizeMismatch { expected, actual }) }
    }

    /// Whether it belongs to a device.
    ///
    /// # Errors
    ///
    /// It belongs to another.
    pub fn check_on(&self, device: &Device) -> Result<(), Error> {
        self.check_device(device.core())
    }

    pub(crate) fn check_device(&self, core: &Arc<Core>) -> Result<(), Error> {
        if Arc::ptr_eq(core, &self.0.device) {
            return Ok(());
        }
        let name = |core: &Core| format!("{} device {}", core.info.backend, core.id);
        Err(Error::ForeignBuffer { buffer: self.id(), ours: name(core), theirs: name(&self.0.device) })
    }

    pub(crate) fn ty(&self) -> &TensorType {
        &self.0.ty
    }

    /// What commands hold of it.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.0.slot
    }

    /// The memory, whatever is in it.
    pub(crate) fn memory(&self) -> Result<Arc<Allocation>, Error> {
        self.0.slot.state().memory.clone().ok_or(Error::Freed { buffer: self.id() })
    }
}

fn size_bytes(ty: &TensorType) -> Result<usize, Error> {
    let bytes = ty.shape.checked_len().and_then(|len| len.checked_mul(ty.dtype.size()));
    bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or(Error::ShapeTooLarge { shape: ty.shape.to_string() })
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {} {}", self.id(), self.0.ty)
    }
}
