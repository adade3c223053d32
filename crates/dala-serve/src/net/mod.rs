//! Sockets: connections as they come and go, their limits, and the end of a server.

mod agent;
mod connections;
mod listener;
mod server;
mod tls;
mod watched;

pub use server::{BindError, Ended, Server, Stopper};
