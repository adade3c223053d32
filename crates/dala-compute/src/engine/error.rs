//! What can go wrong on a device, as values.

use cubecl::server::{IoError, LaunchError, ResourceLimitError, ServerError};
use dala_kernels::launch::LaunchRefused;
use dala_plan::Task;

/// A failure of the engine or the device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A kernel could not be built for the device.
    #[error("the kernel does not compile on this device: {message}")]
    CompileFailed {
        /// What the compiler said.
        message: String,
    },
    /// A kernel that was added to the device does not launch: a fault of whoever wrote it.
    #[error("kernel `{kernel}` failed: {message}")]
    KernelFailed {
        /// The kernel.
        kernel: String,
        /// What it said.
        message: String,
    },
    /// A launch asks for more than the device has.
    #[error("the launch is over a limit of the device: {what}")]
    LimitExceeded {
        /// The limit, what was asked for, and what there is.
        what: String,
    },
    /// A single buffer is larger than the device allows.
    #[error("a buffer of {bytes} bytes is too large: this device allows {max} bytes in one buffer")]
    BufferTooLarge {
        /// The size asked for.
        bytes: u64,
        /// The largest size.
        max: u64,
    },
    /// There is not enough memory left.
    #[error("out of memory: {wanted} bytes wanted, {live} of {budget} bytes are in use")]
    OutOfMemory {
        /// The size asked for.
        wanted: u64,
        /// The most that may be used.
        budget: u64,
        /// What is used now.
        live: u64,
    },
    /// The device is gone, with what was in its buffers. [`Device::open`](crate::Device::open) gives a new one.
    #[error("the device was lost: {message}")]
    DeviceLost {
        /// What the driver said.
        message: String,
    },
    /// The device did not answer in time.
    #[error("the device did not answer within {seconds} seconds")]
    Timeout {
        /// How long was waited.
        seconds: u64,
    },
    /// A rule inside this library or its engine was broken: please report it.
    #[error("internal error: {message}")]
    Internal {
        /// What happened.
        message: String,
    },
}

impl EngineError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            EngineError::CompileFailed { .. } => "compile_failed",
            EngineError::KernelFailed { .. } => "kernel_failed",
            EngineError::LimitExceeded { .. } => "limit_exceeded",
            EngineError::BufferTooLarge { .. } => "buffer_too_large",
            EngineError::OutOfMemory { .. } => "out_of_memory",
            EngineError::DeviceLost { .. } => "device_lost",
            EngineError::Timeout { .. } => "timeout",
            EngineError::Internal { .. } => "internal",
        }
    }

    pub(crate) fn internal(message: impl Into<String>) -> EngineError {
        EngineError::Internal { message: message.into() }
    }

    /// A launch that was refused: our fault, or that of whoever wrote its function.
    pub(super) fn refused(task: &Task, refused: LaunchRefused) -> EngineError {
        match task {
            Task::Opaque(own) => EngineError::KernelFailed { kernel: own.name.to_string(), message: refused.0 },
            _ => EngineError::internal(refused.0),
        }
    }
}

/// The failure at the bottom: later ones say only that an input was never written.
fn root(error: &ServerError) -> &ServerError {
    match error {
        ServerError::Several { errors, .. } if !errors.is_empty() => root(&errors[0]),
        ServerError::Unwritten { root: inner, .. } => root(inner),
        other => other,
    }
}

/// The engine's messages carry backtraces after their first lines; callers get the words.
fn words(message: String) -> String {
    let end = message.find("\nBacktrace:").unwrap_or(message.len());
    message[..end].trim().to_owned()
}

impl From<ServerError> for EngineError {
    fn from(error: ServerError) -> EngineError {
        if error.is_device_poisoned() {
            return EngineError::DeviceLost { message: words(error.to_string()) };
        }
        match root(&error) {
            ServerError::Launch(LaunchError::CompilationError(error)) => {
                EngineError::CompileFailed { message: words(error.to_string()) }
            }
            ServerError::Launch(LaunchError::TooManyResources(limit)) => EngineError::LimitExceeded {
                what: match limit {
                    ResourceLimitError::CubeDim { requested, max, .. } => {
                        format!("a cube of {requested:?} units, and the limit is {max:?}")
                    }
                    ResourceLimitError::Units { requested, max, .. } => {
                        format!("{requested} units in a cube, and the limit is {max}")
                    }
                    ResourceLimitError::SharedMemory { requested, max, .. } => {
                        format!("{requested} bytes of shared memory, and the limit is {max}")
                    }
                },
            },
            ServerError::Io(IoError::BufferTooBig { size, .. }) => EngineError::BufferTooLarge { bytes: *size, max: 0 },
            ServerError::Io(IoError::OutOfMemory { size, .. }) => {
                EngineError::OutOfMemory { wanted: *size, budget: 0, live: 0 }
            }
            other => EngineError::internal(words(other.to_string())),
        }
    }
}
