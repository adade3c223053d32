//! Requests of HTTP, answered.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tracing::Instrument;

use super::body;
use super::heads::{self, RETRY_AFTER_MS, Wishes};
use super::page;
use super::reply::Reply;
use super::routes::{Part, Route};
use super::shared::{Peer, Shared, terms, work};
use super::span;
use super::status;
use crate::wire::compression::Encoding;
use crate::wire::{describe, infer_json};
use crate::{Answer, Caller, ModelInfo, PictureAsk, Refusal, Times};

/// How long the JSON of a request is, where binary data follows it; the same for answers.
const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Answers below this are not worth compressing.
const WORTH_COMPRESSING: usize = 1400;

/// Answers a request; whatever happens, with a status and a body that says why.
pub(crate) async fn answer(shared: &Arc<Shared>, peer: &Peer, request: Request<Incoming>) -> Response<Reply> {
    let (parts, mut body) = request.into_parts();
    let outcome = respond(shared, peer, &parts, &mut body).await;
    // What is left of a request would be taken for the next one. Who waits for leave to send it has not begun.
    let is_hopeless = matches!(outcome, Err(Refusal::TooLarge { .. } | Refusal::TooSlow(_)))
        || parts.headers.contains_key(header::EXPECT);
    let is_over = body.is_end_stream() || !is_hopeless && body::discard(&mut body, &peer.pulse, &shared.limits).await;
    let mut response = outcome.unwrap_or_else(|refusal| refused(&refusal));
    if !is_over {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    shared.metrics.sent_bytes.fetch_add(response.body().size_bytes(), Ordering::Relaxed);
    response
}

async fn respond(
    shared: &Arc<Shared>,
    peer: &Peer,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Response<Reply>, Refusal> {
    let began = Instant::now();
    let route = Route::parse(parts.uri.path())?;
    let methods = route.methods();
    if !methods.split(", ").any(|method| method == parts.method.as_str()) {
        return Err(Refusal::WrongMethod { allowed: methods });
    }
    let back = &shared.back;
    if route.is_open() {
        return Ok(match route {
            Route::Live => json_of(&json!({ "live": true })),
            Route::Ready if shared.is_ready() => json_of(&json!({ "ready": true })),
            Route::OpenApi => respond_with(JSON, page::OPENAPI),
            Route::Page => page::response(),
            _ => return Err(if shared.ending.load(Ordering::Acquire) { Refusal::Draining } else { not_ready() }),
        });
    }
    shared.check_open()?;
    let caller = shared.admit(peer, parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes), began)?;
    let value = match route {
        Route::Model { name, version, part: Part::Infer } => {
            let sent = Sent { headers: &parts.headers, body, peer, caller, began };
            return infer(shared, &name, version.as_deref(), sent).await;
        }
        Route::Picture(name) => {
            let sent = Sent { headers: &parts.headers, body, peer, caller, began };
            return picture(shared, &name, sent).await;
        }
        Route::Model { name, version, part } => {
            let version = version.as_deref();
            match part {
                Part::Metadata | Part::Infer => describe::metadata_json(&*back.model(&name, version)?),
                Part::Ready => {
                    let model = back.model(&name, version)?;
                    json!({ "name": *model.name, "ready": true })
                }
                Part::Config => describe::config_json(&*back.model(&name, version)?),
                Part::Statistics => describe::statistics_json(&back.statistics(Some(&name), version)?),
            }
        }
        Route::Server => describe::server_json(shared.may_load),
        Route::Models => {
            let models = describe::index(&back.index(), false);
            json!({ "models": models.into_iter().map(|model| model.name).collect::<Vec<_>>() })
        }
        Route::AllStatistics => describe::statistics_json(&back.statistics(None, None)?),
        Route::Status => status::status(shared),
        Route::Metrics => {
            let text = shared.metrics.write(&back.busy(), &shared.held());
            return Ok(respond_with(HeaderValue::from_static("text/plain; version=0.0.4"), text));
        }
        Route::Index => {
            let body = members(shared, peer, &parts.headers, body).await?;
            let only_ready = match body.get("ready") {
                None => false,
                Some(ready) => ready.as_bool().ok_or_else(|| Refusal::BadInput("`ready` is true or false".into()))?,
            };
            describe::index_json(&back.index(), only_ready)
        }
        Route::Load(name) | Route::Unload(name) if !shared.may_load => return Err(may_not_load(&name)),
        Route::Load(name) => {
            let parameters = members(shared, peer, &parts.headers, body).await?;
            let names = parameters.get("parameters").and_then(Value::as_object).into_iter().flatten();
            refuse_load_parameters(names.map(|(name, _)| &**name))?;
            back.load(&name).await?;
            json!({})
        }
        Route::Unload(name) => {
            members(shared, peer, &parts.headers, body).await?;
            back.unload(&name).await?;
            json!({})
        }
        Route::NotOffered(what) => return Err(Refusal::Unsupported(format!("{what}: this is not offered"))),
        Route::Page | Route::OpenApi | Route::Live | Route::Ready => json!({}),
    };
    Ok(json_of(&value))
}

fn not_ready() -> Refusal {
    Refusal::NotReady { model: "*".to_owned(), reason: "not everything is loaded".to_owned() }
}

/// Why clients may not load.
pub(crate) fn may_not_load(model: &str) -> Refusal {
    Refusal::Forbidden(format!("this server does not load or unload models for clients: `{model}` stays as it is"))
}

/// Files and configurations that come with a request to load are not taken, and not ignored.
pub(crate) fn refuse_load_parameters<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    match names.find(|name| *name == "config" || name.starts_with("file:")) {
        Some(name) => {
            Err(Refusal::Unsupported(format!("models are loaded from the server's folder, without `{name}`")))
        }
        None => Ok(()),
    }
}

