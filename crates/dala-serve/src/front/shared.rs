//! What all requests of both protocols share: who may ask, how much, and the back that answers.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::held::{Stock, Taken};
use super::metrics::{Held, Metrics};
use super::pulse::Pulse;
use super::rate::Rate;
use super::tokens::Tokens;
use crate::{Answer, Ask, Backend, Caller, Lane, Limits, Pending, PictureAnswer, PictureAsk, Refusal, Terms};

/// Work on more bytes than this is not done on the threads that carry all connections.
const LONG_WORK: usize = 256 << 10;

/// Everything that requests share.
pub(crate) struct Shared {
    pub(crate) back: Arc<dyn Backend>,
    pub(crate) limits: Limits,
    pub(crate) may_load: bool,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) rate: Option<Rate<Who>>,
    pub(crate) requests: Arc<Stock>,
    pub(crate) bytes: Arc<Stock>,
    pub(crate) connections: AtomicUsize,
    pub(crate) metrics: Metrics,
    /// Nothing new is taken.
    pub(crate) closing: AtomicBool,
    /// The server is about to end, and says so to whoever asks whether it is ready.
    pub(crate) ending: AtomicBool,
    pub(crate) since: Instant,
}

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Token(u64),
    Address(IpAddr),
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) connection: u64,
    pub(crate) address: IpAddr,
    pub(crate) pulse: Arc<Pulse>,
}

impl Shared {
    /// Who asks, if they may: by a token where there are tokens, and not more often than allowed.
    pub(crate) fn admit(&self, peer: &Peer, authorization: Option<&[u8]>, now: Instant) -> Result<Caller, Refusal> {
        let caller = match &self.tokens {
            Some(tokens) => {
                let token = authorization.and_then(|header| tokens.find(header)).ok_or(Refusal::Unauthorised)?;
                Caller(token as u64)
            }
            None => Caller(peer.connection),
        };
        self.check_rate(peer, caller, now)?;
        Ok(caller)
    }

    /// Counts a request of somebody who may ask: whether it is not one too many.
    pub(crate) fn check_rate(&self, peer: &Peer, caller: Caller, now: Instant) -> Result<(), Refusal> {
        let Some(rate) = &self.rate else { return Ok(()) };
        let who = if self.tokens.is_some() { Who::Token(caller.0) } else { Who::Address(peer.address) };
        rate.take(who, now).map_err(|retry_after| Refusal::TooMany { retry_after })
    }

    /// Whether anything new is taken.
    pub(crate) fn check_open(&self) -> Result<(), Refusal> {
        if self.closing.load(Ordering::Acquire) { Err(Refusal::Draining) } else { Ok(()) }
    }

    /// A place among the requests that are worked on. Those that are still being read have none: slow clients take none away.
    pub(crate) fn place(&self) -> Result<Taken, Refusal> {
        self.requests.take(1)
    }

    /// Whether requests can be answered, and the server is to go on.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ending.load(Ordering::Acquire) && self.back.is_ready()
    }

    /// What is held at the moment.
    pub(crate) fn held(&self) -> Held {
        Held {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.taken(),
            bytes: self.bytes.taken(),
        }
    }

    pub(crate) async fn infer(&self, ask: Ask) -> Result<Answer, Refusal> {
        let deadline = ask.terms.deadline;
        until(|| self.back.infer(ask), deadline).await
    }

    pub(crate) async fn picture(&self, ask: PictureAsk) -> Result<PictureAnswer, Refusal> {
        let deadline = ask.terms.deadline;
        until(|| self.back.picture(ask), deadline).await
    }
}

/// The outcome, unless its deadline passes first: then nobody waits for it any more.
async fn until<T>(ask: impl FnOnce() -> Pending<T>, deadline: Option<Instant>) -> Result<T, Refusal> {
    let Some(deadline) = deadline else { return ask().await };
    if deadline <= Instant::now() {
        return Err(Refusal::Expired);
    }
    let mut outcome = ask();
    // A timer is started only for what is not there at once.
    let now = poll_fn(|context| Poll::Ready(outcome.as_mut().poll(context))).await;
    match now {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => tokio::time::timeout_at(deadline.into(), outcome).await.unwrap_or(Err(Refusal::Expired)),
    }
}

/// Does work on so many bytes: at once, or on a thread for long work.
pub(crate) async fn work<T: Send + 'static>(
    size_bytes: usize,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    if size_bytes <= LONG_WORK {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refusal::Internal("reading the request failed".to_owned())))
}

/// When an answer is wanted and how urgently, from what a request says in its head and in its body.
pub(crate) fn terms(
    caller: Caller,
    began: Instant,
    lanes: [Option<Lane>; 2],
    timeouts: impl IntoIterator<Item = Option<Duration>>,
) -> Terms {
    let lane = lanes.into_iter().flatten().next().unwrap_or_default();
    let timeout = timeouts.into_iter().flatten().min();
    Terms { lane, deadline: timeout.and_then(|timeout| began.checked_add(timeout)), caller }
}
