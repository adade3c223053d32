//! A device's memory: who may have how much of it, what is in it, and how data gets in and out.

mod account;
mod allocation;
mod id;
mod slot;
mod transfer;

pub use account::MemoryStats;
pub(crate) use account::{Account, system_memory};
pub(crate) use allocation::{Allocation, MemoryPool};
pub use id::BufferId;
pub(crate) use slot::{Directory, Held, Holder, Slot};
pub use transfer::{HostData, Readback};
