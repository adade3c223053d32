//! What happened on a device, as a file for a trace viewer.
//!
//! The format is the JSON of trace events that `ui.perfetto.dev` and `chrome://tracing` open.

mod recorder;

use std::cmp::Reverse;
use std::time::Duration;

use dala_plan::draw::escape;
use dala_schedule::Lane;
use serde_json::{Map, Value, json};

pub(crate) use recorder::Recorder;

/// The one process of a trace: the device.
const PROCESS: u32 = 1;

/// What happened on a device, for people to look at. Times count from when the trace began.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The device's name.
    pub device: String,
    /// What took a while.
    pub spans: Vec<Span>,
    /// Numbers that change over time, such as memory in use.
    pub samples: Vec<Sample>,
}

/// Something that took a while.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it happened.
    pub track: Track,
    /// What it is called.
    pub name: String,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub length: Duration,
    /// What else there is to say, by name. Of two details of one name, the last counts.
    pub details: Vec<(String, String)>,
}

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// A command waited in a lane. Many may wait at a time.
    Queue(Lane),
    /// The device worked. Spans follow one another, or lie inside one another.
    Device,
}

impl Track {
    /// Every track, from top to bottom.
    const ALL: [Track; 4] =
        [Track::Queue(Lane::Interactive), Track::Queue(Lane::Default), Track::Queue(Lane::Background), Track::Device];

    fn name(self) -> String {
        match self {
            Track::Queue(lane) => format!("queue: {}", lane.name()),
            Track::Device => "device".to_owned(),
        }
    }

    /// The number of its thread.
    const fn thread(self) -> usize {
        match self {
            Track::Queue(lane) => lane.index() + 1,
            Track::Device => Lane::ALL.len() + 1,
        }
    }
}

/// A number at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was counted, with its unit if it has one: samples of one name become one curve.
    pub name: String,
    /// When it was.
    pub at: Duration,
    /// The number.
    pub value: u64,
}

/// A trace as the text of a JSON file that `ui.perfetto.dev` and `chrome://tracing` open.
pub fn to_perfetto(trace: &Trace) -> String {
    let mut spans: Vec<&Span> = trace.spans.iter().collect();
    // Viewers expect the outer of two spans that begin together first.
    spans.sort_by_key(|span| (span.start, Reverse(span.length)));
    let mut events: Vec<(Duration, Value)> = Vec::new();
    for (id, span) in spans.into_iter().enumerate() {
        match span.track {
            Track::Device => events.push((span.start, complete(span))),
            // Spans that overlap on one thread would be drawn as calls of one another; pairs with ids are not.
            Track::Queue(_) => {
                let end = span.start.saturating_add(span.length);
                events.push((span.start, half(span, "b", id, span.start)));
                events.push((end, half(span, "e", id, end)));
            }
        }
    }
    events.extend(trace.samples.iter().map(|sample| (sample.at, counter(sample))));
    // The sort is stable, so a span without length still begins before it ends.
    events.sort_by_key(|(at, _)| *at);
    let names = metadata(&trace.device);
    let events: Vec<Value> = names.into_iter().chain(events.into_iter().map(|(_, event)| event)).collect();
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}

/// The names of the process and of its threads.
fn metadata(device: &str) -> Vec<Value> {
    let about = |what: &str, thread: usize, args: Value| json!({ "ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": args });
    let mut events = vec![about("process_name", 0, json!({ "name": device }))];
    for track in Track::ALL {
        let thread = track.thread();
        events.push(about("thread_name", thread, json!({ "name": track.name() })));
        events.push(about("thread_sort_index", thread, json!({ "sort_index": thread })));
    }
    events
}

fn complete(span: &Span) -> Value {
    json!({
        "ph": "X",
        "name": span.name,
        "cat": "device",
        "pid": PROCESS,
        "tid": span.track.thread(),
        "ts": micros(span.start),
        "dur": micros(span.length),
        "args": details(span),
    })
}

/// The beginning or the end of a span that may overlap others.
fn half(span: &Span, phase: &str, id: usize, at: Duration) -> Value {
    let args = if phase == "b" { details(span) } else { Value::Object(Map::new()) };
    json!({
        "ph": phase,
        "name": span.name,
        "cat": span.track.name(),
        "id": id.to_string(),
        "pid": PROCESS,
        "tid": span.track.thread(),
        "ts": micros(at),
        "args": args,
    })
}

fn counter(sample: &Sample) -> Value {
    json!({
        "ph": "C",
        "name": sample.name,
        "pid": PROCESS,
        "tid": 0,
        "ts": micros(sample.at),
        "args": { "value": sample.value },
    })
}

fn details(span: &Span) -> Value {
    span.details.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
}

/// Viewers count in microseconds; the fraction keeps nanoseconds.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// The size of the drawing, in pixels: its width, and the height of one row.
const DRAWN_WIDTH: f64 = 960.0;
const ROW: f64 = 26.0;
/// Room for the names of the tracks.
const MARGIN: f64 = 150.0;

