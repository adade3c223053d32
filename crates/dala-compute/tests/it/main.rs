//! The behaviour of `dala-compute`, on every device: one binary, because each that links the CPU runtime is large, and
//! one process, because each process builds every kernel again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "tests fail loudly and report what they ran"
)]

mod bits;
mod buffers;
mod commands;
mod conformance;
mod devices;
mod expressions;
mod face;
mod failures;
mod functions;
mod golden;
mod memory;
mod own_kernels;
mod paths;
mod pictures;
mod pipelines;
mod plans;
mod random_calls;
mod spans;
mod steadiness;
mod support;
mod table;
mod texts;
