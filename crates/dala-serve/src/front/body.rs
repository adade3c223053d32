//! Bodies of requests, read whole: bounded in size, in memory together with all others, and in time.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Instant, timeout_at};

use super::held::{Stock, Taken};
use super::pulse::{BYTES_PER_SECOND, Pulse};
use crate::{Limits, Refusal};

/// Lengths up to this are believed, and room is made for them at once.
const BELIEVED: usize = 4 << 20;

/// A body, and the claim on memory that lasts as long as it is held.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) taken: Taken,
}

/// Reads a body. One that came in one piece is not copied.
pub(crate) async fn read(
    body: &mut Incoming,
    pulse: &Pulse,
    limits: &Limits,
    stock: &Arc<Stock>,
) -> Result<Read, Refusal> {
    let too_large = || Refusal::TooLarge { limit_bytes: limits.body_bytes };
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limits.body_bytes {
        return Err(too_large());
    }
    let mut taken = stock.take(0)?;
    let mut patience = Patience::new(pulse, limits.patience);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = patience.next(body).await? {
        let Ok(data) = frame.into_data() else { continue };
        let received = first.len() + all.len() + data.len();
        if received > limits.body_bytes {
            return Err(too_large());
        }
        taken.more(data.len())?;
        if received == data.len() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(announced.min(BELIEVED).max(received));
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(Read { bytes: if all.is_empty() { first } else { all.freeze() }, taken })
}

/// What nobody asked for, and is still read so that the connection can go on.
const DISCARDED: u64 = 64 << 10;

/// Reads the rest of a body, and forgets it; false, if there is too much of it.
pub(crate) async fn discard(body: &mut Incoming, pulse: &Pulse, limits: &Limits) -> bool {
    let mut patience = Patience::new(pulse, limits.patience);
    let is_short = |body: &Incoming| body.size_hint().upper().is_some_and(|length| length <= DISCARDED);
    while !body.is_end_stream() {
        if !is_short(body) || !matches!(patience.next(body).await, Ok(Some(_))) {
            return body.is_end_stream();
        }
    }
    true
}

/// How long a client may still take. No timer is started for what is already there.
pub(crate) struct Patience<'a> {
    pulse: &'a Pulse,
    limit: Duration,
    since: Option<Instant>,
    received: u64,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(pulse: &'a Pulse, limit: Duration) -> Patience<'a> {
        Patience { pulse, limit, since: None, received: 0 }
    }

    /// The next piece, whenever it comes.
    pub(crate) async fn any_time(&mut self, body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Refusal> {
        let _awaits = self.pulse.awaits();
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        frame.transpose().map_err(cut_off)
    }

    /// The next piece, if the client sends it in time.
    pub(crate) async fn next(&mut self, body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Refusal> {
        let now = poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context))).await;
        let frame = match now {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let _awaits = self.pulse.awaits();
                let since = *self.since.get_or_insert_with(Instant::now);
                let earned = Duration::from_secs(self.received / BYTES_PER_SECOND);
                let rest = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
                timeout_at(since + self.limit + earned, rest)
                    .await
                    .map_err(|_| Refusal::TooSlow(self.limit + earned))?
            }
        };
        let frame = frame.transpose().map_err(cut_off)?;
        self.received += frame.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        Ok(frame)
    }
}

fn cut_off(error: impl Display) -> Refusal {
    Refusal::BadInput(format!("the body ends early: {error}"))
}
