//! Calls of gRPC, answered: one message in, one message out, over HTTP/2.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use prost::Message;
use tracing::Instrument;

use super::body;
use super::heads::{self, RETRY_AFTER_MS, Wishes};
use super::http::{may_not_load, refuse_load_parameters};
use super::reply::Reply;
use super::shared::{Peer, Shared, terms, work};
use crate::wire::compression::Encoding;
use crate::wire::messages::{
    Empty, HealthCheckRequest, HealthCheckResponse, ModelConfigResponse, ModelInferRequest, ModelStatisticsResponse,
    ModelVersion, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelRequest, Yes,
};
use crate::wire::{describe, infer_proto};
use crate::{Answer, Caller, ModelInfo, Refusal, Times};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const DEADLINE: HeaderName = HeaderName::from_static("grpc-timeout");
/// Clients with a policy for trying again wait for so long.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// The word of a refusal that stays the same.
const CODE: HeaderName = HeaderName::from_static("dala-code");

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// A flag and a length stand before every message.
const PREFIX: usize = 5;

/// Messages below this are not worth compressing.
const WORTH_COMPRESSING: usize = 1400;

/// Answers a call; whatever happens, with a status of gRPC.
pub(crate) async fn answer<B>(shared: &Arc<Shared>, peer: &Peer, request: Request<B>) -> Response<Reply>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let (parts, body) = request.into_parts();
    let response = respond(shared, peer, &parts, body).await.unwrap_or_else(|refusal| refused(&refusal));
    shared.metrics.sent_bytes.fetch_add(response.body().size_bytes(), Ordering::Relaxed);
    response
}

async fn respond<B>(shared: &Arc<Shared>, peer: &Peer, parts: &Parts, body: B) -> Result<Response<Reply>, Refusal>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let began = Instant::now();
    let is_grpc = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if parts.method != Method::POST || !parts.headers.get(header::CONTENT_TYPE).is_some_and(is_grpc) {
        return Err(Refusal::UnsupportedMedia("this port speaks gRPC".to_owned()));
    }
    let path = parts.uri.path();
    let method = match path.strip_prefix("/inference.GRPCInferenceService/") {
        Some(method) => method,
        None if path == "/grpc.health.v1.Health/Check" => "Check",
        None => return Err(unknown(path)),
    };
    let headers = &parts.headers;
    let call = Call { shared, peer, headers, body, began };
    // What says nothing about what is served is answered without a token.
    if matches!(method, "ServerLive" | "ServerReady" | "Check") {
        return health(method, call).await;
    }
    shared.check_open()?;
    let caller = shared.admit(peer, headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes), began)?;
    let back = &shared.back;
    match method {
        "ModelInfer" => infer(call, caller).await,
        "ServerMetadata" => {
            call.message::<Empty>().await?;
            sent(&describe::server(shared.may_load))
        }
        "ModelReady" => {
            let wanted: ModelVersion = call.message().await?;
            back.model(&wanted.name, version(&wanted.version))?;
            sent(&Yes { yes: true })
        }
        "ModelMetadata" => {
            let wanted: ModelVersion = call.message().await?;
            sent(&describe::metadata(&*back.model(&wanted.name, version(&wanted.version))?))
        }
        "ModelConfig" => {
            let wanted: ModelVersion = call.message().await?;
            let model = back.model(&wanted.name, version(&wanted.version))?;
            sent(&ModelConfigResponse { config: Some(describe::config(&model)) })
        }
        "ModelStatistics" => {
            let wanted: ModelVersion = call.message().await?;
            let name = Some(&*wanted.name).filter(|name| !name.is_empty());
            let models = back.statistics(name, version(&wanted.version))?;
            sent(&ModelStatisticsResponse { model_stats: models.iter().map(describe::statistics).collect() })
        }
        "RepositoryIndex" => {
            let wanted: RepositoryIndexRequest = call.message().await?;
            one_repository(&wanted.repository_name)?;
            sent(&RepositoryIndexResponse { models: describe::index(&back.index(), wanted.ready) })
        }
        "RepositoryModelLoad" | "RepositoryModelUnload" => {
            let wanted: RepositoryModelRequest = call.message().await?;
            one_repository(&wanted.repository_name)?;
            if !shared.may_load {
                return Err(may_not_load(&wanted.model_name));
            }
            if method == "RepositoryModelLoad" {
                refuse_load_parameters(wanted.parameters.keys().map(|name| &**name))?;
                back.load(&wanted.model_name).await?;
            } else {
                back.unload(&wanted.model_name).await?;
            }
            sent(&Empty {})
        }
        _ => Err(unknown(path)),
    }
}

