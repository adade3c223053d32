//! An engine on host memory.
