//! What happened on a device, as a file for a trace viewer.
//!
//! The format is the JSON of trace events that `ui.perfetto.dev` and `chrome://tracing` open.

use std::cmp::Reverse;
use std::time::Duration;

use dala_schedule::Lane;
use serde_json::{Map, Value, json};

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
}
