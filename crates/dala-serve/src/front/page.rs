//! The page for people, and the description for programs.

use hyper::Response;
use hyper::header::{self, HeaderName, HeaderValue};

use super::reply::Reply;

/// What every address takes and gives.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// What is served, how to call it, how busy it is. It needs nothing from elsewhere, and is told by its headers to load nothing.
const PAGE: &str = include_str!("page.html");

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn response() -> Response<Reply> {
    let mut response = Response::new(Reply::one(PAGE));
    let mut set = |name: HeaderName, value| drop(response.headers_mut().insert(name, HeaderValue::from_static(value)));
    set(header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-cache");
    response
}
