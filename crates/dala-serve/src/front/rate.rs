//! How often a caller may ask.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers that are remembered; beyond it those are forgotten who could ask freely anyway.
const REMEMBERED: usize = 65_536;

/// Lets each caller ask so often a second on average, and as many as a second's worth at once.
#[derive(Debug)]
pub(crate) struct Rate<Who> {
    per_second: f64,
    callers: Mutex<HashMap<Who, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How many may be asked at once.
    left: f64,
    since: Instant,
}

impl<Who: Eq + Hash> Rate<Who> {
    pub(crate) fn new(per_second: f64) -> Rate<Who> {
        Rate { per_second, callers: Mutex::default() }
    }

    /// Counts a request; the error is when the next may come.
    pub(crate) fn take(&self, who: Who, now: Instant) -> Result<(), Duration> {
        let most = self.per_second.max(1.0);
        let refilled = |bucket: Bucket| {
            let gained = now.saturating_duration_since(bucket.since).as_secs_f64() * self.per_second;
            (bucket.left + gained).min(most)
        };
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= REMEMBERED && !callers.contains_key(&who) {
            callers.retain(|_, bucket| refilled(*bucket) < most);
            if callers.len() >= REMEMBERED {
                return Err(Duration::from_secs(1));
            }
        }
        let bucket = callers.entry(who).or_insert(Bucket { left: most, since: now });
        let left = refilled(*bucket);
        let allowed = left >= 1.0;
        *bucket = Bucket { left: if allowed { left - 1.0 } else { left }, since: now };
        if allowed { Ok(()) } else { Err(Duration::from_secs_f64(((1.0 - left) / self.per_second).min(3600.0))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many() {
        let rate = Rate::new(4.0);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for _ in 0..4 {
            assert_eq!(rate.take("a", at(0)), Ok(()));
        }
        assert_eq!(rate.take("a", at(0)), Err(Duration::from_millis(250)));
        assert_eq!(rate.take("b", at(0)), Ok(()), "others have their own");
        assert_eq!(rate.take("a", at(200)), Err(Duration::from_millis(50)));
        assert_eq!(rate.take("a", at(250)), Ok(()));
        assert!(rate.take("a", at(250)).is_err());
        let taken = (0..10).filter(|_| rate.take("a", at(60_000)).is_ok()).count();
        assert_eq!(taken, 4, "nothing is saved up beyond a second");
    }

    #[test]
    fn callers_without_end_take_no_memory_without_end() {
        let rate = Rate::new(1.0);
        let start = Instant::now();
        for caller in 0..200_000 {
            let _answer = rate.take(caller, start);
        }
        assert!(rate.callers.lock().unwrap().len() <= REMEMBERED);
        assert_eq!(
            rate.take(200_001, start + Duration::from_secs(2)),
            Ok(()),
            "those who could ask freely are forgotten"
        );
    }
}
