//! Requests of both protocols, from their heads to their answers. Connections are the business of [`net`](crate::net).

mod body;
mod frames;
pub(crate) mod grpc;
mod grpc_infer;
mod heads;
pub(crate) mod held;
pub(crate) mod http;
pub(crate) mod metrics;
mod page;
pub(crate) mod pulse;
pub(crate) mod rate;
mod reply;
mod routes;
pub(crate) mod shared;
mod span;
mod status;
pub(crate) mod tokens;
mod trailers;
