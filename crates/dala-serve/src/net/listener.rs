//! Connections as they come, each with a task that carries it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connections::{Connections, Seat};
use super::watched::Watched;
use crate::front::pulse::Pulse;
use crate::front::shared::{Peer, Shared};
use crate::front::{grpc, http};

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    /// As TLS names what is spoken inside.
    pub(crate) fn inside_tls(self) -> &'static str {
        match self {
            Protocol::Http => "http/1.1",
            Protocol::Grpc => "h2",
        }
    }
}

/// A place where clients connect.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) protocol: Protocol,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    /// Becomes true when nothing new is taken.
    pub(crate) closing: watch::Receiver<bool>,
}

/// What a client of plain HTTP is told when there is no place for it.
fn full() -> String {
    let body = r#"{"error":"there are too many connections","code":"full"}"#;
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How much of a call's body may be on its way before it is read.
const WINDOW: u32 = 256 << 10;

impl Listener {
    /// Takes connections until the server closes.
    pub(crate) async fn run(mut self) {
        loop {
            let taken = tokio::select! {
                taken = self.socket.accept() => taken,
                () = closes(&mut self.closing) => return,
            };
            match taken {
                Ok((stream, address)) => self.begin(stream, address),
                // Too many open files, mostly: some will be closed.
                Err(error) => {
                    tracing::warn!(%error, "no connection could be taken");
                    self.connections.sweep();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, address: SocketAddr) {
        let pulse = Arc::new(Pulse::new(self.protocol == Protocol::Grpc));
        let Some(seat) = self.connections.seat(pulse.clone()) else {
            self.shared.metrics.shed.fetch_add(1, Ordering::Relaxed);
            if self.protocol == Protocol::Http && self.tls.is_none() {
                // Whether it arrives is not worth waiting for.
                let _sent = stream.try_write(full().as_bytes());
            }
            return;
        };
        // Answers are written whole: nothing is gained by waiting for more.
        let _set = stream.set_nodelay(true);
        let number = seat.number;
        let peer = Peer { connection: number, address: address.ip(), pulse };
        let (protocol, shared, closing) = (self.protocol, self.shared.clone(), self.closing.clone());
        let tls = self.tls.clone();
        let task = tokio::spawn(async move {
            let talk = Talk { protocol, shared, peer, closing, _seat: seat };
            match tls {
                None => talk.over(stream).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => talk.over(stream).await,
                    Err(error) => tracing::debug!(%error, "TLS failed"),
                },
            }
        });
        self.connections.carried_by(number, task.abort_handle());
    }
}

/// Waits until nothing new is taken.
async fn closes(closing: &mut watch::Receiver<bool>) {
    // Without its sender the server has ended, which is the same.
    let _closing = closing.wait_for(|closing| *closing).await;
}

/// One connection, from its first request to its last.
struct Talk {
    protocol: Protocol,
    shared: Arc<Shared>,
    peer: Peer,
    closing: watch::Receiver<bool>,
    _seat: Seat,
}

impl Talk {
    async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let Talk { protocol, shared, peer, mut closing, _seat } = self;
        let io = TokioIo::new(Watched::new(stream, peer.pulse.clone()));
        let limits = shared.limits.clone();
        let peer = Arc::new(peer);
        let outcome = match protocol {
            Protocol::Http => {
                let service = service_fn(move |request| {
                    let (shared, peer) = (shared.clone(), peer.clone());
                    async move {
                        let _request = peer.pulse.request();
                        Ok::<_, Infallible>(http::answer(&shared, &peer, request).await)
                    }
                });
                let mut talk = std::pin::pin!(
                    http1::Builder::new()
                        .header_read_timeout(None)
                        .max_header_size(limits.head_bytes)
                        .serve_connection(io, service)
                );
                tokio::select! {
                    outcome = talk.as_mut() => outcome,
                    () = closes(&mut closing) => {
                        talk.as_mut().graceful_shutdown();
                        talk.await
                    }
                }
            }
            Protocol::Grpc => {
                let service = service_fn(move |request| {
                    let (shared, peer) = (shared.clone(), peer.clone());
                    async move {
                        let _request = peer.pulse.request();
                        Ok::<_, Infallible>(grpc::answer(&shared, &peer, request).await)
                    }
                });
                let mut talk = std::pin::pin!(
                    http2::Builder::new(TokioExecutor::new())
                        .max_concurrent_streams(u32::try_from(limits.requests).unwrap_or(u32::MAX))
                        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
                        .initial_stream_window_size(WINDOW)
                        .initial_connection_window_size(WINDOW)
                        .serve_connection(io, service)
                );
                tokio::select! {
                    outcome = talk.as_mut() => outcome,
                    () = closes(&mut closing) => {
                        talk.as_mut().graceful_shutdown();
                        talk.await
                    }
                }
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "a connection failed");
        }
    }
}
