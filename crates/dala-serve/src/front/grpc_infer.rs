//! Requests for models over gRPC: one by one, or many over one call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::frames::{self, Framed, Messages, PREFIX, prefix};
use super::heads::{self, Wishes};
use super::reply::Reply;
use super::shared::{Peer, Shared, terms, work};
use super::span;
use super::trailers;
use crate::wire::compression::Encoding;
use crate::wire::infer_proto;
use crate::wire::messages::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use crate::{Answer, Caller, Refusal};

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const DEADLINE: HeaderName = HeaderName::from_static("grpc-timeout");

/// Messages below this are not worth compressing.
const WORTH_COMPRESSING: usize = 1400;

/// Messages up to this size go out in one piece with what stands before them.
const SHORT: usize = 16 << 10;

/// What the head of a call says of all of its requests.
struct Head {
    headers: HeaderMap,
    wishes: Wishes,
    /// How long the call may take.
    deadline: Option<Duration>,
    encoding: Option<Encoding>,
}

impl Head {
    fn of(headers: HeaderMap) -> Result<Head, Refusal> {
        Ok(Head {
            wishes: Wishes::of(&headers)?,
            deadline: heads::text(&headers, DEADLINE)?.map(timeout).transpose()?,
            encoding: encoding(&headers)?,
            headers,
        })
    }
}

/// How the messages of a call are compressed.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Refusal> {
    Encoding::by_name(heads::text(headers, ENCODING)?.unwrap_or_default())
}

/// A request, and its answer.
pub(crate) async fn one(
    shared: &Arc<Shared>,
    peer: &Peer,
    caller: Caller,
    headers: HeaderMap,
    body: Incoming,
) -> Result<Response<Reply>, Refusal> {
    let began = Instant::now();
    let head = Head::of(headers)?;
    let framed = frames::one(body, head.encoding, &peer.pulse, &shared.limits, &shared.bytes).await?;
    let encoding = framed.encoding;
    let mut id = String::new();
    let (model, answer) = infer(shared, caller, &head, began, framed, &mut id).await?;
    let parts = infer_proto::write(&model, &answer, id);
    let (parts, encoding) = framed_parts(parts, encoding).await?;
    let mut response = trailers::followed(Reply::parts(parts));
    if let Some(encoding) = encoding {
        response.headers_mut().insert(ENCODING, HeaderValue::from_static(encoding.name()));
    }
    Ok(response)
}

/// The parts of a message with what stands before it; compressed if the request was, and if it pays.
async fn framed_parts(
    mut parts: Vec<Bytes>,
    encoding: Option<Encoding>,
) -> Result<(Vec<Bytes>, Option<Encoding>), Refusal> {
    let mut length: usize = parts.iter().map(Bytes::len).sum();
    let encoding = encoding.filter(|_| length >= WORTH_COMPRESSING);
    if let Some(encoding) = encoding {
        let compressed = work(length, move || encoding.compress(&parts)).await?;
        length = compressed.len();
        parts = vec![compressed];
    }
    let prefix = prefix(encoding.is_some(), length)?;
    let parts = match &parts[..] {
        [only] if only.len() <= SHORT => vec![[&prefix[..], only].concat().into()],
        _ => [vec![Bytes::copy_from_slice(&prefix)], parts].concat(),
    };
    Ok((parts, encoding))
}

/// Asks a model. `id` becomes what the request calls itself as soon as that is known.
async fn infer(
    shared: &Arc<Shared>,
    caller: Caller,
    head: &Head,
    began: Instant,
    framed: Framed,
    id: &mut String,
) -> Result<(Arc<str>, Answer), Refusal> {
    let mut label: Arc<str> = "".into();
    let span = span::begin(&head.headers);
    let outcome = infer_model(shared, caller, head, began, framed, id, &mut label).instrument(span.clone()).await;
    let ended = outcome.as_ref().map(|answer| answer.times);
    span::end(&span, &label, ended);
    shared.metrics.of(&label).count(ended, began.elapsed());
    outcome.map(|answer| (label, answer))
}

