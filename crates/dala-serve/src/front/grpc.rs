//! Calls of gRPC, answered: over HTTP/2, a message in and a message out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use prost::Message;

use super::frames::{self, PREFIX, prefix};
use super::grpc_infer;
use super::http::{may_not_load, refuse_load_parameters};
use super::reply::Reply;
use super::shared::{Peer, Shared};
use super::trailers;
use crate::Refusal;
use crate::wire::messages::{
    Empty, HealthCheckRequest, HealthCheckResponse, ModelConfigResponse, ModelStatisticsResponse, ModelVersion,
    RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelRequest, Yes,
};
use crate::wire::{describe, infer_proto};

/// What messages other than requests for models may come to.
const SMALL: usize = 1 << 20;

/// Answers a call; whatever happens, with a status of gRPC.
pub(crate) async fn answer(shared: &Arc<Shared>, peer: &Arc<Peer>, request: Request<Incoming>) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    let response = respond(shared, peer, parts, body).await.unwrap_or_else(|refusal| trailers::refused(&refusal));
    shared.metrics.sent_bytes.fetch_add(response.body().size_bytes(), Ordering::Relaxed);
    response
}

async fn respond(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    parts: Parts,
    body: Incoming,
) -> Result<Response<Reply>, Refusal> {
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
    let headers = parts.headers;
    let call = Call { shared, peer, headers: &headers, body };
    // What says nothing about what is served is answered without a token.
    if matches!(method, "ServerLive" | "ServerReady" | "Check") {
        return health(method, call).await;
    }
    shared.check_open()?;
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let caller = shared.admit(peer, authorization, Instant::now())?;
    let back = &shared.back;
    match method {
        "ModelInfer" => {
            let body = call.body;
            grpc_infer::one(shared, peer, caller, headers, body).await
        }
        "ModelStreamInfer" => {
            let body = call.body;
            grpc_infer::many(shared, peer, caller, headers, body)
        }
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

async fn health(method: &str, call: Call<'_>) -> Result<Response<Reply>, Refusal> {
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
struct Call<'a> {
    shared: &'a Arc<Shared>,
    peer: &'a Peer,
    headers: &'a HeaderMap,
    body: Incoming,
}

impl Call<'_> {
    /// Its message, which is small for all calls that use this.
    async fn message<M: Message + Default>(self) -> Result<M, Refusal> {
        let Call { shared, peer, headers, body } = self;
        let said = grpc_infer::encoding(headers)?;
        let framed = frames::one(body, said, &peer.pulse, &shared.limits, &shared.bytes).await?;
        match framed.encoding {
            Some(encoding) => infer_proto::decode(encoding.decompress(&framed.bytes, SMALL)?),
            None if framed.bytes.len() > SMALL => Err(Refusal::TooLarge { limit_bytes: SMALL }),
            None => infer_proto::decode(framed.bytes),
        }
    }
}

/// A message as an answer.
fn sent(message: &impl Message) -> Result<Response<Reply>, Refusal> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_slice(&prefix(false, length)?);
    message.encode(&mut bytes).map_err(|error| Refusal::Internal(error.to_string()))?;
    Ok(trailers::followed(Reply::one(bytes)))
}
