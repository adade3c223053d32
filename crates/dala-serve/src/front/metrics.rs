//! What happened, counted for Prometheus and for the page.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::{Lane, Load, Refusal, Times};

/// Upper bounds of times, in seconds.
const SECONDS: [f64; 15] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Upper bounds of how many items share a run.
const ITEMS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// How often something was how large.
#[derive(Debug)]
struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    counts: [AtomicU64; N],
    above: AtomicU64,
    /// In millionths, so that it can be added to.
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [f64; N]) -> Self {
        Histogram { bounds, counts: [const { AtomicU64::new(0) }; N], above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    fn count(&self, value: f64) {
        let bucket = self.bounds.iter().zip(&self.counts).find(|(bound, _)| value <= **bound);
        bucket.map_or(&self.above, |(_, count)| count).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    fn write(&self, name: &str, label: &str, out: &mut String) {
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            line(out, &format!("{name}_bucket"), &format!("{label},le=\"{bound}\""), total);
        }
        total += self.above.load(Ordering::Relaxed);
        line(out, &format!("{name}_bucket"), &format!("{label},le=\"+Inf\""), total);
        line(out, &format!("{name}_sum"), label, self.sum.load(Ordering::Relaxed) as f64 / 1e6);
        line(out, &format!("{name}_count"), label, total);
    }
}

/// What happened to requests of one model or pipeline.
#[derive(Debug)]
pub(crate) struct Counts {
    answered: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    took: Histogram<15>,
    queued: Histogram<15>,
    ran: Histogram<15>,
    batch: Histogram<8>,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            answered: AtomicU64::new(0),
            refused: Mutex::default(),
            took: Histogram::new(&SECONDS),
            queued: Histogram::new(&SECONDS),
            ran: Histogram::new(&SECONDS),
            batch: Histogram::new(&ITEMS),
        }
    }

    /// Counts a request that ended after so long.
    pub(crate) fn count(&self, outcome: Result<Times, &Refusal>, took: Duration) {
        match outcome {
            Ok(times) => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                self.took.count(took.as_secs_f64());
                self.queued.count(times.queued.as_secs_f64());
                self.ran.count(times.ran.as_secs_f64());
                self.batch.count(times.batch as f64);
            }
            Err(refusal) => {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                *refused.entry(refusal.said().code).or_default() += 1;
            }
        }
    }

    /// How many were answered, and how many were not.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        (self.answered.load(Ordering::Relaxed), refused.values().sum())
    }
}

/// What happened to everything.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    models: RwLock<HashMap<Arc<str>, Arc<Counts>>>,
    /// Connections that were taken in, and those that had to go because they waited too long or others needed the room.
    pub(crate) connections: AtomicU64,
    pub(crate) shed: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

/// What is held at the moment.
pub(crate) struct Held {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Metrics {
    /// Counts of a model that is served; of everything else under no name, so that strangers cannot add names.
    pub(crate) fn of(&self, model: &Arc<str>) -> Arc<Counts> {
        let known = self.models.read().unwrap_or_else(PoisonError::into_inner).get(model).cloned();
        known.unwrap_or_else(|| {
            let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
            models.entry(model.clone()).or_insert_with(|| Arc::new(Counts::new())).clone()
        })
    }

    /// Everything as Prometheus reads it.
    pub(crate) fn write(&self, load: &Load, held: &Held) -> String {
        let mut out = String::with_capacity(8 << 10);
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let mut models: Vec<(String, &Arc<Counts>)> =
            models.iter().map(|(name, counts)| (format!("model=\"{}\"", escaped(name)), counts)).collect();
        models.sort_by(|left, right| left.0.cmp(&right.0));

        head(&mut out, "dala_requests_total", "counter", "Requests by how they ended.");
        for (label, counts) in &models {
            let answered = counts.answered.load(Ordering::Relaxed);
            line(&mut out, "dala_requests_total", &format!("{label},outcome=\"ok\""), answered);
            for (code, count) in counts.refused.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                line(&mut out, "dala_requests_total", &format!("{label},outcome=\"{code}\""), count);
            }
        }
        type Part = fn(&Counts) -> &Histogram<15>;
        let times: [(&str, &str, Part); 3] = [
            ("dala_request_seconds", "From a request's first byte to its answer.", |counts| &counts.took),
            ("dala_queue_seconds", "From when a request was taken in until its run began.", |counts| &counts.queued),
            ("dala_run_seconds", "How long runs took.", |counts| &counts.ran),
        ];
        for (name, help, part) in times {
            head(&mut out, name, "histogram", help);
            models.iter().for_each(|(label, counts)| part(counts).write(name, label, &mut out));
        }
        head(&mut out, "dala_batch_items", "histogram", "How many items shared the run of a request.");
        models.iter().for_each(|(label, counts)| counts.batch.write("dala_batch_items", label, &mut out));

