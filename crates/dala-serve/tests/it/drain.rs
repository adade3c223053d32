//! The end of a server: nothing that was taken in is lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dala_serve::wire::messages::{ModelInferResponse, Yes};
use dala_serve::{Load, Options};

use crate::calls::call;
use crate::client::Client;
use crate::http::{INFER, request};
use crate::running::{Running, options, until};

/// A client that has asked, and does not wait for the answer.
fn asked(server: &Running) -> Client {
    let mut client = server.client();
    client.begin("POST", INFER, &[], request().len());
    client.stream.write_all(&request()).unwrap();
    client
}

#[test]
fn what_was_taken_in_is_answered() {
    let server = Running::with(Options { drain: Duration::from_secs(120), ..options() });
    server.back.holds.send_replace(true);
    let mut idle = server.client();
    assert_eq!(idle.send("GET", "/v2", &[], b"").status, 200);
    let mut waiting = asked(&server);
    let grpc = server.grpc;
    let called = std::thread::spawn(move || call(grpc, "ModelInfer", &crate::grpc::request(1)));
    server.until_waiting(2);
    server.stop();
    assert!(idle.is_closed(), "who does nothing is told that it is over");
    until(|| TcpStream::connect(server.http).is_err());
    assert!(!called.is_finished());
    server.back.holds.send_replace(false);
    assert_eq!(waiting.answer().unwrap().status, 200);
    assert!(waiting.is_closed());
    called.join().unwrap().message::<ModelInferResponse>();
    assert_eq!(server.ended().unanswered, 0);
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let server = Running::with(Options { drain: Duration::from_millis(300), ..options() });
    server.back.holds.send_replace(true);
    let _client = asked(&server);
    server.until_waiting(1);
    let began = Instant::now();
    assert_eq!(server.ended().unanswered, 1);
    assert!(began.elapsed() < Duration::from_secs(120));
}

#[test]
fn who_is_told_twice_does_not_wait() {
    let server = Running::with(Options { notice: Duration::from_secs(3600), ..options() });
    server.back.holds.send_replace(true);
    let _client = asked(&server);
    server.until_waiting(1);
    let began = Instant::now();
    server.stop();
    until(|| server.get("/v2/health/ready").status == 503);
    server.stop_now();
    assert_eq!(server.ended().unanswered, 1);
    assert!(began.elapsed() < Duration::from_secs(120));
}

#[test]
fn routers_learn_of_it_first() {
    let server = Running::with(Options { notice: Duration::from_secs(3600), ..options() });
    let agent = |server: &Running| {
        let mut said = String::new();
        TcpStream::connect(server.agent).unwrap().read_to_string(&mut said).unwrap();
        said
    };
    assert_eq!(agent(&server), "ready up 100%\n");
    *server.back.load.lock().unwrap() = Load { fullness: 0.25, ..Load::default() };
    assert_eq!(agent(&server), "ready up 75%\n");
    *server.back.load.lock().unwrap() = Load { fullness: 1.0, ..Load::default() };
    assert_eq!(agent(&server), "ready up 1%\n");
    server.stop();
    until(|| server.get("/v2/health/ready").status == 503);
    assert_eq!(agent(&server), "drain\n");
    assert!(!call(server.grpc, "ServerReady", &dala_serve::wire::messages::Empty {}).message::<Yes>().yes);
    assert_eq!(server.get("/v2/health/live").status, 200);
    assert_eq!(server.send("POST", INFER, &[], &request()).status, 200, "requests are still taken");
    server.stop_now();
}
