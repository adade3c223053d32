//! Callers that count what becomes of every request.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a caller waits for an answer before it counts as lost.
const LOST: Duration = Duration::from_secs(30);

/// Rows of four numbers that fail the run that reads them, where faults are built in.
pub(super) const POISON: [u8; 16] = *b"POISONPOISONPOIS";

/// Requests of one kind.
#[derive(Clone)]
pub(super) struct Load<'a> {
    pub(super) to: SocketAddr,
    /// At a time.
    pub(super) connections: usize,
    /// Requests a second, however the others fare; without it each connection asks when it was answered.
    pub(super) rate: Option<f64>,
    pub(super) time: Duration,
    pub(super) deadline: Option<Duration>,
    pub(super) lane: &'static str,
    /// Each request of a number that this divides is poisoned.
    pub(super) poison_every: u64,
    /// Asks what a model of rows makes of a number, unless it says otherwise.
    pub(super) body: Option<&'a [u8]>,
    /// Ends it before its time.
    pub(super) stop: &'a AtomicBool,
}

/// What became of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// By their codes.
    pub(super) refused: BTreeMap<String, u64>,
    /// No answer at all.
    pub(super) lost: u64,
    /// The connection was closed before a byte of the request was read: it was never taken, and can be sent elsewhere.
    pub(super) untaken: u64,
    /// A second answer, or that to another request.
    pub(super) doubled: u64,
    pub(super) poisoned: u64,
    /// How long answers took, from when the request was due.
    pub(super) times: Vec<Duration>,
    /// The longest that any answer or refusal came after its deadline.
    pub(super) overdue: Duration,
    pub(super) took: Duration,
}

enum End {
    Answered,
    Refused(String),
    Doubled,
    Lost,
    Untaken,
}