fn unknown(path: &str) -> Refusal {
    Refusal::UnknownRoute(path.chars().take(100).collect())
}

fn version(version: &str) -> Option<&str> {
    Some(version).filter(|version| !version.is_empty())
}

fn one_repository(name: &str) -> Result<(), Refusal> {
    if name.is_empty() { Ok(()) } else { Err(Refusal::Unsupported("named repositories are not offered".to_owned())) }
}

async fn health<B>(method: &str, call: Call<'_, B>) -> Result<Response<Reply>, Refusal>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let is_ready = call.shared.is_ready();
    match method {
        "Check" => {
            let wanted: HealthCheckRequest = call.message().await?;
            if !matches!(&*wanted.service, "" | "inference.GRPCInferenceService") {
                return Err(Refusal::UnknownModel(wanted.service));
            }
            sent(&HealthCheckResponse { status: if is_ready { 1 } else { 2 } })
        }
        _ => {
            call.message::<Empty>().await?;
            sent(&Yes { yes: method == "ServerLive" || is_ready })
        }
    }
}

/// A call whose message was not read yet.
struct Call<'a, B> {
    shared: &'a Arc<Shared>,
    peer: &'a Peer,
    headers: &'a HeaderMap,
    body: B,
    began: Instant,
}

impl<B> Call<'_, B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    /// The bytes of its message, and how they were compressed.
    async fn read(self) -> Result<(body::Read, Option<Encoding>), Refusal> {
        let encoding = Encoding::by_name(heads::text(self.headers, ENCODING)?.unwrap_or_default())?;
        let mut read = body::read(self.body, &self.peer.pulse, &self.shared.limits, &self.shared.bytes).await?;
        self.shared.metrics.received_bytes.fetch_add(read.bytes.len() as u64, Ordering::Relaxed);
        let (flag, length) = match read.bytes.get(..PREFIX) {
            Some(&[flag, a, b, c, d]) => (flag, u32::from_be_bytes([a, b, c, d])),
            _ => return Err(Refusal::BadInput("no whole message".to_owned())),
        };
        read.bytes = read.bytes.slice(PREFIX..);
        if usize::try_from(length) != Ok(read.bytes.len()) {
            return Err(Refusal::BadInput("one message is expected, as long as it says".to_owned()));
        }
        match (flag, encoding) {
            (0, _) => Ok((read, None)),
            (1, Some(encoding)) => Ok((read, Some(encoding))),
            _ => Err(Refusal::BadInput("compressed, and it does not say how".to_owned())),
        }
    }

    /// Its message. For all but inference, these are small.
    async fn message<M: Message + Default>(self) -> Result<M, Refusal> {
        let limit_bytes = self.shared.limits.body_bytes.min(1 << 20);
        match self.read().await? {
            (read, Some(encoding)) => infer_proto::decode(encoding.decompress(&read.bytes, limit_bytes)?),
            (read, None) => infer_proto::decode(read.bytes),
        }
    }
}

async fn infer<B>(call: Call<'_, B>, caller: Caller) -> Result<Response<Reply>, Refusal>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let (shared, began) = (call.shared, call.began);
    let mut label: Arc<str> = "".into();
    let span = tracing::info_span!("infer", model = tracing::field::Empty);
    let outcome = infer_model(call, caller, &mut label).instrument(span.clone()).await;
    span.record("model", &*label);
    let counts = shared.metrics.of(&label);
    counts.count(outcome.as_ref().map(|(_, times)| *times), began.elapsed());
    outcome.map(|(response, _)| response)
}

