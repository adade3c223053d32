//! Clients that mean harm: the server goes on, refuses by name, and takes no more memory than it may.
//!
//! It runs in a process of its own, so that its memory can be told from that of its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dala_serve::double::Identity;
use dala_serve::wire::compression::Encoding;
use dala_serve::{Limits, Options, Server};
use prost::Message;

use crate::calls::{framed, raw};
use crate::client::Client;
use crate::http::{INFER, request};
use crate::running::options;

const CALL: &str = "/inference.GRPCInferenceService/ModelInfer";

/// What the server of these tests allows.
fn limits() -> Limits {
    Limits {
        body_bytes: 8 << 20,
        held_bytes: 32 << 20,
        connections: 400,
        head: Duration::from_secs(5),
        patience: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// The server's process: not a test, but what tests start.
#[test]
#[ignore = "tests start it in a process of its own"]
fn alone() {
    let options = Options { limits: limits(), ..options() };
    let server = Server::bind(options, Arc::new(Identity::default())).unwrap();
    println!("\nat {} {}", server.http_address().unwrap(), server.grpc_address().unwrap());
    let stopper = server.stopper();
    std::thread::spawn(move || {
        let _end = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    server.run();
}

struct Alone {
    child: Child,
    /// As long as it is read from, the child can write.
    _said: BufReader<ChildStdout>,
    http: SocketAddr,
    grpc: SocketAddr,
}

impl Alone {
    fn new() -> Alone {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hostile::alone", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let line = said.by_ref().lines().map(Result::unwrap).find(|line| line.starts_with("at ")).unwrap();
        let addresses: Vec<SocketAddr> = line.split(' ').skip(1).map(|address| address.parse().unwrap()).collect();
        Alone { child, _said: said, http: addresses[0], grpc: addresses[1] }
    }

    /// What it takes of the machine's memory.
    fn memory(&self) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap_or_default();
        text.split(' ').nth(1).map_or(0, |pages| pages.parse::<usize>().unwrap() * 4096)
    }

    /// It answers those who mean well, soon.
    fn is_well(&self) {
        let began = Instant::now();
        assert_eq!(Client::new(self.http).send("POST", INFER, &[], &request()).status, 200);
        let message = crate::grpc::request(1).encode_to_vec();
        assert_eq!(raw(self.grpc, CALL, &[], framed(0, &message)).status, 0);
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }

    /// It took little more memory than before.
    fn has_grown_little(&self, before: usize) {
        let grown = self.memory().saturating_sub(before) >> 20;
        assert!(grown < 48, "it grew by {grown} MiB");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let ended = self.child.wait().unwrap();
        assert!(ended.success() || std::thread::panicking(), "{ended}");
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// A few changes to a text.
    fn changed(&mut self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for _ in 0..=self.next(4) {
            if text.is_empty() {
                break;
            }
            let at = self.next(text.len());
            match self.next(6) {
                0 => text[at] = self.next(256) as u8,
                1 => text.insert(at, b"[]{}\",:0-9.eE\\"[self.next(14)]),
                2 => drop(text.remove(at)),
                3 => text.truncate(at),
                4 => {
                    let piece = text[at..(at + self.next(30)).min(text.len())].to_vec();
                    let to = self.next(text.len());
                    text.splice(to..to, piece);
                }
                _ => {
                    let number =
                        ["99999999999999999999", "-1", "1e999", "0.0000001", "null", "\"\\ud800\""][self.next(6)];
                    text.splice(at..at, number.bytes());
                }
            }
        }
        text
    }
}

#[test]
fn damaged_bodies_are_refused_by_name() {
    let server = Alone::new();
    let mut random = Random(0x1234_5678_9abc_def1);
    let json = serde_json::json!({ "id": "a", "parameters": { "priority": 1, "binary_data_output": true },
        "inputs": [{ "name": "input", "shape": [2, 4], "datatype": "FP32", "data": [[1, 2, 3, 4], [5.5, -6e-3, 0, 8]] }],
        "outputs": [{ "name": "output", "parameters": { "binary_data": false } }] });
    let json = json.to_string();
    let mut client = Client::new(server.http);
    let mut statuses = std::collections::BTreeMap::new();
    for round in 0..5000 {
        let body = random.changed(json.as_bytes());
        let length = random.next(body.len() + 3).to_string();
        let headers = [("Inference-Header-Content-Length", &*length)];
        let answer = client.send("POST", INFER, if round % 4 == 0 { &headers } else { &[] }, &body);
        assert!(
            matches!(answer.status, 200 | 400 | 413 | 501),
            "{}: {}",
            answer.status,
            String::from_utf8_lossy(&body)
        );
        answer.json();
        *statuses.entry(answer.status).or_insert(0) += 1;
    }
    assert!(statuses[&200] > 50 && statuses[&400] > 2000, "{statuses:?}");
    let message = crate::grpc::request(2).encode_to_vec();
    let mut calls = std::collections::BTreeMap::new();
    for _ in 0..500 {
        let status = raw(server.grpc, CALL, &[], framed(0, &random.changed(&message))).status;
        assert!(matches!(status, 0 | 3 | 5 | 12), "{status}");
        *calls.entry(status).or_insert(0) += 1;
    }
    assert!(calls[&3] > 100, "{calls:?}");
    server.is_well();
}

#[test]
fn bytes_that_are_no_protocol() {
    let server = Alone::new();
    let mut random = Random(0xfeed_beef_1234_5671);
    let before = server.memory();
    let heads: [&[u8]; 6] = [
        b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\x25\0\0\0\x01\xff\xff\xff\xff\xff",
        b"GET http://[::1/v2 HTTP/1.1\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\n\r\n",
    ];
    for round in 0..600 {
        let address = if round % 2 == 0 { server.http } else { server.grpc };
        let bytes = random.changed(heads[round / 2 % 6]);
        let mut stream = TcpStream::connect(address).unwrap();
        let _sent = stream.write_all(&bytes);
        let _shut = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        let _read = stream.read_to_end(&mut answer);
    }
    server.is_well();
    server.has_grown_little(before);
}

#[test]
fn bombs_and_bodies_without_end() {
    let server = Alone::new();
    server.is_well();
    let before = server.memory();
    let bomb = Encoding::Gzip.compress(&vec![Bytes::from(vec![b' '; 16 << 20]); 16]).unwrap();
    assert!(bomb.len() < 2 << 20, "256 MiB in {} KiB", bomb.len() >> 10);
    for _ in 0..20 {
        let answer = Client::new(server.http).send("POST", INFER, &[("Content-Encoding", "gzip")], &bomb);
        answer.is_refused(413, "too_large");
        raw(server.grpc, CALL, &[("grpc-encoding", "gzip")], framed(1, &bomb)).is_refused(8, "too_large");
    }
    server.has_grown_little(before);
    for _ in 0..20 {
        let mut client = Client::new(server.http);
        client.begin("POST", INFER, &[], 1 << 30);
        // It goes on sending, whatever it is told.
        let chunk = vec![b' '; 1 << 20];
        for _ in 0..32 {
            if client.stream.write_all(&chunk).is_err() {
                break;
            }
        }
        if let Some(answer) = client.answer() {
            answer.is_refused(413, "too_large");
        }
    }
    server.is_well();
    server.has_grown_little(before);
    // Numbers that take more memory than their text.
    let wide = format!(
        r#"{{"inputs":[{{"name":"INPUT_FP64","datatype":"FP64","shape":[500000,4],"data":[{}0]}}]}}"#,
        "0,".repeat(1_999_999)
    );
    let answer = Client::new(server.http).send("POST", "/v2/models/every_type/infer", &[], wide.as_bytes());
    answer.is_refused(413, "too_large");
    server.is_well();
}

/// How many slow connections there are; more than a process may have open by itself are for longer checks.
fn slow_connections() -> usize {
    std::env::var("DALA_SLOW_CONNECTIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(1000).min(20_000)
}

#[test]
fn slow_connections_lock_nobody_out() {
    let server = Alone::new();
    server.is_well();
    let before = server.memory();
    let mut slow = Vec::new();
    for index in 0..slow_connections() {
        let address = if index % 4 == 3 { server.grpc } else { server.http };
        let Ok(mut stream) = TcpStream::connect(address) else {
            eprintln!("{index} connections: this process may not have more open");
            break;
        };
        let begun: &[u8] = match index % 4 {
            0 => b"",
            1 => b"GET /v2 HT",
            2 => b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
            _ => b"PRI * HTTP/2.0\r\n\r\nSM",
        };
        let _sent = stream.write_all(begun);
        slow.push(stream);
        if index % 100 == 99 {
            server.is_well();
        }
    }
    // They go on, a byte at a time.
    for _ in 0..3 {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b" ")));
        server.is_well();
    }
    server.has_grown_little(before);
    let began = Instant::now();
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_open = ended.is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::WouldBlock));
        assert!(!is_open, "one was left open for {:?}", began.elapsed());
    }
    server.is_well();
}

#[test]
fn clients_that_take_no_answers() {
    let server = Alone::new();
    let before = server.memory();
    let rows = 20_000;
    let text = format!(
        r#"{{"parameters":{{"binary_data_output":true}},"inputs":[{{"name":"input","shape":[{rows},4],"datatype":"FP32","parameters":{{"binary_data_size":{}}}}}]}}"#,
        rows * 16
    );
    let length = text.len().to_string();
    let body = [text.as_bytes(), &vec![0; rows * 16]].concat();
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = Client::new(server.http);
        client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        for _ in 0..20 {
            client.begin("POST", INFER, &[("Inference-Header-Content-Length", &length)], body.len());
            if client.stream.write_all(&body).is_err() {
                break;
            }
        }
        clients.push(client);
    }
    server.is_well();
    server.has_grown_little(before);
}