impl Tally {
    pub(super) fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.answered as f64 / self.took.as_secs_f64()
    }

    /// The time within which this share of the answers came.
    pub(super) fn within(&self, share: f64) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(place).copied().unwrap_or_default()
    }

    /// Every request came to one end.
    pub(super) fn is_whole(&self) {
        assert_eq!((self.lost, self.doubled), (0, 0), "{self}");
        assert_eq!(self.asked, self.answered + self.refusals() + self.untaken, "{self}");
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.lost += other.lost;
        self.untaken += other.untaken;
        self.doubled += other.doubled;
        self.poisoned += other.poisoned;
        self.times.extend(other.times);
        self.overdue = self.overdue.max(other.overdue);
        self.took = self.took.max(other.took);
        other.refused.into_iter().for_each(|(code, count)| *self.refused.entry(code).or_default() += count);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { asked, answered, refused, lost, untaken, doubled, poisoned, .. } = self;
        write!(f, "asked {asked}, answered {answered}, refused {refused:?}, lost {lost}, doubled {doubled}, ")?;
        write!(f, "not taken {untaken}, poisoned {poisoned}; {:.1} a second, ", self.per_second())?;
        let [middle, most, nearly_all] = [0.5, 0.99, 0.999].map(|share| self.within(share).as_secs_f64() * 1e3);
        write!(f, "p50 {middle:.1} ms, p99 {most:.1} ms, p99.9 {nearly_all:.1} ms, ")?;
        write!(f, "at most {:.1} ms after a deadline", self.overdue.as_secs_f64() * 1e3)
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(to: SocketAddr, connections: usize, time: Duration) -> Load<'a> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let (rate, deadline, poison_every, body) = (None, None, u64::MAX, None);
        Load { to, connections, rate, time, deadline, lane: "default", poison_every, body, stop: &NEVER }
    }

    /// Sends them, and counts.
    pub(super) fn run(&self) -> Tally {
        let (next, begun) = (AtomicU64::new(1), Instant::now());
        let mut all = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..self.connections).map(|_| scope.spawn(|| self.call(&next, begun))).collect();
            let mut all = Tally::default();
            callers.into_iter().for_each(|caller| all.add(caller.join().unwrap()));
            all
        });
        all.took = begun.elapsed();
        all
    }

    fn call(&self, next: &AtomicU64, begun: Instant) -> Tally {
        let mut tally = Tally::default();
        let mut connection = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = match self.rate {
                Some(rate) => begun + Duration::from_secs_f64(number as f64 / rate),
                None => Instant::now(),
            };
            if due - begun >= self.time || self.stop.load(Ordering::Relaxed) {
                return tally;
            }
            sleep(due.saturating_duration_since(Instant::now()));
            tally.asked += 1;
            tally.poisoned += u64::from(number.is_multiple_of(self.poison_every));
            let sent = Instant::now();
            let end = self.ask(&mut connection, number);
            if let Some(deadline) = self.deadline {
                tally.overdue = tally.overdue.max(sent.elapsed().saturating_sub(deadline));
            }
            match end {
                End::Answered => {
                    tally.answered += 1;
                    tally.times.push(due.elapsed());
                }
                End::Refused(code) => *tally.refused.entry(code).or_default() += 1,
                End::Doubled => tally.doubled += 1,
                End::Lost => tally.lost += 1,
                End::Untaken => tally.untaken += 1,
            }
        }
    }

    /// The bytes of a request.
    pub(super) fn request(&self, number: u64) -> Vec<u8> {
        let path = "/v2/models/net/infer";
        let mut head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\ndala-lane: {}\r\n", self.lane);
        if let Some(deadline) = self.deadline {
            head += &format!("dala-timeout-ms: {}\r\n", deadline.as_millis());
        }
        let row = match number % self.poison_every {
            0 => POISON,
            _ => *[number as f32; 4].map(f32::to_le_bytes).as_flattened().first_chunk().unwrap(),
        };
        let outputs = r#""outputs":[{"name":"y","parameters":{"binary_data":true}}]"#;
        let inputs = r#""inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]"#;
        let json = format!(r#"{{"id":"{number}",{inputs},{outputs}}}"#);
        let (length, body) = match self.body {
            Some(body) => (json_length(body), body.to_vec()),
            None => (json.len(), [json.as_bytes(), &row].concat()),
        };
        head += &format!("Inference-Header-Content-Length: {length}\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), &body].concat()
    }

    fn ask(&self, connection: &mut Option<Connection>, number: u64) -> End {
        let mut used = match connection.take() {
            Some(used) => used,
            None => match Connection::open(self.to) {
                Some(new) => new,
                // Nobody listens any more.
                None => return End::Untaken,
            },
        };
        if used.has_more() {
            return End::Doubled;
        }
        let sent = used.stream.write_all(&self.request(number));
        let Some((status, closes, body)) = used.answer() else {
            // Closed while nothing was under way: the server had read nothing of it.
            let untaken = sent.is_err() || used.was_reset;
            return if untaken && used.read.is_empty() { End::Untaken } else { End::Lost };
        };
        if !closes {
            *connection = Some(used);
        }
        if status != 200 {
            let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            return End::Refused(said["code"].as_str().unwrap_or("untold").to_owned());
        }
        let own = self.body.is_some() || {
            let text = String::from_utf8_lossy(&body);
            let id = format!(r#""id":"{number}""#);
            let expected = [-(number as f32); 4].map(f32::to_le_bytes);
            let absolute = [number as f32; 4].map(f32::to_le_bytes);
            text.contains(&id) && (body.ends_with(expected.as_flattened()) || body.ends_with(absolute.as_flattened()))
        };
        if own { End::Answered } else { End::Doubled }
    }
}

/// Where the JSON of a body ends and its tensors begin.
fn json_length(body: &[u8]) -> usize {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<serde_json::Value>();
    values.next().unwrap().unwrap();
    values.byte_offset()
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    read: Vec<u8>,
    was_reset: bool,
}

impl Connection {
    pub(super) fn open(to: SocketAddr) -> Option<Connection> {
        let stream = TcpStream::connect(to).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LOST)).unwrap();
        Some(Connection { stream, read: Vec::new(), was_reset: false })
    }

    /// Whether there is something that nobody asked for.
    fn has_more(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let more = matches!(self.stream.peek(&mut [0]), Ok(1..)) || !self.read.is_empty();
        self.stream.set_nonblocking(false).unwrap();
        more
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.was_reset |= count == 0;
                self.read.extend_from_slice(&buffer[..count]);
                count > 0
            }
            Err(error) => {
                self.was_reset |= matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
                false
            }
        }
    }

    /// Status, whether the connection ends, body.
    pub(super) fn answer(&mut self) -> Option<(u16, bool, Vec<u8>)> {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if !self.fill() {
                return None;
            }
        };
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap().to_ascii_lowercase();
        let value = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().to_owned())
        };
        let length: usize = value("content-length").map_or(0, |length| length.parse().unwrap());
        while self.read.len() < end + 4 + length {
            if !self.fill() {
                return None;
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let closes = value("connection").is_some_and(|value| value == "close");
        let body = self.read[end + 4..end + 4 + length].to_vec();
        self.read.drain(..end + 4 + length);
        Some((status, closes, body))
    }
}

/// Asks once, over a connection of its own.
pub(super) fn get(to: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut connection = Connection::open(to).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    connection.stream.write_all(head.as_bytes()).unwrap();
    let (status, _, body) = connection.answer().unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}
