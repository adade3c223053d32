//! How busy a batcher is.

use std::time::Duration;

/// How busy a batcher is, as a router reads it: of two, the one with the shorter expected wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that wait.
    pub queued: u32,
    /// Their items.
    pub queued_items: u32,
    /// Batches that run.
    pub running: u32,
    /// Items of their requests.
    pub running_items: u32,
    /// Bytes of all requests that have not ended.
    pub bytes: u64,
    /// When what waits now in a lane and above it will have been run, in the order of [`Lane::ALL`](crate::Lane::ALL).
    pub expected_wait: [Duration; 3],
    /// Items that there is room for in each lane, whoever sends them.
    pub room: [u32; 3],
    /// Whether nothing new is taken.
    pub draining: bool,
}
