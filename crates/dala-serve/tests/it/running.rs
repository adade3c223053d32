//! A server that runs for as long as a test needs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dala_serve::{Ended, Options, Server, Stopper};

use crate::back::Told;
use crate::client::{Answer, Client};

pub(crate) struct Running {
    pub(crate) back: Arc<Told>,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) agent: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Ended>>,
}

/// Options of a server on ports of its own.
pub(crate) fn options() -> Options {
    let any = "127.0.0.1:0".parse().ok();
    Options { http: any, grpc: any, agent: any, ..Options::default() }
}

impl Running {
    pub(crate) fn new() -> Running {
        Running::with(options())
    }

    pub(crate) fn with(options: Options) -> Running {
        let back = Arc::new(Told::default());
        let server = Server::bind(options, back.clone()).unwrap();
        let addresses = [server.http_address(), server.grpc_address(), server.agent_address()];
        let [http, grpc, agent] = addresses.map(Option::unwrap);
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.run()));
        Running { back, http, grpc, agent, stopper, thread }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.http)
    }

    /// Sends one request over a connection of its own.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.client().send(method, path, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// Begins the end, and does not wait for it.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    /// Ends it without waiting for anything.
    pub(crate) fn stop_now(&self) {
        self.stopper.stop_now();
    }

    pub(crate) fn ended(mut self) -> Ended {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until so many requests wait in the back.
    #[track_caller]
    pub(crate) fn until_waiting(&self, count: usize) {
        until(|| self.back.waiting.load(Ordering::SeqCst) == count);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.back.holds.send_replace(false);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Waits until something is so; fails if it never is.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "it never became so");
        std::thread::sleep(Duration::from_millis(2));
    }
}
