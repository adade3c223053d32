//! A real server on a port of its own, and clients that know nothing of it but the protocol.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

mod back;
mod calls;
mod client;
mod drain;
mod grpc;
mod hostile;
mod http;
mod limits;
mod openapi;
mod running;
mod tls;
#[cfg(feature = "otel")]
mod traces;
