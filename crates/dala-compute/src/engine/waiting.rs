//! Waiting for the engine, but not for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a wait goes without an answer before it asks for one.
const ASK_AFTER: Duration = Duration::from_secs(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A future that was polled once, so that it has begun what it waits for.
pub(super) enum Started<'a, T> {
    Ready(T),
    Pending(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> Started<'a, T> {
    pub(super) fn new(mut future: Pin<Box<dyn Future<Output = T> + Send + 'a>>) -> Started<'a, T> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Started::Ready(value),
            Poll::Pending => Started::Pending(future),
        }
    }

    /// What it gives, or `None` if it is not ready within `limit`. Calls `ask` for every second that passes without an answer.
    pub(super) fn within(self, limit: Duration, ask: impl Fn()) -> Option<T> {
        let mut future = match self {
            Started::Ready(value) => return Some(value),
            Started::Pending(future) => future,
        };
        let end = Instant::now() + limit;
        let mut asked = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left.min(ASK_AFTER));
            if asked.elapsed() >= ASK_AFTER {
                ask();
                asked = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn waits_are_bounded() {
        assert_eq!(Started::new(Box::pin(std::future::ready(1))).within(Duration::from_secs(60), || ()), Some(1));
        let never = Started::new(Box::pin(std::future::pending::<()>()));
        assert_eq!(never.within(Duration::from_millis(5), || ()), None);
    }

    #[test]
    fn what_does_not_come_is_asked_for() {
        let asked = AtomicU32::new(0);
        let after_asking = std::future::poll_fn(|_| match asked.load(Ordering::Relaxed) {
            0 => Poll::Pending,
            times => Poll::Ready(times),
        });
        let ask = || {
            asked.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(Started::new(Box::pin(after_asking)).within(Duration::from_secs(60), ask), Some(1));
    }
}
