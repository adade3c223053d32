//! The error of every public call.

use std::sync::Arc;

use dala_spec::{DType, SpecError};

use crate::{BufferId, EngineError};

/// Why a call failed. Each case has a stable [`code`](Error::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call does not fit its kernel.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The engine or the device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No device has this name.
    #[error("there is no device called `{name}`: use auto, vulkan, gl, metal, cuda, rocm or cpu")]
    UnknownDevice {
        /// The name that was asked for.
        name: String,
    },
    /// The device exists in principle, but not here.
    #[error("the {name} device is not available: {reason}")]
    DeviceUnavailable {
        /// The device's name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The buffer was freed.
    #[error("buffer {buffer} was freed")]
    Freed {
        /// The buffer.
        buffer: BufferId,
    },
    /// The buffer belongs to another device.
    #[error("buffer {buffer} belongs to another device ({theirs}), and the call is on {ours}")]
    ForeignBuffer {
        /// The buffer.
        buffer: BufferId,
        /// The device of the call.
        ours: String,
        /// The device of the buffer.
        theirs: String,
    },
    /// The work that should have written the buffer failed.
    #[error("buffer {buffer} was never written: {cause}")]
    Poisoned {
        /// The buffer.
        buffer: BufferId,
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Data of the wrong length.
    #[error("{actual} bytes of data for a buffer of {expected} bytes")]
    SizeMismatch {
        /// Bytes in the buffer.
        expected: usize,
        /// Bytes of data.
        actual: usize,
    },
    /// Data of another element type.
    #[error("the buffer holds {expected}, and the data is {actual}")]
    ElementMismatch {
        /// The buffer's element type.
        expected: DType,
        /// The data's element type.
        actual: DType,
    },
    /// A shape whose size does not fit the address space.
    #[error("a buffer of shape {shape} is larger than any memory")]
    ShapeTooLarge {
        /// The shape.
        shape: String,
    },
}

impl Error {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Spec(error) => error.code(),
            Error::Engine(error) => error.code(),
            Error::UnknownDevice { .. } => "unknown_device",
            Error::DeviceUnavailable { .. } => "device_unavailable",
            Error::Freed { .. } => "freed",
            Error::ForeignBuffer { .. } => "foreign_buffer",
            Error::Poisoned { .. } => "poisoned",
            Error::SizeMismatch { .. } => "size_mismatch",
            Error::ElementMismatch { .. } => "dtype_mismatch",
            Error::ShapeTooLarge { .. } => "shape_too_large",
        }
    }
}
