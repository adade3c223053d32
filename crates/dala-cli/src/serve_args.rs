//! The arguments of `dala serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::parsers::{positive, rate, time};

#[derive(Debug, Args)]
#[command(after_help = "\
WHAT is a model (cat.onnx), a pipeline file (sketch.toml), or either with a name of its own (cats=cat.onnx); or a chain of kernels with a
name: soft='blur(radius=3) | grayscale'. Without --http and --grpc it listens at 127.0.0.1:8000 and 127.0.0.1:8001.

Examples:
  dala serve mobilenet_v2.onnx
  dala serve --models models --http 0.0.0.0:8000 --tokens tokens.txt --tls-certificate cert.pem --tls-key key.pem
  dala serve soft='blur(radius=3)'
  curl --data-binary @photo.jpg http://127.0.0.1:8000/v1/pipelines/soft -o soft.png")]
pub(crate) struct ServeArgs {
    /// What is served
    #[arg(value_name = "WHAT", required_unless_present = "models")]
    pub(crate) what: Vec<String>,
    /// Serve the models and pipelines of a folder, and follow it: what changes is replaced when it is ready
    #[arg(long, value_name = "FOLDER")]
    pub(crate) models: Option<PathBuf>,
    /// Where HTTP is spoken
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// Where gRPC is spoken
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) grpc: Option<SocketAddr>,
    /// Where load balancers are told how much to send: the agent check of HAProxy
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) agent: Option<SocketAddr>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Threads of a CPU device [default: one for each core]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// How many items runs are planned for
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: Vec<u32>,
    /// Items of requests that wait or run at most
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) queue: u32,
    /// Bytes of requests that wait or run at most
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20)]
    pub(crate) queue_bytes: u64,
    /// The part of the queue, in percent, that one caller may have
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) caller_share: u32,
    /// A file of bearer tokens, one a line; without it everybody may ask
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// The certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let clients load and unload models
    #[arg(long)]
    pub(crate) allow_load: bool,
    /// The largest body of a request
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) max_body: usize,
    /// Requests a second for each caller, on average [default: any number]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = positive)]
    pub(crate) connections: usize,
    /// How long it still takes requests when it is told to end, so that routers learn of it first
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) notice: Option<Duration>,
    /// How long it then waits for what it took in
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) drain: Duration,
}