/// What was sent, and by whom.
struct Sent<'a> {
    headers: &'a HeaderMap,
    body: &'a mut Incoming,
    peer: &'a Peer,
    caller: Caller,
    began: Instant,
}

/// A request for a model.
async fn infer(
    shared: &Arc<Shared>,
    name: &str,
    version: Option<&str>,
    sent: Sent<'_>,
) -> Result<Response<Reply>, Refusal> {
    let began = sent.began;
    let model = shared.back.model(name, version);
    let label = model.as_ref().map_or_else(|_| "".into(), |model| model.name.clone());
    let counts = shared.metrics.of(&label);
    let span = span::begin(sent.headers);
    let outcome = async { infer_model(shared, model?, sent).await }.instrument(span.clone()).await;
    let ended = outcome.as_ref().map(|(_, times)| *times);
    span::end(&span, &label, ended);
    counts.count(ended, began.elapsed());
    outcome.map(|(response, _)| response)
}

async fn infer_model(
    shared: &Arc<Shared>,
    model: Arc<ModelInfo>,
    sent: Sent<'_>,
) -> Result<(Response<Reply>, Times), Refusal> {
    let Sent { headers, body, peer, caller, began } = sent;
    let wishes = Wishes::of(headers)?;
    let header_bytes = heads::number(headers, HEADER_LENGTH)?;
    let encoding = Encoding::by_name(heads::text(headers, header::CONTENT_ENCODING)?.unwrap_or_default())?;
    let accepted = accepted(heads::text(headers, header::ACCEPT_ENCODING)?);
    let read = body::read(body, &peer.pulse, &shared.limits, &shared.bytes).await?;
    let _place = shared.place()?;
    shared.metrics.received_bytes.fetch_add(read.bytes.len() as u64, Ordering::Relaxed);
    let limit_bytes = shared.limits.body_bytes;
    let header_bytes = header_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    // Binary data is not looked at; text and what is compressed are.
    let effort = if encoding.is_some() { usize::MAX } else { header_bytes.unwrap_or(read.bytes.len()) };
    let (body, mut taken) = (read.bytes, read.taken);
    let (ask, manner, _taken) = work(effort, move || {
        let body = match encoding {
            Some(encoding) => {
                let body = encoding.decompress(&body, limit_bytes)?;
                taken.more(body.len())?;
                body
            }
            None => body,
        };
        let draft = match header_bytes {
            Some(0) => infer_json::read_raw(&body, &model)?,
            _ => infer_json::read(&body, header_bytes, limit_bytes)?,
        };
        let manner = infer_json::Manner::of(&draft, &model);
        let terms = terms(caller, began, [draft.lane, wishes.lane], [draft.timeout, wishes.timeout]);
        let ask = draft.check(model, terms)?;
        manner.check(&ask)?;
        Ok((ask, manner, taken))
    })
    .await?;
    let name = ask.model.name.clone();
    let answer = shared.infer(ask).await?;
    let times = answer.times;
    Ok((written(name, answer, manner, accepted).await?, times))
}

