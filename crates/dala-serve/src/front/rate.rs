//! How often a caller may ask.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers that are remembered between two times of forgetting; beyond them none that is new may ask.
const REMEMBERED: usize = 65_536;

/// Lets each caller ask so often a second on average, and as many as a second's worth at once.
#[derive(Debug)]
pub(crate) struct Rate<Who> {
    per_second: f64,
    callers: Mutex<Callers<Who>>,
}

/// Who asked of late, and who asked before that. After a whole span without asking a caller may ask freely, as one who is not
/// known: so nobody has to be looked for who can be forgotten.
#[derive(Debug)]
struct Callers<Who> {
    since: Option<Instant>,
    now: HashMap<Who, Bucket>,
    before: HashMap<Who, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How many may be asked at once.
    left: f64,
    since: Instant,
}

impl<Who: Eq + Hash> Rate<Who> {
    pub(crate) fn new(per_second: f64) -> Rate<Who> {
        let callers = Callers { since: None, now: HashMap::new(), before: HashMap::new() };
        Rate { per_second: per_second.max(1e-6), callers: Mutex::new(callers) }
    }

    /// Counts a request; the error is when the next may come.
    pub(crate) fn take(&self, who: Who, now: Instant) -> Result<(), Duration> {
        let most = self.per_second.max(1.0);
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let callers = &mut *callers;
        let span = Duration::from_secs_f64(most / self.per_second);
        if now.saturating_duration_since(*callers.since.get_or_insert(now)) >= span {
            callers.before = std::mem::take(&mut callers.now);
            callers.since = Some(now);
        }
        let known = callers.now.get(&who).or_else(|| callers.before.get(&who)).copied();
        if known.is_none() && callers.now.len() >= REMEMBERED {
            return Err(span);
        }
        let bucket = known.unwrap_or(Bucket { left: most, since: now });
        let gained = now.saturating_duration_since(bucket.since).as_secs_f64() * self.per_second;
        let left = (bucket.left + gained).min(most);
        let is_allowed = left >= 1.0;
        callers.now.insert(who, Bucket { left: if is_allowed { left - 1.0 } else { left }, since: now });
        if is_allowed { Ok(()) } else { Err(Duration::from_secs_f64((1.0 - left) / self.per_second)) }
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
    fn callers_without_end_take_neither_memory_nor_time_without_end() {
        let rate = Rate::new(1.0);
        let start = Instant::now();
        let taken = (0..300_000).filter(|caller| rate.take(*caller, start).is_ok()).count();
        assert_eq!(taken, REMEMBERED);
        assert!(start.elapsed() < Duration::from_secs(20));
        let later = start + Duration::from_secs(2);
        assert_eq!(rate.take(300_001, later), Ok(()), "those who could ask freely are forgotten");
        assert!(rate.take(300_001, later).is_err());
        assert!(rate.take(0, later).is_ok(), "and may ask");
    }
}
