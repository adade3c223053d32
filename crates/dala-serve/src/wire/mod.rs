//! Bodies of both protocols: bytes to requests, answers to bytes. Nothing here waits, and nothing here knows a socket.

pub mod compression;
pub(crate) mod describe;
pub mod draft;
pub mod infer_json;
pub mod infer_proto;
mod json;
pub mod messages;
mod numbers;
