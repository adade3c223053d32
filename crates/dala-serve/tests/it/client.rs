//! HTTP over a plain socket, so that anything can be sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The body as JSON; up to what follows it, where something does.
    pub(crate) fn json(&self) -> Value {
        let length = self.header("inference-header-content-length").map(|length| length.parse::<usize>().unwrap());
        let text = &self.body[..length.unwrap_or(self.body.len())];
        serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
    }

    /// Checks that it is a refusal of this kind, with a body that says so.
    pub(crate) fn is_refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        let said = self.json();
        assert_eq!(said["code"], code, "{said}");
        assert!(!said["error"].as_str().unwrap().is_empty());
        assert_eq!(self.header("content-type"), Some("application/json"));
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        Client { stream, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.begin(method, path, headers, body.len());
        // A server that refuses does not have to read all of it.
        let _sent = self.stream.write_all(body);
        self.answer().unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Sends the head of a request.
    pub(crate) fn begin(&mut self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        self.stream.write_all((head + "\r\n").as_bytes()).unwrap();
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let count = self.stream.read(&mut buffer).unwrap_or(0);
        self.read.extend_from_slice(&buffer[..count]);
        count > 0
    }

    /// Reads an answer; nothing, if the connection ends before one.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if !self.fill() {
                return None;
            }
        };
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<(String, String)> = lines.map(header).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length: usize = answer.header("content-length").unwrap_or("0").parse().unwrap();
        while self.read.len() < end + 4 + length {
            if !self.fill() {
                return None;
            }
        }
        answer.body = self.read[end + 4..end + 4 + length].to_vec();
        self.read.drain(..end + 4 + length);
        Some(answer)
    }

    /// Whether the server closed the connection: reads to its end.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.fill() {}
        // The end, or a reset; not the time that reads have.
        !matches!(self.stream.read(&mut [0]), Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
    }
}
