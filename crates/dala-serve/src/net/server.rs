//! A server: its sockets, its threads, and its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connections::Connections;
use super::listener::{Listener, Protocol};
use super::{agent, tls};
use crate::front::held::Stock;
use crate::front::metrics::Metrics;
use crate::front::rate::Rate;
use crate::front::shared::Shared;
use crate::front::tokens::Tokens;
use crate::{Backend, Options};

/// Why a server could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// Its threads could not be started.
    #[error("threads could not be started")]
    Threads(#[source] std::io::Error),
    /// An address is taken, or not this machine's.
    #[error("cannot listen at {address}")]
    Address {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no certificate, or it cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// There are no tokens, or they cannot be used.
    #[error("tokens: {0}")]
    Tokens(String),
    /// Neither HTTP nor gRPC.
    #[error("no address is given to listen at")]
    Nowhere,
}

/// How often connections are looked at whose clients keep still.
const SWEEPS: Duration = Duration::from_millis(500);

/// Connections that wait to be taken in.
const BACKLOG: u32 = 1024;

/// A server that listens. Clients may connect from now on, and are answered when it [runs](Server::run).
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    agent: Option<TcpListener>,
    tls: [Option<TlsAcceptor>; 2],
    options: Options,
    stop: watch::Sender<Stop>,
}

/// Whether a server is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    Soon,
    Now,
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<Stop>);

impl Stopper {
    /// The server takes nothing new, answers what it took in, and ends.
    pub fn stop(&self) {
        self.0.send_if_modified(|stop| {
            let is_first = *stop == Stop::No;
            *stop = (*stop).max(Stop::Soon);
            is_first
        });
    }

    /// The server ends without waiting for anything.
    pub fn stop_now(&self) {
        self.0.send_replace(Stop::Now);
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Requests that were not answered in the time there was.
    pub unanswered: u32,
}

impl Server {
    /// Listens, and reads tokens and certificates.
    ///
    /// # Errors
    ///
    /// See [`BindError`].
    pub fn bind(options: Options, back: Arc<dyn Backend>) -> Result<Server, BindError> {
        if options.http.is_none() && options.grpc.is_none() {
            return Err(BindError::Nowhere);
        }
        let tls = |protocol: Protocol| {
            let files = options.tls.as_ref();
            files.map(|files| tls::acceptor(files, protocol.inside_tls())).transpose().map_err(BindError::Tls)
        };
        let tls = [tls(Protocol::Http)?, tls(Protocol::Grpc)?];
        let tokens = options.tokens.as_deref().map(Tokens::read).transpose().map_err(BindError::Tokens)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            // For long texts and what is compressed: more at a time than there are processors would gain nothing.
            .max_blocking_threads(options.threads.max(1) + 2)
            .thread_name("dala-serve")
            .enable_all()
            .build()
            .map_err(BindError::Threads)?;
        let limits = options.limits.clone();
        let shared = Shared {
            back,
            may_load: options.may_load,
            tokens,
            rate: limits.per_second.map(Rate::new),
            requests: Stock::new(limits.requests),
            bytes: Stock::new(limits.held_bytes),
            connections: AtomicUsize::new(0),
            metrics: Metrics::default(),
            closing: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            since: Instant::now(),
            limits,
        };
        let _inside = runtime.enter();
        let (http, grpc, agent) = (listen(options.http)?, listen(options.grpc)?, listen(options.agent)?);
        drop(_inside);
        Ok(Server {
            runtime,
            shared: Arc::new(shared),
            http,
            grpc,
            agent,
            tls,
            options,
            stop: watch::Sender::new(Stop::No),
        })
    }

    /// Where HTTP is spoken.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|socket| socket.local_addr().ok())
    }

    /// Where gRPC is spoken.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().and_then(|socket| socket.local_addr().ok())
    }

    /// Where load balancers ask how much to send.
    pub fn agent_address(&self) -> Option<SocketAddr> {
        self.agent.as_ref().and_then(|socket| socket.local_addr().ok())
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Ends it when the process is told to end: by `SIGTERM`, or by Ctrl-C. Told twice, it does not wait.
    pub fn stop_on_signals(&self) {
        let stopper = self.stopper();
        self.runtime.spawn(async move {
            told_to_end().await;
            stopper.stop();
            told_to_end().await;
            stopper.stop_now();
        });
    }

    /// Answers requests until it is stopped, and until what it took in by then is answered. The calling thread waits.
    pub fn run(self) -> Ended {
        let Server { runtime, shared, http, grpc, agent, tls, options, stop } = self;
        let ended = runtime.block_on(async {
            let connections = Connections::new(shared.clone());
            let closing = watch::Sender::new(false);
            for ((socket, protocol), tls) in [(http, Protocol::Http), (grpc, Protocol::Grpc)].into_iter().zip(tls) {
                let Some(socket) = socket else { continue };
                let (shared, connections) = (shared.clone(), connections.clone());
                let listener = Listener { socket, protocol, tls, shared, connections, closing: closing.subscribe() };
                tokio::spawn(listener.run());
            }
            if let Some(socket) = agent {
                tokio::spawn(agent::run(socket, shared.clone()));
            }
            let swept = connections.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(SWEEPS).await;
                    swept.sweep();
                }
            });
            let mut stopped = stop.subscribe();
            // Waiting for it cannot fail: the sender is here.
            drop(stopped.wait_for(|stop| *stop >= Stop::Soon).await);
            let drained = async {
                shared.ending.store(true, Ordering::Release);
                tokio::time::sleep(options.notice).await;
                shared.closing.store(true, Ordering::Release);
                closing.send_replace(true);
                shared.back.drain();
                let deadline = Instant::now() + options.drain;
                while !connections.is_empty() && Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                () = drained => {}
                _ = stopped.wait_for(|stop| *stop == Stop::Now) => {}
            }
            let unanswered = connections.requests();
            connections.close();
            Ended { unanswered }
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        ended
    }
}

fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = address else { return Ok(None) };
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A server that is started again takes its address back at once.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map(Some).map_err(|source| BindError::Address { address, source })
}

#[cfg(unix)]
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