        let totals = [
            ("dala_connections_total", "Connections that were taken in.", &self.connections),
            (
                "dala_connections_shed_total",
                "Connections that were closed because their clients kept still.",
                &self.shed,
            ),
            ("dala_received_bytes_total", "Bytes of bodies that were read.", &self.received_bytes),
            ("dala_sent_bytes_total", "Bytes of answers.", &self.sent_bytes),
        ];
        for (name, help, value) in totals {
            head(&mut out, name, "counter", help);
            line(&mut out, name, "", value.load(Ordering::Relaxed));
        }
        gauge(&mut out, "dala_connections", "Connections that are open.", [(String::new(), held.connections)]);
        gauge(&mut out, "dala_requests", "Requests that are worked on.", [(String::new(), held.requests)]);
        gauge(&mut out, "dala_held_bytes", "Bytes of bodies that are held.", [(String::new(), held.bytes)]);
        load_figures(load, &mut out);
        out
    }
}

/// What the back says of itself.
fn load_figures(load: &Load, out: &mut String) {
    let models = |part: fn(&crate::ModelLoad) -> usize| {
        load.models.iter().map(move |model| (format!("model=\"{}\"", escaped(&model.name)), part(model)))
    };
    gauge(out, "dala_queued_items", "Items that wait for a run.", models(|model| model.queued));
    gauge(out, "dala_running_items", "Items on a device.", models(|model| model.running));
    let lanes = Lane::ALL.iter().zip(load.expected_wait);
    let waits = lanes.map(|(lane, wait)| (format!("lane=\"{}\"", lane.name()), wait.as_secs_f64()));
    gauge(out, "dala_expected_wait_seconds", "How long a new request would wait.", waits);
    gauge(out, "dala_queue_fullness", "How full the queue is: at 1 it refuses.", [(String::new(), load.fullness)]);
    let device = |device: &crate::DeviceLoad| format!("device=\"{}\"", escaped(&device.name));
    let busy = load.devices.iter().map(|each| (device(each), each.busy));
    gauge(out, "dala_device_busy", "The share of the last seconds in which a device worked.", busy);
    let memory = load.devices.iter().map(|each| (device(each), each.memory_bytes));
    gauge(out, "dala_device_memory_bytes", "Memory of a device that is in use.", memory);
    head(out, "dala_device_lost_total", "counter", "How often a device was lost and opened again.");
    load.devices.iter().for_each(|each| line(out, "dala_device_lost_total", &device(each), each.lost));
}

fn gauge<V: std::fmt::Display>(out: &mut String, name: &str, help: &str, lines: impl IntoIterator<Item = (String, V)>) {
    head(out, name, "gauge", help);
    lines.into_iter().for_each(|(label, value)| line(out, name, &label, value));
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to memory does not fail.
    let _written = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, label: &str, value: impl std::fmt::Display) {
    let _written = match label {
        "" => writeln!(out, "{name} {value}"),
        _ => writeln!(out, "{name}{{{label}}} {value}"),
    };
}

/// A label's value, with what would end it escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_prometheus() {
        let metrics = Metrics::default();
        let counts = metrics.of(&"a\"b".into());
        let times = |millis| Times { queued: Duration::ZERO, ran: Duration::from_millis(millis), batch: 3 };
        counts.count(Ok(times(2)), Duration::from_millis(3));
        counts.count(Ok(times(20_000)), Duration::from_secs(20));
        counts.count(Err(&Refusal::Expired), Duration::ZERO);
        let held = Held { connections: 1, requests: 2, bytes: 3 };
        let text = metrics.write(&Load::default(), &held);
        for expected in [
            "dala_requests_total{model=\"a\\\"b\",outcome=\"ok\"} 2\n",
            "dala_requests_total{model=\"a\\\"b\",outcome=\"expired\"} 1\n",
            "dala_run_seconds_bucket{model=\"a\\\"b\",le=\"0.001\"} 0\n",
            "dala_run_seconds_bucket{model=\"a\\\"b\",le=\"0.0025\"} 1\n",
            "dala_run_seconds_bucket{model=\"a\\\"b\",le=\"10\"} 1\n",
            "dala_run_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 2\n",
            "dala_run_seconds_sum{model=\"a\\\"b\"} 20.002\n",
            "dala_batch_items_bucket{model=\"a\\\"b\",le=\"2\"} 0\n",
            "dala_batch_items_bucket{model=\"a\\\"b\",le=\"4\"} 2\n",
            "# TYPE dala_request_seconds histogram\n",
            "dala_connections 1\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }
}
