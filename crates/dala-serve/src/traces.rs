//! Spans of requests, sent to a collector of OpenTelemetry, and joined to those of whoever sent the request.

use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use thiserror::Error;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Why spans cannot be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TracesError {
    /// What the environment says of the collector cannot be used.
    #[error("the collector of OpenTelemetry: {0}")]
    Collector(String),
    /// This process has another receiver of spans already.
    #[error("spans of this process go elsewhere already")]
    Taken,
}

/// Spans are sent as long as it is there; what is left is sent when it is dropped.
#[derive(Debug)]
#[must_use = "spans are sent as long as it is there"]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Sends the spans of this process to a collector, as OpenTelemetry's variables of the environment say:
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` (`http://localhost:4318` without it), `OTEL_SERVICE_NAME` (`dala`), `OTEL_TRACES_SAMPLER`.
    ///
    /// # Errors
    ///
    /// See [`TracesError`].
    pub fn send() -> Result<Traces, TracesError> {
        let agent =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).http_status_as_error(false);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client(agent.build().into()))
            .build()
            .map_err(|error| TracesError::Collector(error.to_string()))?;
        let name = std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "dala".to_owned());
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name(name).build())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("dala-serve"));
        let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(layer);
        subscriber.try_init().map_err(|_| TracesError::Taken)?;
        Ok(Traces(provider))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that has gone is no reason not to end.
        let _ended = self.0.shutdown();
    }
}

/// Makes a span part of the trace that the head of a request names (`traceparent`), if it names one.
pub(crate) fn join(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Without a receiver there is nothing to be part of.
    let _joined = span.set_parent(parent);
}

/// What carries spans to the collector: on a thread of its own, which may wait.
#[derive(Debug)]
struct Client(ureq::Agent);

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: hyper::Request<Bytes>) -> Result<hyper::Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let response = self.0.run(hyper::Request::from_parts(parts, &body[..]))?;
        let (parts, mut body) = response.into_parts();
        Ok(hyper::Response::from_parts(parts, body.read_to_vec()?.into()))
    }
}
