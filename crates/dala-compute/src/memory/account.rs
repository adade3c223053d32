//! Who uses how much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::engine::EngineError;

/// The memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// The most that buffers may use.
    pub budget: u64,
    /// What buffers use now.
    pub live: u64,
    /// The most they ever used at once.
    pub peak: u64,
    /// What is held for later buffers; [`Device::trim`](crate::Device::trim) gives it back.
    pub cached: u64,
}

/// Counts live bytes against a budget, and against that of its parent: devices share their adapter's memory.
#[derive(Debug)]
pub(crate) struct Account {
    budget: AtomicU64,
    live: AtomicU64,
    peak: AtomicU64,
    parent: Option<Arc<Account>>,
}

impl Account {
    pub(crate) fn new(budget: u64, parent: Option<Arc<Account>>) -> Arc<Account> {
        let (live, peak) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Account { budget: AtomicU64::new(budget), live, peak, parent })
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Account>, bytes: u64) -> Result<Reservation, EngineError> {
        let parent = self.parent.as_ref().map(|parent| parent.reserve(bytes)).transpose()?;
        let budget = self.budget();
        let grow = |live: u64| live.checked_add(bytes).filter(|sum| *sum <= budget);
        match self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(Reservation { account: self.clone(), bytes, _parent: parent.map(Box::new) })
            }
            Err(live) => Err(EngineError::OutOfMemory { wanted: bytes, budget, live }),
        }
    }
}

/// Bytes that are in use.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
    _parent: Option<Box<Reservation>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The memory of the machine, or of the container that this process is in, where the system says so.
pub(crate) fn system_memory() -> Option<u64> {
    let what = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(what);
    let allowed = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    Some(system.total_memory().min(allowed)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_bound_the_sum() {
        let account = Account::new(100, None);
        let first = account.reserve(60).unwrap();
        let error = account.reserve(50).unwrap_err();
        assert_eq!(error, EngineError::OutOfMemory { wanted: 50, budget: 100, live: 60 });
        drop(first);
        assert_eq!((account.live(), account.peak()), (0, 60));
        assert!(account.reserve(u64::MAX).is_err());
        account.reserve(100).unwrap();
    }

    #[test]
    fn devices_share_their_adapter() {
        let adapter = Account::new(100, None);
        let (a, b) = (Account::new(100, Some(adapter.clone())), Account::new(100, Some(adapter.clone())));
        let held = a.reserve(70).unwrap();
        assert!(b.reserve(40).is_err());
        assert_eq!(b.live(), 0);
        drop(held);
        assert_eq!(adapter.live(), 0);
        b.reserve(40).unwrap();
    }
}