/// A drawing of a trace: a row for each track that something happened on, and one for memory. Meant for a few runs; a trace
/// viewer is better for long ones.
pub fn to_svg(trace: &Trace) -> String {
    let end = trace.spans.iter().map(|span| span.start + span.length).max().unwrap_or_default();
    let end = end.max(trace.samples.iter().map(|sample| sample.at).max().unwrap_or_default()).as_secs_f64().max(1e-9);
    let x = |at: Duration| MARGIN + at.as_secs_f64() / end * (DRAWN_WIDTH - MARGIN - 20.0);
    let tracks: Vec<Track> =
        Track::ALL.into_iter().filter(|track| trace.spans.iter().any(|span| span.track == *track)).collect();
    let mut body = String::new();
    for (row, track) in tracks.iter().enumerate() {
        let y = 44.0 + row as f64 * (ROW + 8.0);
        body += &text(12.0, y + 17.0, "track", &track.name());
        for span in trace.spans.iter().filter(|span| span.track == *track) {
            let (from, to) = (x(span.start), x(span.start + span.length));
            let width = (to - from).max(0.7);
            let class = if *track == Track::Device { color(&span.name) } else { "wait" };
            let title = format!("{}: {:.3} ms", span.name, span.length.as_secs_f64() * 1e3);
            body += &format!(
                "<rect class=\"{class}\" x=\"{from:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\" rx=\"2\"><title>{}</title></rect>\n",
                escape(&title)
            );
            // About six pixels to a letter.
            if width > 6.2 * span.name.len() as f64 + 8.0 {
                body += &text(from + 4.0, y + 17.0, "name", &span.name);
            }
        }
    }
    let top = 44.0 + tracks.len() as f64 * (ROW + 8.0);
    let most = trace.samples.iter().map(|sample| sample.value).max().unwrap_or(0).max(1) as f64;
    if !trace.samples.is_empty() {
        body += &text(12.0, top + 17.0, "track", "memory");
        let height = |value: u64| top + ROW - value as f64 / most * ROW;
        let mut path = format!("M{MARGIN:.2} {:.2}", top + ROW);
        for sample in &trace.samples {
            path += &format!(" H{:.2} V{:.2}", x(sample.at), height(sample.value));
        }
        path += &format!(" H{:.2} V{:.2} Z", DRAWN_WIDTH - 20.0, top + ROW);
        body += &format!("<path class=\"memory\" d=\"{path}\"/>\n");
    }
    let height = top + ROW + 40.0;
    let scale = format!("{:.3} ms", end * 1e3);
    let head = text(12.0, 24.0, "head", &format!("{}, {scale}", trace.device));
    let axis = format!(
        "<line class=\"axis\" x1=\"{MARGIN}\" x2=\"{:.0}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\n",
        DRAWN_WIDTH - 20.0,
        height - 24.0,
        height - 24.0
    );
    let ends = text(MARGIN, height - 8.0, "track", "0") + &text(DRAWN_WIDTH - 90.0, height - 8.0, "track", &scale);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {DRAWN_WIDTH:.0} {height:.0}\" class=\"dala-trace\">\n{STYLE}\
         <rect class=\"back\" width=\"{DRAWN_WIDTH:.0}\" height=\"{height:.0}\" rx=\"8\"/>\n{head}{body}{axis}{ends}</svg>\n"
    )
}

const STYLE: &str = "<style>.dala-trace text{font:12px system-ui,sans-serif;fill:#24292f}\
.dala-trace .head{font-weight:600;font-size:13px}.dala-trace .name{font-size:11px;fill:#fff}\
.dala-trace .track{fill:#57606a}.dala-trace .back{fill:#f6f8fa}.dala-trace .axis{stroke:#d0d7de}\
.dala-trace .wait{fill:#d4a72c}.dala-trace .memory{fill:#8250df;fill-opacity:.35;stroke:#8250df}\
.dala-trace .c0{fill:#0969da}.dala-trace .c1{fill:#1a7f37}.dala-trace .c2{fill:#bc4c00}.dala-trace .c3{fill:#cf222e}</style>\n";

/// One colour for everything of a name.
fn color(name: &str) -> &'static str {
    ["c0", "c1", "c2", "c3"][name.bytes().fold(7usize, |sum, byte| sum * 31 % 9973 + usize::from(byte)) % 4]
}