/// The answer of a model, compressed if that was asked for and pays.
async fn written(
    model: Arc<str>,
    answer: Answer,
    manner: infer_json::Manner,
    accepted: Option<Encoding>,
) -> Result<Response<Reply>, Refusal> {
    let times = answer.times;
    let size: usize = answer.outputs.iter().map(|output| output.data.len()).sum();
    let effort = if accepted.is_some() || manner.has_text() { size } else { 0 };
    let (header_bytes, parts, encoding) = work(effort, move || {
        let written = infer_json::write(&model, &answer, &manner)?;
        let worth = written.parts.iter().map(Bytes::len).sum::<usize>() >= WORTH_COMPRESSING;
        Ok(match accepted.filter(|_| worth) {
            Some(encoding) => (written.header_bytes, vec![encoding.compress(&written.parts)?], Some(encoding)),
            None => (written.header_bytes, written.parts, None),
        })
    })
    .await?;
    let mut response = Response::new(Reply::parts(parts));
    let headers = response.headers_mut();
    match header_bytes {
        Some(bytes) => {
            headers.insert(header::CONTENT_TYPE, OCTETS);
            headers.insert(HEADER_LENGTH, bytes.into());
        }
        None => drop(headers.insert(header::CONTENT_TYPE, JSON)),
    }
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    timing(headers, times);
    Ok(response)
}

/// Says where the time went, in the way that browsers show.
fn timing(headers: &mut HeaderMap, times: Times) {
    let mut text = String::with_capacity(64);
    let (queued, ran) = (times.queued.as_micros(), times.ran.as_micros());
    let _written = write!(
        text,
        "queue;dur={}.{:03}, run;dur={}.{:03}, batch;desc=\"{}\"",
        queued / 1000,
        queued % 1000,
        ran / 1000,
        ran % 1000,
        times.batch
    );
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(SERVER_TIMING, value);
    }
}

/// The encoding that a client prefers among those known here, if it prefers any to none at all.
fn accepted(header: Option<&str>) -> Option<Encoding> {
    let choice = |choice: &str| {
        let (name, quality) = choice.split_once(';').unwrap_or((choice, ""));
        let quality: f32 = quality.trim().strip_prefix("q=").and_then(|quality| quality.parse().ok()).unwrap_or(1.0);
        Some((Encoding::by_name(name).ok()?, quality))
    };
    let mut best = (None, 0.0);
    for (encoding, quality) in header?.split(',').filter_map(choice) {
        if quality > best.1 {
            best = (encoding, quality);
        }
    }
    best.0
}

/// A picture for a pipeline.
async fn picture(shared: &Arc<Shared>, name: &str, sent: Sent<'_>) -> Result<Response<Reply>, Refusal> {
    let began = sent.began;
    let is_known = shared.back.index().iter().any(|listing| *listing.name == *name);
    let label: Arc<str> = if is_known { name.into() } else { "".into() };
    let counts = shared.metrics.of(&label);
    let span = span::begin(sent.headers);
    let outcome = through_pipeline(shared, name, sent).instrument(span.clone()).await;
    let ended = outcome.as_ref().map(|(_, times)| *times);
    span::end(&span, &label, ended);
    counts.count(ended, began.elapsed());
    outcome.map(|(response, _)| response)
}

