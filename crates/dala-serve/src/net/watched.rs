//! A stream that notes what its client does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::front::pulse::Pulse;

/// A stream whose reads and writes are noted, and which is read to its end before it is closed: a client that is still sending
/// would otherwise lose the answer that says why it should not.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
    has_ended: bool,
    is_shut: bool,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>) -> Watched<S> {
        Watched { stream, pulse, has_ended: false, is_shut: false }
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn noted(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Pending => self.pulse.blocked(),
            Poll::Ready(Ok(bytes)) => self.pulse.sent(bytes),
            Poll::Ready(Err(_)) => {}
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.pulse.received();
        } else if buffer.remaining() > 0 {
            self.has_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.noted(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.pulse.flushed();
        Poll::Ready(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pulse.closing();
        if !self.is_shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.is_shut = true;
        }
        let mut scratch = [0; 16 << 10];
        while !self.has_ended {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => self.has_ended = true,
            }
        }
        Poll::Ready(Ok(()))
    }
}
