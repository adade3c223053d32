//! Spans as a collector of OpenTelemetry receives them.

use std::io::{Read, Write};
use std::net::TcpListener;

use dala_serve::Traces;

use crate::http::{INFER, request};
use crate::running::Running;

/// Whether some bytes hold others.
fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_request_is_part_of_the_trace_that_it_names() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    // SAFETY: nothing else of this test binary reads the environment while it is changed.
    unsafe { std::env::set_var("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")) };
    let traces = Traces::send().unwrap();
    assert!(Traces::send().is_err(), "a process has one receiver");
    let server = Running::new();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    assert_eq!(server.send("POST", INFER, &[("traceparent", &parent)], &request()).status, 200);
    let received = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).unwrap();
            received.extend_from_slice(&buffer[..count]);
            if count == 0 || holds(&received, b"identity") {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        received
    });
    drop(traces);
    let received = received.join().unwrap();
    assert!(received.starts_with(b"POST /v1/traces HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&received));
    let bytes: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&trace[2 * at..2 * at + 2], 16).unwrap()).collect();
    for part in [&b"infer"[..], b"identity", b"dala-serve", &bytes] {
        assert!(holds(&received, part), "{part:?} is not in {}", String::from_utf8_lossy(&received));
    }
}
