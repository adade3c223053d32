//! How a server is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where HTTP is spoken; port 0 takes any that is free.
    pub http: Option<SocketAddr>,
    /// Where gRPC is spoken.
    pub grpc: Option<SocketAddr>,
    /// Where load balancers are told in a line how much to send: the agent check of HAProxy.
    pub agent: Option<SocketAddr>,
    /// What makes connections private; without it they are plain.
    pub tls: Option<TlsFiles>,
    /// A file of bearer tokens, one a line; without it everybody may ask.
    pub tokens: Option<PathBuf>,
    /// Whether clients may load and unload models.
    pub may_load: bool,
    /// What clients may take.
    pub limits: Limits,
    /// Threads that read requests and write answers. Models run on others.
    pub threads: usize,
    /// How long a server that is told to end still takes requests, so that routers learn of it first.
    pub notice: Duration,
    /// How long it then waits for what it took in.
    pub drain: Duration,
}

/// Files in PEM format.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What clients may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest body, before and after decompression.
    pub body_bytes: usize,
    /// All bodies that are held at a time.
    pub held_bytes: usize,
    /// The names and values before a body.
    pub head_bytes: usize,
    /// Connections at a time. When there is one more, the one that waited longest for its client makes room.
    pub connections: usize,
    /// Requests at a time.
    pub requests: usize,
    /// Requests a second for each caller, on average; without it any number.
    pub per_second: Option<f64>,
    /// How long a client may take to begin a request, once it connected or sent a first byte of it.
    pub head: Duration,
    /// How long a connection may do nothing.
    pub idle: Duration,
    /// How long a client may stop and start while it sends a body or takes an answer; at 64 KiB a second it may go on for ever.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            http: None,
            grpc: None,
            agent: None,
            tls: None,
            tokens: None,
            may_load: false,
            limits: Limits::default(),
            threads: 2,
            notice: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 64 << 20,
            held_bytes: 512 << 20,
            head_bytes: 16 << 10,
            connections: 2048,
            requests: 1024,
            per_second: None,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            patience: Duration::from_secs(15),
        }
    }
}