async fn through_pipeline(
    shared: &Arc<Shared>,
    name: &str,
    sent: Sent<'_>,
) -> Result<(Response<Reply>, Times), Refusal> {
    let Sent { headers, body, peer, caller, began } = sent;
    let Wishes { lane, timeout } = Wishes::of(headers)?;
    if Encoding::by_name(heads::text(headers, header::CONTENT_ENCODING)?.unwrap_or_default())?.is_some() {
        return Err(Refusal::UnsupportedMedia("pictures are compressed by themselves".to_owned()));
    }
    let terms = terms(caller, began, [lane, None], [timeout, None]);
    let read = body::read(body, &peer.pulse, &shared.limits, &shared.bytes).await?;
    let _place = shared.place()?;
    shared.metrics.received_bytes.fetch_add(read.bytes.len() as u64, Ordering::Relaxed);
    if read.bytes.is_empty() {
        return Err(Refusal::BadInput("a picture is expected as the body".to_owned()));
    }
    let answer = shared.picture(PictureAsk { pipeline: name.into(), picture: read.bytes, terms }).await?;
    let mut response = respond_with(HeaderValue::from_static(answer.content_type), answer.picture);
    timing(response.headers_mut(), answer.times);
    Ok((response, answer.times))
}

/// A small body of JSON: an object, or nothing.
async fn members(shared: &Shared, peer: &Peer, headers: &HeaderMap, body: &mut Incoming) -> Result<Value, Refusal> {
    let encoding = Encoding::by_name(heads::text(headers, header::CONTENT_ENCODING)?.unwrap_or_default())?;
    let read = body::read(body, &peer.pulse, &shared.limits, &shared.bytes).await?;
    let limit_bytes = 1 << 20;
    let bytes = match encoding {
        Some(encoding) => encoding.decompress(&read.bytes, limit_bytes)?,
        None if read.bytes.len() > limit_bytes => return Err(Refusal::TooLarge { limit_bytes }),
        None => read.bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| Refusal::BadInput(format!("JSON: {error}")))?;
    if value.is_object() { Ok(value) } else { Err(Refusal::BadInput("JSON: an object expected".to_owned())) }
}

fn respond_with(content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::one(body));
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn json_of(value: &Value) -> Response<Reply> {
    respond_with(JSON, value.to_string())
}

/// What a client is told whose request is not answered.
pub(crate) fn refused(refusal: &Refusal) -> Response<Reply> {
    let said = refusal.said();
    let mut response = json_of(&json!({ "error": refusal.to_string(), "code": said.code }));
    *response.status_mut() = StatusCode::from_u16(said.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(wait) = refusal.retry_after() {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        headers.insert(header::RETRY_AFTER, millis.div_ceil(1000).max(1).into());
        headers.insert(RETRY_AFTER_MS, millis.into());
    }
    match refusal {
        Refusal::WrongMethod { allowed } => drop(headers.insert(header::ALLOW, HeaderValue::from_static(allowed))),
        Refusal::Unauthorised => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refusal::UnsupportedMedia(_) => {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(Encoding::NAMES));
        }
        Refusal::Draining => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_by_preference() {
        for (header, encoding) in [
            ("gzip", Some(Encoding::Gzip)),
            ("deflate, gzip", Some(Encoding::Deflate)),
            ("gzip;q=0.5, deflate;q=0.8", Some(Encoding::Deflate)),
            ("br, gzip;q=0.1", Some(Encoding::Gzip)),
            ("identity, gzip;q=0.5", None),
            ("gzip;q=0", None),
            ("br", None),
            ("", None),
        ] {
            assert_eq!(accepted(Some(header)), encoding, "{header}");
        }
        assert_eq!(accepted(None), None);
    }
}