fn text(x: f64, y: f64, class: &str, content: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(track: Track, name: &str, start: u64, length: u64) -> Span {
        let details = vec![("bytes".to_owned(), "8.3 MB".to_owned())];
        let (start, length) = (Duration::from_nanos(start), Duration::from_nanos(length));
        Span { track, name: name.to_owned(), start, length, details }
    }

    fn sample(at: u64, value: u64) -> Sample {
        Sample { name: "memory in use".to_owned(), at: Duration::from_nanos(at), value }
    }

    fn busy() -> Trace {
        let (fast, slow) = (Track::Queue(Lane::Interactive), Track::Queue(Lane::Background));
        Trace {
            device: "a<b> \"c\"".to_owned(),
            spans: vec![
                span(Track::Device, "blur", 4_000, 1_500),
                span(slow, "resize", 1_000, 9_000),
                span(slow, "resize", 2_000, 9_000),
                span(fast, "blur", 3_000, 1_000),
                span(fast, "no time at all", 3_000, 0),
                span(Track::Device, "inner", 11_000, 100),
                span(Track::Device, "outer", 11_000, 2_000),
            ],
            samples: vec![sample(12_000, 5), sample(0, u64::MAX)],
        }
    }

    fn events(trace: &Trace) -> Vec<Value> {
        let parsed: Value = serde_json::from_str(&to_perfetto(trace)).unwrap();
        parsed["traceEvents"].as_array().unwrap().clone()
    }

    fn of<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn times_go_forward() {
        let events = events(&busy());
        let times: Vec<f64> =
            events.iter().filter(|event| event["ph"] != "M").map(|e| e["ts"].as_f64().unwrap()).collect();
        assert_eq!(times.len(), 3 + 2 * 4 + 2);
        assert!(times.is_sorted(), "{times:?}");
        // Names come before what they name.
        assert!(events.iter().take_while(|event| event["ph"] == "M").count() == of(&events, "M").len());
    }

    #[test]
    fn every_beginning_has_its_end() {
        let events = events(&busy());
        let mut open: Vec<(String, f64)> = Vec::new();
        for event in events.iter().filter(|event| event["ph"] == "b" || event["ph"] == "e") {
            let key = format!("{} {} {} {}", event["cat"], event["id"], event["name"], event["tid"]);
            let at = event["ts"].as_f64().unwrap();
            let known = open.iter().position(|(own, _)| *own == key);
            match (event["ph"] == "b", known) {
                (true, None) => open.push((key, at)),
                (false, Some(begun)) => assert!(open.remove(begun).1 <= at),
                _ => panic!("{event} does not fit {open:?}"),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        let waited = of(&events, "b");
        assert_eq!(waited.len(), 4);
        assert_eq!(waited[0]["cat"], "queue: background");
        assert_eq!(waited[0]["args"]["bytes"], "8.3 MB");
    }

    #[test]
    fn the_device_works_in_microseconds() {
        let events = events(&busy());
        let work = of(&events, "X");
        assert_eq!(work.len(), 3);
        assert_eq!((work[0]["ts"].as_f64(), work[0]["dur"].as_f64()), (Some(4.0), Some(1.5)));
        assert_eq!([&work[1]["name"], &work[2]["name"]], ["outer", "inner"]);
    }

    #[test]
    fn numbers_are_curves() {
        let events = events(&busy());
        let values: Vec<Option<u64>> = of(&events, "C").iter().map(|event| event["args"]["value"].as_u64()).collect();
        assert_eq!(values, [Some(u64::MAX), Some(5)]);
    }

    #[test]
    fn threads_and_the_process_have_names() {
        let events = events(&busy());
        let named = |what: &str| -> Vec<(u64, String)> {
            let about = events.iter().filter(|event| event["name"] == what);
            about.map(|e| (e["tid"].as_u64().unwrap(), e["args"]["name"].as_str().unwrap().to_owned())).collect()
        };
        assert_eq!(named("process_name"), [(0, "a<b> \"c\"".to_owned())]);
        let threads = ["queue: interactive", "queue: default", "queue: background", "device"];
        assert_eq!(named("thread_name"), (1..).zip(threads.map(str::to_owned)).collect::<Vec<_>>());
        let thread = |event: &Value| event["tid"].as_u64().unwrap();
        assert!(of(&events, "X").into_iter().all(|event| thread(event) == 4));
        assert_eq!(of(&events, "b").into_iter().map(thread).collect::<Vec<_>>(), [3, 3, 1, 1]);
    }

    #[test]
    fn an_empty_trace_is_a_file_too() {
        let events = events(&Trace::default());
        assert!(events.iter().all(|event| event["ph"] == "M"));
    }

    #[test]
    fn times_at_the_end_of_time_do_not_fail() {
        let mut long = span(Track::Queue(Lane::Default), "forever", 1, 0);
        long.length = Duration::MAX;
        let trace = Trace { spans: vec![long], ..Trace::default() };
        assert_eq!(of(&events(&trace), "e").len(), 1);
    }

    #[test]
    fn drawings_show_every_span_and_escape_names() {
        let span = |track, name: &str, start| Span {
            track,
            name: name.to_owned(),
            start: Duration::from_micros(start),
            length: Duration::from_micros(50),
            details: Vec::new(),
        };
        let spans = vec![span(Track::Queue(Lane::Default), "command 1", 0), span(Track::Device, "a < b", 60)];
        let samples = vec![Sample { name: "live bytes".to_owned(), at: Duration::from_micros(110), value: 4096 }];
        let svg = to_svg(&Trace { device: "cpu".to_owned(), spans, samples });
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<title>").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("class=\"memory\""));
        // Nothing happened: a drawing all the same.
        assert!(to_svg(&Trace::default()).starts_with("<svg"));
    }
}
