//! Typed, shaped memory on a device.

use std::fmt;
use std::sync::Arc;

use dala_spec::{DType, Data, Element, Shape, TensorType};

use crate::command::Job;
use crate::core::Core;
use crate::device::Device;
use crate::error::Error;
use crate::memory::{Allocation, BufferId, Held, Slot};

/// Typed, shaped memory on a device. Clones share the memory; it is given back when the last clone is dropped, or at
/// once by [`free`](Buffer::free).
#[derive(Clone)]
pub struct Buffer {
    core: Arc<Core>,
    held: Arc<Held>,
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
            let core = &buffer.core;
            let mut job = Job::default();
            core.prepare_zeros(&mut job, &buffer)?;
            core.run(job)?;
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
    /// device.submit(Stage::write_buffer(&buffer, vec![1, 2, 3]))?;
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
        let core = device.core().clone();
        let memory = core.allocate(size_bytes(&ty)?)?;
        let held = Held::new(ty, memory, &core.buffers);
        Ok(Buffer { core, held })
    }

    /// Which buffer this is.
    pub fn id(&self) -> BufferId {
        self.held.slot.id()
    }

    /// The device that it is on.
    pub fn device(&self) -> Device {
        Device::from_core(self.core.clone())
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.held.ty.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.held.ty.dtype
    }

    /// The size of the elements in bytes.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.dtype().size()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.held.ty.shape.len()
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
        let mut data = Data::zeros(self.dtype(), self.len());
        self.read_data_into(&mut data)?;
        Ok(data)
    }

    /// Reads the elements into `into`: memory that is used again need not come from the system.
    ///
    /// # Errors
    ///
    /// As [`read_bytes`](Buffer::read_bytes); also if `into` has another type or length.
    pub fn read_data_into(&self, into: &mut Data) -> Result<(), Error> {
        match into.dtype() == self.dtype() {
            true => self.read_bytes_into(into.bytes_mut()),
            false => Err(Error::ElementMismatch { expected: self.dtype(), actual: into.dtype() }),
        }
    }

    fn read_bytes_into(&self, into: &mut [u8]) -> Result<(), Error> {
        self.check_size(into.len())?;
        let memory = self.memory()?;
        let core = &self.core;
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
        let core = &self.core;
        let write = || if bytes.is_empty() { Ok(()) } else { core.pool.upload(&memory, bytes) };
        core.access(&[], &[self.slot()], write)
    }

    /// Copies the bytes of this buffer to another of the same size on the same device, whatever their types.
    ///
    /// # Errors
    ///
    /// The sizes or devices differ, one was freed, this one was never written, or the device fails.
    pub fn copy_to(&self, to: &Buffer) -> Result<(), Error> {
        let core = &self.core;
        let mut job = Job::default();
        core.prepare_copy(&mut job, self, to)?;
        core.run(job)
    }

    /// Gives the memory back at once; work that still uses it ends first. Every other use of the buffer, by any clone,
    /// is an error from now on. Freeing twice is harmless.
    pub fn free(&self) {
        self.held.slot.free();
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
        if Arc::ptr_eq(core, &self.core) {
            return Ok(());
        }
        let name = |core: &Core| format!("{} device {}", core.info.backend, core.id);
        Err(Error::ForeignBuffer { buffer: self.id(), ours: name(core), theirs: name(&self.core) })
    }

    pub(crate) fn ty(&self) -> &TensorType {
        &self.held.ty
    }

    /// What commands hold of it.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.held.slot
    }

    /// The memory, whatever is in it.
    pub(crate) fn memory(&self) -> Result<Arc<Allocation>, Error> {
        self.held.slot.memory()
    }
}

impl Device {
    /// A buffer of this device by its id, as long as somebody holds it.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn buffer(&self, id: BufferId) -> Result<Buffer, Error> {
        let core = self.core().clone();
        Ok(Buffer { held: core.buffers.find(id)?, core })
    }
}

fn size_bytes(ty: &TensorType) -> Result<usize, Error> {
    let bytes = ty.shape.checked_len().and_then(|len| len.checked_mul(ty.dtype.size()));
    bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or(Error::ShapeTooLarge { shape: ty.shape.to_string() })
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {} {}", self.id(), self.held.ty)
    }
}
