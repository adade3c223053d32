//! The body of an answer: parts that are sent as they are, and for gRPC what follows them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    first: Option<Bytes>,
    rest: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    left_bytes: u64,
    /// Parts that are not there yet, trailers included.
    later: Option<mpsc::Receiver<Frame<Bytes>>>,
}

impl Reply {
    pub(crate) fn one(part: impl Into<Bytes>) -> Reply {
        let part = part.into();
        Reply { left_bytes: part.len() as u64, first: Some(part).filter(|part| !part.is_empty()), ..Reply::default() }
    }

    pub(crate) fn parts(parts: Vec<Bytes>) -> Reply {
        let left_bytes = parts.iter().map(|part| part.len() as u64).sum();
        Reply { rest: parts.into(), left_bytes, ..Reply::default() }
    }

    /// Parts as they come.
    pub(crate) fn stream(later: mpsc::Receiver<Frame<Bytes>>) -> Reply {
        Reply { later: Some(later), ..Reply::default() }
    }

    /// What follows the parts.
    pub(crate) fn trailed_by(self, trailers: HeaderMap) -> Reply {
        Reply { trailers: Some(trailers), ..self }
    }

    /// How long it is.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.left_bytes
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(later) = &mut self.later {
            return later.poll_recv(context).map(|frame| frame.map(Ok));
        }
        let part = self.first.take().or_else(|| self.rest.pop_front());
        if let Some(part) = &part {
            self.left_bytes = self.left_bytes.saturating_sub(part.len() as u64);
        }
        let frame = part.map(Frame::data).or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_empty() && self.trailers.is_none() && self.later.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.later.is_some() { SizeHint::default() } else { SizeHint::with_exact(self.left_bytes) }
    }
}
