//! What becomes of commands, as callers see it.

use std::sync::Arc;

use dala_schedule::{CommandId, End, Refusal, Unfinished};

use crate::engine::EngineError;
use crate::error::Error;

/// What an end means to a caller.
pub(crate) fn outcome(id: CommandId, end: &End<Arc<Error>>) -> Result<(), Error> {
    Err(match end {
        End::Completed => return Ok(()),
        End::Failed(error) => Error::clone(error),
        End::Cancelled => Error::Cancelled { command: id },
        End::DeadlineExceeded => Error::DeadlineExceeded { command: Some(id) },
        End::Dropped => Error::Dropped { command: id },
        End::Suspended => Error::Suspended,
        End::DependencyFailed { root, cause } => {
            let cause = outcome(*root, cause).err().unwrap_or(Error::Cancelled { command: *root });
            Error::DependencyFailed { command: *root, cause: Arc::new(cause) }
        }
    })
}

impl From<Refusal<Arc<Error>>> for Error {
    fn from(refusal: Refusal<Arc<Error>>) -> Error {
        match refusal {
            Refusal::Full { lane, capacity } => Error::Overloaded { lane, capacity },
            Refusal::DeadlineExceeded => Error::DeadlineExceeded { command: None },
            Refusal::Suspended => Error::Suspended,
            Refusal::Unreadable(error) => Error::clone(&error),
            Refusal::Closed => EngineError::internal("the device was dropped").into(),
            Refusal::NoThread(message) => EngineError::internal(format!("no thread: {message}")).into(),
        }
    }
}

impl From<Unfinished<Arc<Error>>> for Error {
    fn from(unfinished: Unfinished<Arc<Error>>) -> Error {
        match unfinished {
            Unfinished::Refused(refusal) => refusal.into(),
            Unfinished::Ended(command, end) => outcome(command, &end).err().unwrap_or(Error::Cancelled { command }),
        }
    }
}
