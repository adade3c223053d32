//! What is served and how busy it is, for the page and for people.

use serde_json::{Value, json};

use super::shared::Shared;
use crate::wire::describe;
use crate::{Kind, Lane, Listing};

/// Everything that the page shows.
pub(crate) fn status(shared: &Shared) -> Value {
    let load = shared.back.busy();
    let held = shared.held();
    let millis = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    let one = |listing: &Listing| {
        let (answered, refused) = shared.metrics.of(&listing.name).totals();
        let busy = load.models.iter().find(|model| model.name == listing.name);
        let mut one = json!({
            "name": *listing.name,
            "version": *listing.version,
            "state": listing.state.name(),
            "reason": listing.reason,
            "answered": answered,
            "refused": refused,
            "queued": busy.map_or(0, |model| model.queued),
            "running": busy.map_or(0, |model| model.running),
            "expected_wait_ms": busy.map_or(0.0, |model| millis(model.expected_wait)),
        });
        let info = shared.back.model(
            &listing.name,
            Some(&listing.version).filter(|version| !version.is_empty()).map(|version| &**version),
        );
        if let (Kind::Model, Ok(info), Some(members)) = (listing.kind, info, one.as_object_mut()) {
            let metadata = describe::metadata_json(&info);
            members.insert("inputs".to_owned(), metadata["inputs"].clone());
            members.insert("outputs".to_owned(), metadata["outputs"].clone());
            members.insert("max_batch".to_owned(), json!(info.max_batch));
        }
        one
    };
    let listings = shared.back.index();
    let of = |kind| listings.iter().filter(|listing| listing.kind == kind).map(one).collect::<Vec<_>>();
    let waits =
        Lane::ALL.iter().zip(load.expected_wait).map(|(lane, wait)| (lane.name().to_owned(), json!(millis(wait))));
    json!({
        "name": describe::SERVER,
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": shared.since.elapsed().as_secs(),
        "ready": shared.is_ready(),
        "connections": held.connections,
        "requests": held.requests,
        "held_bytes": held.bytes,
        "fullness": load.fullness,
        "expected_wait_ms": waits.collect::<serde_json::Map<_, _>>(),
        "models": of(Kind::Model),
        "pipelines": of(Kind::Pipeline),
        "devices": load.devices.iter().map(|device| json!({
            "name": *device.name,
            "busy": device.busy,
            "memory_bytes": device.memory_bytes,
            "budget_bytes": device.budget_bytes,
            "lost": device.lost,
        })).collect::<Vec<_>>(),
    })
}
