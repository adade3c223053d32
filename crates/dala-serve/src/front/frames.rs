//! Messages of gRPC in a body: a flag and a length stand before each.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::Incoming;

use super::body::{self, Patience};
use super::held::{Stock, Taken};
use super::pulse::Pulse;
use crate::wire::compression::Encoding;
use crate::{Limits, Refusal};

/// What stands before every message.
pub(crate) const PREFIX: usize = 5;

/// A message as it came.
pub(crate) struct Framed {
    pub(crate) bytes: Bytes,
    /// How it is compressed.
    pub(crate) encoding: Option<Encoding>,
    /// The claim on memory that lasts as long as it is held.
    pub(crate) taken: Taken,
}

/// What stands before a message of this length.
pub(crate) fn prefix(is_compressed: bool, length: usize) -> Result<[u8; PREFIX], Refusal> {
    let length = u32::try_from(length).map_err(|_| Refusal::Internal("an answer of 4 GiB".to_owned()))?;
    let [a, b, c, d] = length.to_be_bytes();
    Ok([u8::from(is_compressed), a, b, c, d])
}

/// The flag and the length at the beginning of some bytes, if they are there.
fn begins(bytes: &[u8]) -> Option<(u8, usize)> {
    let &[flag, a, b, c, d] = bytes.first_chunk::<PREFIX>()?;
    Some((flag, usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX)))
}

/// How a message is compressed, by its flag and by what the head of the call says.
fn encoding_of(flag: u8, said: Option<Encoding>) -> Result<Option<Encoding>, Refusal> {
    match (flag, said) {
        (0, _) => Ok(None),
        (1, Some(encoding)) => Ok(Some(encoding)),
        _ => Err(Refusal::BadInput("compressed, and it does not say how".to_owned())),
    }
}

/// Reads a body of one message.
pub(crate) async fn one(
    mut body: Incoming,
    said: Option<Encoding>,
    pulse: &Pulse,
    limits: &Limits,
    stock: &Arc<Stock>,
) -> Result<Framed, Refusal> {
    let body::Read { bytes, taken } = body::read(&mut body, pulse, limits, stock).await?;
    let (flag, length) = begins(&bytes).ok_or_else(|| Refusal::BadInput("no whole message".to_owned()))?;
    let bytes = bytes.slice(PREFIX..);
    if length != bytes.len() {
        return Err(Refusal::BadInput("one message is expected, as long as it says".to_owned()));
    }
    Ok(Framed { bytes, encoding: encoding_of(flag, said)?, taken })
}

/// A body of many messages, read one by one.
pub(crate) struct Messages {
    pub(crate) body: Incoming,
    pub(crate) said: Option<Encoding>,
    buffer: BytesMut,
}

impl Messages {
    pub(crate) fn new(body: Incoming, said: Option<Encoding>) -> Messages {
        Messages { body, said, buffer: BytesMut::new() }
    }

    /// The next message; none after the last. Between messages the client may take its time.
    pub(crate) async fn next(
        &mut self,
        pulse: &Pulse,
        limits: &Limits,
        stock: &Arc<Stock>,
    ) -> Result<Option<Framed>, Refusal> {
        let mut taken = stock.take(self.buffer.len())?;
        let mut patience = Patience::new(pulse, limits.patience);
        loop {
            if let Some((flag, length)) = begins(&self.buffer) {
                if length > limits.body_bytes {
                    return Err(Refusal::TooLarge { limit_bytes: limits.body_bytes });
                }
                if self.buffer.len() - PREFIX >= length {
                    self.buffer.advance(PREFIX);
                    let bytes = self.buffer.split_to(length).freeze();
                    return Ok(Some(Framed { bytes, encoding: encoding_of(flag, self.said)?, taken }));
                }
            }
            let frame = if self.buffer.is_empty() {
                patience.any_time(&mut self.body).await?
            } else {
                patience.next(&mut self.body).await?
            };
            match frame {
                Some(frame) => {
                    let Ok(data) = frame.into_data() else { continue };
                    taken.more(data.len())?;
                    self.buffer.extend_from_slice(&data);
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(Refusal::BadInput("the last message is cut off".to_owned())),
            }
        }
    }
}
