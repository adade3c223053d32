//! What heads of both protocols say: texts, numbers, and when and how urgently an answer is wanted.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName};

use crate::{Lane, Refusal};

/// How long an answer is wanted, in milliseconds.
const TIMEOUT: HeaderName = HeaderName::from_static("dala-timeout-ms");
/// Which lane a request takes.
const LANE: HeaderName = HeaderName::from_static("dala-lane");
/// When to try again, in milliseconds.
pub(crate) const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// A header's text.
pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(&name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| Refusal::BadInput(format!("the header `{name}` is not text")))
}

/// A header's number.
pub(crate) fn number(headers: &HeaderMap, name: HeaderName) -> Result<Option<u64>, Refusal> {
    let Some(text) = text(headers, name.clone())? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Refusal::BadInput(format!("the header `{name}` is a whole number")))
}

/// When and how urgently an answer is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) lane: Option<Lane>,
    pub(crate) timeout: Option<Duration>,
}

impl Wishes {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Wishes, Refusal> {
        let lane = match text(headers, LANE)? {
            Some(name) => Some(Lane::by_name(name).ok_or_else(|| {
                let known = Lane::ALL.map(Lane::name).join(", ");
                Refusal::BadInput(format!("the lane `{name}` is none of {known}"))
            })?),
            None => None,
        };
        Ok(Wishes { lane, timeout: number(headers, TIMEOUT)?.map(Duration::from_millis) })
    }
}
