//! How a call of gRPC ended, in the headers or behind the body of its answer.

use hyper::Response;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::heads::RETRY_AFTER_MS;
use super::reply::Reply;
use crate::Refusal;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Clients with a policy for trying again wait for so long.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// The word of a refusal that stays the same.
const CODE: HeaderName = HeaderName::from_static("dala-code");

/// How a call ended: well, or by a refusal.
pub(crate) fn status(refusal: Option<&Refusal>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(1);
    let Some(refusal) = refusal else {
        headers.insert(STATUS, HeaderValue::from_static("0"));
        return headers;
    };
    let said = refusal.said();
    headers.insert(STATUS, said.grpc.into());
    headers.insert(CODE, HeaderValue::from_static(said.code));
    if let Ok(message) = HeaderValue::from_str(&percent(&refusal.to_string())) {
        headers.insert(MESSAGE, message);
    }
    if let Some(wait) = refusal.retry_after() {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        headers.insert(RETRY_AFTER_MS, millis.into());
        headers.insert(PUSHBACK, millis.into());
    }
    if matches!(refusal, Refusal::UnsupportedMedia(_)) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip,deflate"));
    }
    headers
}

/// An answer whose end is not known yet.
pub(crate) fn begun(reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// An answer, with the word behind it that all is well.
pub(crate) fn followed(reply: Reply) -> Response<Reply> {
    begun(reply.trailed_by(status(None)))
}

/// What a client is told whose call is not answered.
pub(crate) fn refused(refusal: &Refusal) -> Response<Reply> {
    let mut response = begun(Reply::default());
    response.headers_mut().extend(status(Some(refusal)));
    response
}

/// A message as gRPC has it in headers: what is not printable as `%41`.
fn percent(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_headers() {
        assert_eq!(percent("100 % of `é`\n"), "100 %25 of `%C3%A9`%0A");
    }
}
