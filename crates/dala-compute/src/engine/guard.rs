//! Calls into the engine: no panic leaves them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cubecl::server::ServerError;

use super::ending::EngineCall;
use super::error::EngineError;
use super::panics::Catching;

/// Runs a call into the engine: its errors become ours, and so do its panics.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, ServerError>) -> Result<T, EngineError> {
    caught(call)?.map_err(EngineError::from)
}

/// Runs a call that returns no error of its own, but may panic.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, EngineError> {
    let (_call, _catching) = (EngineCall::begin()?, Catching::begin());
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| EngineError::internal(panic_message(&*payload)))
}

pub(super) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    format!("the engine panicked: {}", text.unwrap_or("no message"))
}