async fn infer_model<B>(
    call: Call<'_, B>,
    caller: Caller,
    label: &mut Arc<str>,
) -> Result<(Response<Reply>, Times), Refusal>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let (shared, began) = (call.shared, call.began);
    let wishes = Wishes::of(call.headers)?;
    let deadline = heads::text(call.headers, DEADLINE)?.map(timeout).transpose()?;
    let timeout = [deadline, wishes.timeout].into_iter().flatten().min();
    let (read, encoding) = call.read().await?;
    let _place = shared.place()?;
    let limit_bytes = shared.limits.body_bytes;
    let effort = if encoding.is_some() { usize::MAX } else { 0 };
    let (message, mut taken) = (read.bytes, read.taken);
    let (mut request, taken) = work(effort, move || {
        let message = match encoding {
            Some(encoding) => {
                let message = encoding.decompress(&message, limit_bytes)?;
                taken.more(message.len())?;
                message
            }
            None => message,
        };
        Ok((infer_proto::decode::<ModelInferRequest>(message)?, taken))
    })
    .await?;
    let model = shared.back.model(&request.model_name, version(&request.model_version))?;
    *label = model.name.clone();
    // Raw contents are not looked at; lists of numbers are.
    let effort = if request.raw_input_contents.is_empty() { request.encoded_len() } else { 0 };
    let (ask, id) = work(effort, move || {
        let draft = infer_proto::read(&mut request)?;
        let terms = terms(caller, began, [draft.lane, wishes.lane], [draft.timeout, timeout]);
        let ask = draft.check(model, terms)?;
        Ok((ask, std::mem::take(&mut request.id)))
    })
    .await?;
    let model: Arc<ModelInfo> = ask.model.clone();
    let answer = shared.infer(ask).await?;
    drop(taken);
    let times = answer.times;
    Ok((written(&model.name, &answer, id, encoding).await?, times))
}

/// The answer of a model, compressed if the request was, and if it pays.
async fn written(
    model: &str,
    answer: &Answer,
    id: String,
    encoding: Option<Encoding>,
) -> Result<Response<Reply>, Refusal> {
    let mut parts = infer_proto::write(model, answer, id);
    let mut length: usize = parts.iter().map(Bytes::len).sum();
    let encoding = encoding.filter(|_| length >= WORTH_COMPRESSING);
    if let Some(encoding) = encoding {
        let compressed = work(length, move || encoding.compress(&parts)).await?;
        length = compressed.len();
        parts = vec![compressed];
    }
    let prefix = prefix(encoding.is_some(), length)?;
    // A short message goes out in one piece.
    let parts = match &parts[..] {
        [only] if only.len() <= 16 << 10 => vec![[&prefix[..], only].concat().into()],
        _ => [vec![Bytes::copy_from_slice(&prefix)], parts].concat(),
    };
    let mut response = trailed(Reply::parts(parts));
    if let Some(encoding) = encoding {
        response.headers_mut().insert(ENCODING, HeaderValue::from_static(encoding.name()));
    }
    Ok(response)
}

fn prefix(is_compressed: bool, length: usize) -> Result<[u8; PREFIX], Refusal> {
    let length = u32::try_from(length).map_err(|_| Refusal::Internal("an answer of 4 GiB".to_owned()))?;
    let [a, b, c, d] = length.to_be_bytes();
    Ok([u8::from(is_compressed), a, b, c, d])
}

/// A message as an answer.
fn sent(message: &impl Message) -> Result<Response<Reply>, Refusal> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_slice(&prefix(false, length)?);
    message.encode(&mut bytes).map_err(|error| Refusal::Internal(error.to_string()))?;
    Ok(trailed(Reply::one(bytes)))
}

fn trailed(reply: Reply) -> Response<Reply> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    let mut response = Response::new(reply.trailed_by(trailers));
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// What a client is told whose call is not answered.
pub(crate) fn refused(refusal: &Refusal) -> Response<Reply> {
    let said = refusal.said();
    let mut response = Response::new(Reply::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
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

/// How long a call may take, as `100m` says: a number of at most eight digits and a unit.
fn timeout(text: &str) -> Result<Duration, Refusal> {
    let wrong = || Refusal::BadInput("`grpc-timeout` is a number of up to eight digits and a unit".to_owned());
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        assert_eq!(timeout("100m"), Ok(Duration::from_millis(100)));
        assert_eq!(timeout("99999999H"), Ok(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(timeout("5n"), Ok(Duration::from_nanos(5)));
        for wrong in ["", "m", "100", "1000000000m", "-1S", "1.5S", "1x", "1é"] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_in_headers() {
        assert_eq!(percent("100 % of `é`\n"), "100 %25 of `%C3%A9`%0A");
    }
}
