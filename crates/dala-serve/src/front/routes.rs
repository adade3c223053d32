//! Addresses of HTTP, and what they stand for.

use std::borrow::Cow;

use crate::Refusal;

/// What an address stands for. Names are those of clients: to be looked up, never made part of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Route<'a> {
    Page,
    OpenApi,
    Metrics,
    Status,
    Picture(Cow<'a, str>),
    Live,
    Ready,
    Server,
    Models,
    Index,
    Load(Cow<'a, str>),
    Unload(Cow<'a, str>),
    AllStatistics,
    Model {
        name: Cow<'a, str>,
        version: Option<Cow<'a, str>>,
        part: Part,
    },
    /// Part of the protocol as Triton speaks it, and not offered.
    NotOffered(&'static str),
}

/// What is wanted of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Metadata,
    Ready,
    Config,
    Statistics,
    Infer,
}

/// More segments than any address has.
const MOST: usize = 8;

impl<'a> Route<'a> {
    /// What stands at a path.
    pub(crate) fn parse(path: &'a str) -> Result<Route<'a>, Refusal> {
        Route::find(path).ok_or_else(|| {
            let shown: String = path.chars().take(100).collect();
            Refusal::UnknownRoute(shown)
        })
    }

    fn find(path: &'a str) -> Option<Route<'a>> {
        let mut segments = [""; MOST];
        let mut count = 0;
        for segment in path.strip_prefix('/')?.split('/') {
            *segments.get_mut(count)? = segment;
            count += 1;
        }
        // One slash at the end makes no difference.
        if count > 1 && !segments[0].is_empty() && segments.get(count - 1) == Some(&"") {
            count -= 1;
        }
        Some(match segments.get(..count)? {
            [""] => Route::Page,
            ["openapi.json"] => Route::OpenApi,
            ["metrics"] => Route::Metrics,
            ["v1", "status"] => Route::Status,
            ["v1", "pipelines", name] => Route::Picture(decoded(name)?),
            ["v2"] => Route::Server,
            ["v2", "health", "live"] => Route::Live,
            ["v2", "health", "ready"] => Route::Ready,
            ["v2", "models"] => Route::Models,
            ["v2", "models", "stats"] => Route::AllStatistics,
            ["v2", "models", _, "trace", "setting"] | ["v2", "trace", "setting"] => Route::NotOffered("trace"),
            ["v2", "models", name, "versions", version, rest @ ..] => Route::of_model(name, Some(version), rest)?,
            ["v2", "models", name, rest @ ..] => Route::of_model(name, None, rest)?,
            ["v2", "repository", "index"] => Route::Index,
            ["v2", "repository", "models", name, "load"] => Route::Load(decoded(name)?),
            ["v2", "repository", "models", name, "unload"] => Route::Unload(decoded(name)?),
            ["v2", "repository", _, "index"] | ["v2", "repository", _, "models", _, "load" | "unload"] => {
                Route::NotOffered("named repositories")
            }
            ["v2", "logging"] => Route::NotOffered("logging"),
            ["v2", "systemsharedmemory", ..] => Route::NotOffered("system_shared_memory"),
            ["v2", "cudasharedmemory", ..] => Route::NotOffered("cuda_shared_memory"),
            _ => return None,
        })
    }

    fn of_model(name: &'a str, version: Option<&'a str>, rest: &[&str]) -> Option<Route<'a>> {
        let part = match rest {
            [] => Part::Metadata,
            ["ready"] => Part::Ready,
            ["config"] => Part::Config,
            ["stats"] => Part::Statistics,
            ["infer"] => Part::Infer,
            ["generate" | "generate_stream"] => return Some(Route::NotOffered("generate")),
            _ => return None,
        };
        let version = match version {
            Some(version) => Some(decoded(version)?),
            None => None,
        };
        Some(Route::Model { name: decoded(name)?, version, part })
    }

    /// The methods that the address takes.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Route::Picture(_)
            | Route::Index
            | Route::Load(_)
            | Route::Unload(_)
            | Route::Model { part: Part::Infer, .. } => "POST",
            Route::NotOffered(_) => "GET, HEAD, POST",
            _ => "GET, HEAD",
        }
    }

    /// Whether it is answered without a token: what says nothing about what is served.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Route::Live | Route::Ready | Route::Page | Route::OpenApi)
    }
}

/// A segment with its `%41` as characters; nothing, if it is not text.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.is_empty() {
        return None;
    }
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        bytes.push(digit(digits[0])? << 4 | digit(digits[1])?);
        rest = after;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let model = |name: &'static str, version: Option<&'static str>, part| Route::Model {
            name: name.into(),
            version: version.map(Cow::Borrowed),
            part,
        };
        for (path, route) in [
            ("/", Route::Page),
            ("/v2", Route::Server),
            ("/v2/", Route::Server),
            ("/v2/models/m", model("m", None, Part::Metadata)),
            ("/v2/models/m/infer", model("m", None, Part::Infer)),
            ("/v2/models/m/versions/3/infer", model("m", Some("3"), Part::Infer)),
            ("/v2/models/a%20b%2fc/ready", model("a b/c", None, Part::Ready)),
            ("/v2/models/%2e%2e/config", model("..", None, Part::Config)),
            ("/v1/pipelines/%C3%A9", Route::Picture("é".into())),
            ("/v2/models/stats", Route::AllStatistics),
            ("/v2/repository/models/m/load", Route::Load("m".into())),
            ("/v2/repository/r/models/m/load", Route::NotOffered("named repositories")),
            ("/v2/cudasharedmemory/region/x/register", Route::NotOffered("cuda_shared_memory")),
        ] {
            assert_eq!(Route::parse(path), Ok(route), "{path}");
        }
    }

    #[test]
    fn addresses_of_nothing() {
        let deep = "/a".repeat(1000);
        for path in [
            "",
            "*",
            "v2",
            "//",
            "/v2//",
            "/v3",
            "/v2/models//infer",
            "/v2/models/m/versions//infer",
            "/v2/models/m/infer/more",
            "/v2/models/%/infer",
            "/v2/models/%4/infer",
            "/v2/models/%zz/infer",
            "/v2/models/%ff/infer",
            "/v2/models/../../etc/passwd",
            "/v1/pipelines",
            &deep,
        ] {
            assert!(Route::parse(path).is_err(), "{path}");
        }
    }
}
