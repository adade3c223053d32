//! What any subscriber of `tracing` is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dala_compute::{Buffer, DType, Pipeline, Stage};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the names of spans as they are entered, and their fields, while it is on.
struct Collector;

static ON: AtomicBool = AtomicBool::new(false);
static ENTERED: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ON.load(Ordering::Relaxed) && metadata.target().starts_with("dala_compute")
    }

    // Asked each time: other tests of this process are not to be slowed down.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ENTERED.lock().unwrap().push(format!("{} {}", span.metadata().name(), span.values()));
        Id::from_u64(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn plans_passes_and_launches_are_spans() {
    tracing::subscriber::set_global_default(Collector).unwrap();
    for device in crate::support::devices() {
        let x = Buffer::from_slice(&device, &[1.0f32; 64], [64]).unwrap();
        let y = Buffer::zeros(&device, DType::F32, [64]).unwrap();
        ON.store(true, Ordering::Relaxed);
        let stages = Pipeline::new().stage(Stage::run_kernel("scalar_add", [&x], &y, [("scalar", 1)]));
        device.compile(&stages).and_then(|plan| plan.run()).unwrap();
        ON.store(false, Ordering::Relaxed);
        let entered = std::mem::take(&mut *ENTERED.lock().unwrap());
        let told = |name: &str, field: &str| entered.iter().any(|span| span.starts_with(name) && span.contains(field));
        assert!(told("plan", "stages: 1"), "{entered:?}");
        assert!(told("pass", "lane: default"), "{entered:?}");
        assert!(told("launch", "over 64 elements"), "{entered:?}");
    }
}