async fn infer_model(
    shared: &Arc<Shared>,
    caller: Caller,
    head: &Head,
    began: Instant,
    framed: Framed,
    id: &mut String,
    label: &mut Arc<str>,
) -> Result<Answer, Refusal> {
    let _place = shared.place()?;
    let Framed { bytes, encoding, mut taken } = framed;
    shared.metrics.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let limit_bytes = shared.limits.body_bytes;
    let effort = if encoding.is_some() { usize::MAX } else { 0 };
    let (mut request, _taken) = work(effort, move || {
        let bytes = match encoding {
            Some(encoding) => {
                let bytes = encoding.decompress(&bytes, limit_bytes)?;
                taken.more(bytes.len())?;
                bytes
            }
            None => bytes,
        };
        Ok((infer_proto::decode::<ModelInferRequest>(bytes)?, taken))
    })
    .await?;
    id.clone_from(&request.id);
    let version = Some(&*request.model_version).filter(|version| !version.is_empty());
    let model = shared.back.model(&request.model_name, version)?;
    *label = model.name.clone();
    // Raw contents are not looked at; lists of numbers are.
    let effort = if request.raw_input_contents.is_empty() { request.encoded_len() } else { 0 };
    let (wishes, deadline) = (head.wishes, head.deadline);
    let ask = work(effort, move || {
        let draft = infer_proto::read(&mut request)?;
        let timeouts = [draft.timeout, wishes.timeout, deadline];
        let terms = terms(caller, began, [draft.lane, wishes.lane], timeouts);
        draft.check(model, terms)
    })
    .await?;
    shared.infer(ask).await
}

/// Many requests over one call, each answered before the next is read. What is wrong with one is said in its answer.
pub(crate) fn many(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    caller: Caller,
    headers: HeaderMap,
    body: Incoming,
) -> Result<Response<Reply>, Refusal> {
    let head = Head::of(headers)?;
    let messages = Messages::new(body, head.encoding);
    let (sender, receiver) = mpsc::channel(1);
    let (shared, peer) = (shared.clone(), peer.clone());
    tokio::spawn(async move {
        let _request = peer.pulse.request();
        let talk = async {
            let end = answer_all(&shared, &peer, caller, &head, messages, &sender).await;
            let _sent = sender.send(Frame::trailers(trailers::status(end.err().as_ref()))).await;
        };
        tokio::select! {
            () = talk => {}
            // The client has gone.
            () = sender.closed() => {}
        }
    });
    Ok(trailers::begun(Reply::stream(receiver)))
}

async fn answer_all(
    shared: &Arc<Shared>,
    peer: &Peer,
    caller: Caller,
    head: &Head,
    mut messages: Messages,
    sender: &mpsc::Sender<Frame<Bytes>>,
) -> Result<(), Refusal> {
    let mut is_first = true;
    while let Some(framed) = messages.next(&peer.pulse, &shared.limits, &shared.bytes).await? {
        let began = Instant::now();
        let mut id = String::new();
        // The first was counted with the call.
        let may = if is_first { Ok(()) } else { shared.check_rate(peer, caller, began) };
        is_first = false;
        let outcome = match shared.check_open().and(may) {
            Ok(()) => infer(shared, caller, head, began, framed, &mut id).await,
            Err(refusal) => Err(refusal),
        };
        let parts = match outcome {
            Ok((model, answer)) => {
                let parts = infer_proto::write(&model, &answer, id);
                let length: usize = parts.iter().map(Bytes::len).sum();
                let mut before = Vec::with_capacity(16);
                encode_key(2, WireType::LengthDelimited, &mut before);
                encode_varint(length as u64, &mut before);
                [vec![before.into()], parts].concat()
            }
            Err(refusal) => {
                let infer_response = Some(ModelInferResponse { id, ..ModelInferResponse::default() });
                let response = ModelStreamInferResponse { error_message: refusal.to_string(), infer_response };
                vec![response.encode_to_vec().into()]
            }
        };
        let length = parts.iter().map(Bytes::len).sum();
        let prefix = prefix(false, length)?;
        let frames = if length <= SHORT {
            vec![[&prefix[..], &parts.concat()].concat().into()]
        } else {
            [vec![Bytes::copy_from_slice(&prefix)], parts].concat()
        };
        shared.metrics.sent_bytes.fetch_add((length + PREFIX) as u64, Ordering::Relaxed);
        for frame in frames {
            if sender.send(Frame::data(frame)).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
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
}
