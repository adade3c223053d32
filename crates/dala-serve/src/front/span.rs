//! A request as whoever watches the program sees it.

use hyper::HeaderMap;
use tracing::Span;
use tracing::field::Empty;

use crate::{Refusal, Times};

/// The span of a request, from its head to its answer.
pub(crate) fn begin(_headers: &HeaderMap) -> Span {
    let span =
        tracing::info_span!("infer", model = Empty, outcome = Empty, queue_us = Empty, run_us = Empty, batch = Empty);
    #[cfg(feature = "otel")]
    crate::traces::join(&span, _headers);
    span
}

/// What the request was for, and what it came to.
pub(crate) fn end(span: &Span, model: &str, outcome: Result<Times, &Refusal>) {
    if span.is_disabled() {
        return;
    }
    span.record("model", model);
    match outcome {
        Ok(times) => {
            span.record("outcome", "ok");
            span.record("queue_us", u64::try_from(times.queued.as_micros()).unwrap_or(u64::MAX));
            span.record("run_us", u64::try_from(times.ran.as_micros()).unwrap_or(u64::MAX));
            span.record("batch", times.batch);
        }
        Err(refusal) => {
            span.record("outcome", refusal.said().code);
        }
    }
}
