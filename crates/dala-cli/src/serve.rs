//! `dala serve`: models and pipelines over the network.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dala_plan::PipelineText;
use dala_serve::{
    Backend, House, HouseOptions, Kind, Listing, Options, Port, QueueLimits, Refusal, Server, State, TlsFiles,
};

use crate::device::warn_if_kernels_are_not_kept;
use crate::output::{self, Outcome};
use crate::serve_args::ServeArgs;

/// Where a server listens if nobody says: where clients of the protocol look first.
const HTTP: &str = "127.0.0.1:8000";
const GRPC: &str = "127.0.0.1:8001";

pub(crate) fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<Outcome> {
    let limits = QueueLimits {
        items: args.queue,
        bytes: args.queue_bytes,
        caller_percent: args.caller_share,
        overtakes: true,
        ..QueueLimits::default()
    };
    let options = HouseOptions {
        device: args.device.clone(),
        threads: args.threads,
        limits,
        sizes: args.batch.clone(),
        ..HouseOptions::default()
    };
    #[cfg(feature = "otel")]
    let _traces = dala_serve::Traces::send()?;
    warn_if_kernels_are_not_kept();
    let house = House::open(options).map_err(|refusal| anyhow!("{refusal}"))?;
    // Who asks meanwhile is told that it is not ready yet, and whoever wants to end it need not wait.
    let opening = house.opening();
    let server = Server::bind(options_of(args)?, Arc::new(house.clone())).map_err(anyhow::Error::new)?;
    let scheme = if args.tls_key.is_some() { "https" } else { "http" };
    let http = server.http_address().map(|address| format!("{scheme}://{address}"));
    let grpc = server.grpc_address().map(|address| format!("gRPC at {address}"));
    let agent = server.agent_address().map(|address| format!("agent check at {address}"));
    let places: Vec<String> = http.into_iter().chain(grpc).chain(agent).collect();
    server.stop_on_signals();
    let stopper = server.stopper();
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| server.run());
        let filled = fill(&house, args, out).and_then(|()| {
            drop(opening);
            writeln!(out, "listening: {}; Ctrl-C ends it", places.join(", "))?;
            Ok(out.flush()?)
        });
        if filled.is_err() {
            stopper.stop_now();
        }
        let ended = running.join().map_err(|_| anyhow!("the server's thread panicked"))?;
        filled.map(|()| ended)
    })?;
    match ended.unanswered {
        0 => writeln!(out, "ended: every request was answered")?,
        left => writeln!(out, "ended: {} not answered in time", output::count(left as usize, "request", "requests"))?,
    }
    Ok(Outcome::Success)
}

/// Puts everything into the house that is to be there from the beginning.
fn fill(house: &House, args: &ServeArgs, out: &mut dyn Write) -> Result<()> {
    for what in &args.what {
        let begun = Instant::now();
        let name = add(house, what)?;
        tell(house, &name, begun.elapsed(), out)?;
    }
    let Some(folder) = &args.models else { return Ok(()) };
    let (known, begun) = (house.index(), Instant::now());
    house.watch(folder).map_err(|refusal| anyhow!("{refusal}"))?;
    let is_new = |entry: &Listing| !known.iter().any(|other| other.name == entry.name);
    for entry in house.index().into_iter().filter(is_new) {
        tell(house, &entry.name, begun.elapsed(), out)?;
    }
    Ok(())
}

fn options_of(args: &ServeArgs) -> Result<Options> {
    let (http, grpc) = match (args.http, args.grpc) {
        (None, None) => (Some(HTTP.parse()?), Some(GRPC.parse()?)),
        given => given,
    };
    let tls = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate: certificate.clone(), key: key.clone() }),
        _ => None,
    };
    let mut options = Options {
        http,
        grpc,
        agent: args.agent,
        tls,
        tokens: args.tokens.clone(),
        may_load: args.allow_load,
        notice: args.notice.unwrap_or_default(),
        drain: args.drain,
        ..Options::default()
    };
    options.limits.body_bytes = args.max_body;
    // Whatever has a place in the queue has one here, and the largest body fits.
    options.limits.requests = options.limits.requests.max(args.queue as usize);
    options.limits.held_bytes =
        usize::try_from(args.queue_bytes).unwrap_or(usize::MAX).max(args.max_body.saturating_mul(2));
    options.limits.connections = args.connections;
    options.limits.per_second = args.rate;
    Ok(options)
}

/// Serves one thing, and says by which name.
fn add(house: &House, what: &str) -> Result<String> {
    let (name, source) = match what.split_once('=') {
        // A chain has params, which are written with the same sign, behind a bracket.
        Some((name, source)) if !name.contains('(') => (Some(name), source),
        _ => (None, what),
    };
    let path = Path::new(source);
    let is_file = path.extension().is_some_and(|kind| kind == "onnx" || kind == "toml");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_file);
    let Some(name) = name.or(stem) else {
        bail!("`{what}` has no name to be served by: write NAME='{what}'");
    };
    if name.is_empty() || name.contains('/') {
        bail!("`{name}` is no name that can be part of an address");
    }
    let added = match is_file {
        true => house.add_file(name, path),
        false => {
            let text = PipelineText::from_chain(source).with_context(|| what.to_owned())?;
            house.add_pipeline(name, text)
        }
    };
    added.map_err(|refusal| match refusal {
        Refusal::NotReady { reason, .. } => anyhow!("`{name}` cannot be served: {reason}"),
        other => anyhow!("{other}"),
    })?;
    Ok(name.to_owned())
}

/// `mobilenet_v2: input FP32 {?, 3, 224, 224} -> output FP32 {?, 1000}, ready after 2.1 s`.
fn tell(house: &House, name: &str, took: Duration, out: &mut dyn Write) -> Result<()> {
    let Some(entry) = house.index().into_iter().find(|entry| &*entry.name == name) else { return Ok(()) };
    if entry.state != State::Ready {
        output::warn(&format!("{name} is not served: {}", entry.reason));
        return Ok(());
    }
    let what = match entry.kind {
        Kind::Pipeline => "a pipeline for pictures".to_owned(),
        Kind::Model => {
            let info = house.model(name, None).map_err(|refusal| anyhow!("{refusal}"))?;
            format!("{} -> {}", ports(&info.inputs), ports(&info.outputs))
        }
    };
    writeln!(out, "{name}: {what}, ready after {:.1} s", took.as_secs_f64())?;
    Ok(())
}

fn ports(ports: &[Port]) -> String {
    let size = |size: &Option<usize>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    let one = |port: &Port| {
        let sizes: Vec<String> = port.shape.iter().map(size).collect();
        format!("{} {} {{{}}}", port.name, port.datatype, sizes.join(", "))
    };
    ports.iter().map(one).collect::<Vec<_>>().join(", ")
}
