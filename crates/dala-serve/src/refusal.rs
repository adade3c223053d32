//! Why a request was not answered, and how both protocols say so.

use std::time::Duration;

use thiserror::Error;

/// Why a request was not answered.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing of this name is served.
    #[error("there is no model called `{0}`")]
    UnknownModel(String),
    /// The model is served, this version of it is not.
    #[error("model `{model}` has no version `{version}`")]
    UnknownVersion {
        /// The model's name.
        model: String,
        /// What was asked for.
        version: String,
    },
    /// No pipeline of this name is served.
    #[error("there is no pipeline called `{0}`")]
    UnknownPipeline(String),
    /// Nothing is at this address.
    #[error("there is nothing at `{0}`")]
    UnknownRoute(String),
    /// The address takes other methods.
    #[error("this address takes {allowed}")]
    WrongMethod {
        /// Which it takes.
        allowed: &'static str,
    },
    /// The model is known, and not loaded, or not yet.
    #[error("model `{model}` is not ready: {reason}")]
    NotReady {
        /// The model's name.
        model: String,
        /// Why it is not.
        reason: String,
    },
    /// The request cannot be read, or does not fit the model.
    #[error("{0}")]
    BadInput(String),
    /// The body is compressed in a way that is not understood, or is not what the address takes.
    #[error("{0}")]
    UnsupportedMedia(String),
    /// The body, or what it decompresses to, is larger than is taken.
    #[error("the request is larger than {limit_bytes} bytes")]
    TooLarge {
        /// What is taken.
        limit_bytes: usize,
    },
    /// The client did not send what it announced in time.
    #[error("the request did not arrive within {} ms", .0.as_millis())]
    TooSlow(Duration),
    /// There is no room for it in the queue.
    #[error("the queue is full: try again in {} ms", retry_after.as_millis())]
    Full {
        /// When there may be.
        retry_after: Duration,
    },
    /// This caller asks more often than it may.
    #[error("too many requests from this caller: try again in {} ms", retry_after.as_millis())]
    TooMany {
        /// When it may ask again.
        retry_after: Duration,
    },
    /// It would be answered too late, so it was not begun.
    #[error("the deadline cannot be met: the expected wait is {} ms", expected_wait.as_millis())]
    TooLate {
        /// How long it would have waited.
        expected_wait: Duration,
    },
    /// Its deadline passed before it was answered.
    #[error("the deadline passed")]
    Expired,
    /// The server is about to end, and takes nothing new.
    #[error("the server is shutting down")]
    Draining,
    /// This request made its run fail.
    #[error("the run failed: {0}")]
    Failed(String),
    /// The device was lost under it, more than once: it may be why.
    #[error("the device was lost")]
    DeviceLost,
    /// Part of the protocol that is not served here.
    #[error("{0}")]
    Unsupported(String),
    /// No token, or one that is not known.
    #[error("a known bearer token is needed")]
    Unauthorised,
    /// What the server's options do not allow.
    #[error("{0}")]
    Forbidden(String),
    /// A rule of our own was broken.
    #[error("internal error: {0}")]
    Internal(String),
}

/// How both protocols say a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The status of an HTTP response.
    pub http: u16,
    /// The status of a gRPC response.
    pub grpc: i32,
    /// A word that stays the same, for programs; also what metrics count by.
    pub code: &'static str,
}

/// The codes of gRPC that are used.
mod grpc {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const INTERNAL: i32 = 13;
    pub(super) const UNAVAILABLE: i32 = 14;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

impl Refusal {
    /// The one table of statuses. With 503 and `UNAVAILABLE` nothing of it was run, and another server may answer: routers may send it
    /// there.
    pub fn said(&self) -> Said {
        let (http, grpc, code) = match self {
            Refusal::UnknownModel(_) => (404, grpc::NOT_FOUND, "unknown_model"),
            Refusal::UnknownVersion { .. } => (404, grpc::NOT_FOUND, "unknown_version"),
            Refusal::UnknownPipeline(_) => (404, grpc::NOT_FOUND, "unknown_pipeline"),
            Refusal::UnknownRoute(_) => (404, grpc::UNIMPLEMENTED, "unknown_route"),
            Refusal::WrongMethod { .. } => (405, grpc::UNIMPLEMENTED, "wrong_method"),
            Refusal::NotReady { .. } => (503, grpc::UNAVAILABLE, "not_ready"),
            Refusal::BadInput(_) => (400, grpc::INVALID_ARGUMENT, "bad_input"),
            Refusal::UnsupportedMedia(_) => (415, grpc::UNIMPLEMENTED, "unsupported_media"),
            Refusal::TooLarge { .. } => (413, grpc::RESOURCE_EXHAUSTED, "too_large"),
            Refusal::TooSlow(_) => (408, grpc::DEADLINE_EXCEEDED, "too_slow"),
            Refusal::Full { .. } => (503, grpc::UNAVAILABLE, "full"),
            Refusal::TooMany { .. } => (429, grpc::RESOURCE_EXHAUSTED, "too_many"),
            Refusal::TooLate { .. } => (503, grpc::UNAVAILABLE, "too_late"),
            Refusal::Expired => (504, grpc::DEADLINE_EXCEEDED, "expired"),
            Refusal::Draining => (503, grpc::UNAVAILABLE, "draining"),
            Refusal::Failed(_) => (500, grpc::INTERNAL, "failed"),
            Refusal::DeviceLost => (500, grpc::INTERNAL, "device_lost"),
            Refusal::Unsupported(_) => (501, grpc::UNIMPLEMENTED, "unsupported"),
            Refusal::Unauthorised => (401, grpc::UNAUTHENTICATED, "unauthorised"),
            Refusal::Forbidden(_) => (403, grpc::PERMISSION_DENIED, "forbidden"),
            Refusal::Internal(_) => (500, grpc::INTERNAL, "internal"),
        };
        Said { http, grpc, code }
    }

    /// When it may be worth trying again, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Refusal::Full { retry_after } | Refusal::TooMany { retry_after } => Some(*retry_after),
            Refusal::TooLate { expected_wait } => Some(*expected_wait),
            _ => None,
        }
    }
}
