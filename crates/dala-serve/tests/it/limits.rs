//! What clients may take: tokens, rates, sizes, places.

use std::io::Write;
use std::time::{Duration, Instant};

use dala_serve::wire::messages::{Empty, ModelInferResponse, ServerMetadataResponse, Yes};
use dala_serve::{BindError, Limits, Options, Server};

use crate::calls::{call, frame, raw};
use crate::http::{INFER, request};
use crate::running::{Running, options};

fn limited(limits: Limits) -> Running {
    Running::with(Options { limits, ..options() })
}

/// A file of this text that is there as long as it is held.
pub(crate) struct File(pub(crate) std::path::PathBuf);

impl File {
    pub(crate) fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("dala-serve-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

#[test]
fn tokens_are_needed_where_there_are_some() {
    let file = File::new("tokens", "first-0123456789\nsecond-0123456789\n");
    let server = Running::with(Options { tokens: Some(file.0.clone()), ..options() });
    let wrong = [
        "",
        "Bearer",
        "Bearer first-012345678",
        "Bearer first-01234567890",
        "Basic first-0123456789",
        "first-0123456789",
    ];
    for path in ["/v2", "/v2/models/identity", "/metrics", "/v1/status", "/v2/models/nope"] {
        server.get(path).is_refused(401, "unauthorised");
        for header in wrong {
            let answer = server.send("GET", path, &[("Authorization", header)], b"");
            answer.is_refused(401, "unauthorised");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    server.send("POST", INFER, &[], &request()).is_refused(401, "unauthorised");
    for path in ["/v2/health/live", "/v2/health/ready", "/", "/openapi.json"] {
        assert_eq!(server.get(path).status, 200, "{path} says nothing of what is served");
    }
    let callers = ["Bearer first-0123456789", "Bearer second-0123456789", "bearer first-0123456789"].map(|header| {
        assert_eq!(server.send("POST", INFER, &[("Authorization", header)], &request()).status, 200);
        server.back.terms.lock().unwrap().unwrap().caller
    });
    assert_eq!(callers[0], callers[2], "a token is one caller over all of its connections");
    assert_ne!(callers[0], callers[1]);

    assert!(call(server.grpc, "ServerLive", &Empty {}).message::<Yes>().yes);
    call(server.grpc, "ServerMetadata", &Empty {}).is_refused(16, "unauthorised");
    call(server.grpc, "ModelInfer", &crate::grpc::request(1)).is_refused(16, "unauthorised");
    let path = "/inference.GRPCInferenceService/ServerMetadata";
    let headers = [("authorization", "Bearer second-0123456789")];
    raw(server.grpc, path, &headers, frame(&Empty {})).message::<ServerMetadataResponse>();
}

#[test]
fn servers_that_cannot_begin() {
    let bind = |options| Server::bind(options, std::sync::Arc::<crate::back::Told>::default()).err();
    let missing = Options { tokens: Some("/nowhere/tokens".into()), ..options() };
    assert!(matches!(bind(missing), Some(BindError::Tokens(_))));
    let short = File::new("short", "short");
    assert!(matches!(bind(Options { tokens: Some(short.0.clone()), ..options() }), Some(BindError::Tokens(_))));
    assert!(matches!(bind(Options::default()), Some(BindError::Nowhere)));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = Options { http: taken.local_addr().ok(), ..options() };
    assert!(matches!(bind(there), Some(BindError::Address { .. })));
}

#[test]
fn a_caller_may_ask_so_often() {
    // Once in an hour, however slow the machine is.
    let server = limited(Limits { per_second: Some(1.0 / 3600.0), ..Limits::default() });
    let mut client = server.client();
    let statuses: Vec<u16> = (0..5).map(|_| client.send("POST", INFER, &[], &request()).status).collect();
    assert_eq!(statuses, [200, 429, 429, 429, 429]);
    let answer = server.send("POST", INFER, &[], &request());
    answer.is_refused(429, "too_many");
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(wait > 1800 && wait <= 3600, "another connection is the same caller: {wait}");
    call(server.grpc, "ModelInfer", &crate::grpc::request(1)).is_refused(8, "too_many");

    let server = limited(Limits { per_second: Some(5.0), ..Limits::default() });
    crate::running::until(|| server.send("POST", INFER, &[], &request()).status == 429);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.send("POST", INFER, &[], &request()).status, 200, "later it may ask again");
}

#[test]
fn so_many_requests_at_a_time() {
    let server = limited(Limits { requests: 3, ..Limits::default() });
    server.back.holds.send_replace(true);
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.begin("POST", INFER, &[], request().len());
        client.stream.write_all(&request()).unwrap();
    }
    server.until_waiting(3);
    server.send("POST", INFER, &[], &request()).is_refused(503, "full");
    call(server.grpc, "ModelInfer", &crate::grpc::request(1)).is_refused(14, "full");
    assert_eq!(server.get("/v2/health/live").status, 200, "who only looks needs no place");
    server.back.holds.send_replace(false);
    clients.iter_mut().for_each(|client| assert_eq!(client.answer().unwrap().status, 200));
    assert_eq!(server.send("POST", INFER, &[], &request()).status, 200, "places come back");
}

#[test]
fn bodies_are_so_large() {
    let server = limited(Limits { body_bytes: 100_000, held_bytes: 250_000, ..Limits::default() });
    let mut client = server.client();
    client.begin("POST", INFER, &[], 1 << 30);
    client.answer().unwrap().is_refused(413, "too_large");
    assert!(client.is_closed());
    // Without a length.
    let mut client = server.client();
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.stream.write_all(head.as_bytes()).unwrap();
    let chunk = [&b"4000\r\n"[..], &[b' '; 0x4000], b"\r\n"].concat();
    for _ in 0..10 {
        let _sent = client.stream.write_all(&chunk);
    }
    client.answer().unwrap().is_refused(413, "too_large");
    call(server.grpc, "ModelInfer", &crate::grpc::request(10_000)).is_refused(8, "too_large");
    // Two that are held leave no room for a third.
    let held: Vec<_> = (0..2)
        .map(|_| {
            let mut client = server.client();
            client.begin("POST", INFER, &[], 100_000);
            client.stream.write_all(&[b' '; 99_999]).unwrap();
            client
        })
        .collect();
    crate::running::until(|| server.get("/v1/status").json()["held_bytes"] == 199_998);
    server.send("POST", INFER, &[], &[b' '; 99_999]).is_refused(503, "full");
    drop(held);
    crate::running::until(|| server.get("/v1/status").json()["held_bytes"] == 0);
    assert_eq!(server.send("POST", INFER, &[], &request()).status, 200);
    call(server.grpc, "ModelInfer", &crate::grpc::request(1000)).message::<ModelInferResponse>();
}

#[test]
fn heads_are_so_large() {
    let server = Running::new();
    let long = "x".repeat(100_000);
    let mut client = server.client();
    let head = format!("GET /v2 HTTP/1.1\r\nHost: x\r\nLong: {long}\r\n\r\n");
    let _sent = client.stream.write_all(head.as_bytes());
    assert_eq!(client.answer().map(|answer| answer.status), Some(431));
    let mut client = server.client();
    let many: String = (0..200).map(|index| format!("h{index}: x\r\n")).collect();
    client.stream.write_all(format!("GET /v2 HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes()).unwrap();
    assert_eq!(client.answer().map(|answer| answer.status), Some(431));
}

#[test]
fn clients_that_keep_still_are_closed() {
    // Each by itself: where this thread stands still, one that goes on would be closed for what is not meant.
    let moment = Duration::from_secs(1);
    let began = Instant::now();
    let heads = limited(Limits { head: moment, ..Limits::default() });
    let silent = heads.client();
    let mut slow_head = heads.client();
    slow_head.stream.write_all(b"GET /v2 HTTP/1.1\r\nHo").unwrap();
    let bodies = limited(Limits { patience: moment, ..Limits::default() });
    let mut slow_body = bodies.client();
    slow_body.begin("POST", INFER, &[], 100);
    slow_body.stream.write_all(b"{").unwrap();
    let idles = limited(Limits { idle: moment, ..Limits::default() });
    let mut idle = idles.client();
    assert_eq!(idle.send("GET", "/v2", &[], b"").status, 200);
    slow_body.answer().unwrap().is_refused(408, "too_slow");
    for mut client in [silent, slow_head, slow_body, idle] {
        assert!(client.is_closed());
    }
    assert!(began.elapsed() < Duration::from_secs(120));
    let shed = |server: &Running| {
        let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
        metrics.lines().find_map(|line| line.strip_prefix("dala_connections_shed_total ")).map(str::to_owned)
    };
    assert_eq!([shed(&heads).as_deref(), shed(&idles).as_deref()], [Some("2"), Some("1")]);
}

#[test]
fn the_connection_that_waited_longest_makes_room() {
    let server = limited(Limits { connections: 4, ..Limits::default() });
    server.back.holds.send_replace(true);
    let mut busy = server.client();
    busy.begin("POST", INFER, &[], request().len());
    busy.stream.write_all(&request()).unwrap();
    server.until_waiting(1);
    let mut old = server.client();
    old.stream.write_all(b"GET").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut others: Vec<_> = (0..10).map(|_| server.client()).collect();
    let last = others.last_mut().unwrap();
    assert_eq!(last.send("GET", "/v2", &[], b"").status, 200);
    assert!(old.is_closed());
    server.back.holds.send_replace(false);
    assert_eq!(busy.answer().unwrap().status, 200, "one that is worked on stays");
    // When all are worked on, there is no room.
    drop((busy, old, others));
    let mut first = server.client();
    crate::running::until(|| first.send("GET", "/v1/status", &[], b"").json()["connections"] == 1);
    server.back.holds.send_replace(true);
    let mut all: Vec<_> = std::iter::once(first).chain((0..3).map(|_| server.client())).collect();
    for client in &mut all {
        client.begin("POST", INFER, &[], request().len());
        client.stream.write_all(&request()).unwrap();
    }
    server.until_waiting(4);
    server.client().answer().unwrap().is_refused(503, "full");
}
