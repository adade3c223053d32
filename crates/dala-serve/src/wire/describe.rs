//! What is served, as both protocols describe it: metadata, configuration, statistics, the index.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::messages::{
    DataType, Empty, InferBatchStatistics, InferStatistics, LatestVersions, ModelConfig, ModelIndex, ModelInput,
    ModelMetadataResponse, ModelOutput, ModelStatistics, ModelVersionPolicy, ServerMetadataResponse, StatisticDuration,
    TensorMetadata,
};
use crate::{Datatype, Kind, Listing, ModelInfo, Port, State, Statistics, Total};

/// What the server is called.
pub(crate) const SERVER: &str = "dala";

/// Parts of the protocol beyond its core that are spoken here.
pub(crate) fn extensions(may_load: bool) -> Vec<&'static str> {
    let mut extensions =
        vec!["binary_tensor_data", "model_configuration", "parameters", "schedule_policy", "statistics"];
    if may_load {
        extensions.push("model_repository");
    }
    extensions
}

fn sizes(shape: &[Option<usize>]) -> Vec<i64> {
    shape.iter().map(|size| size.map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX))).collect()
}

/// Sizes without the axis that counts items.
fn item_sizes(model: &ModelInfo, port: &Port) -> Vec<i64> {
    let axes = usize::from(model.max_batch.is_some());
    sizes(port.shape.get(axes..).unwrap_or_default())
}

fn data_type(datatype: Datatype) -> DataType {
    match datatype {
        Datatype::Bool => DataType::Bool,
        Datatype::Uint8 => DataType::Uint8,
        Datatype::Uint16 => DataType::Uint16,
        Datatype::Uint32 => DataType::Uint32,
        Datatype::Uint64 => DataType::Uint64,
        Datatype::Int8 => DataType::Int8,
        Datatype::Int16 => DataType::Int16,
        Datatype::Int32 => DataType::Int32,
        Datatype::Int64 => DataType::Int64,
        Datatype::Fp16 => DataType::Fp16,
        Datatype::Bf16 => DataType::Bf16,
        Datatype::Fp32 => DataType::Fp32,
        Datatype::Fp64 => DataType::Fp64,
        Datatype::Bytes => DataType::String,
    }
}

/// The server itself.
pub(crate) fn server(may_load: bool) -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: SERVER.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: extensions(may_load).into_iter().map(str::to_owned).collect(),
    }
}

pub(crate) fn server_json(may_load: bool) -> Value {
    json!({ "name": SERVER, "version": env!("CARGO_PKG_VERSION"), "extensions": extensions(may_load) })
}

/// A model's inputs and outputs.
pub(crate) fn metadata(model: &ModelInfo) -> ModelMetadataResponse {
    let tensor = |port: &Port| TensorMetadata {
        name: port.name.to_string(),
        datatype: port.datatype.name().to_owned(),
        shape: sizes(&port.shape),
    };
    ModelMetadataResponse {
        name: model.name.to_string(),
        versions: model.versions.iter().map(|version| version.to_string()).collect(),
        platform: model.platform.to_string(),
        inputs: model.inputs.iter().map(tensor).collect(),
        outputs: model.outputs.iter().map(tensor).collect(),
    }
}

pub(crate) fn metadata_json(model: &ModelInfo) -> Value {
    let metadata = metadata(model);
    let tensor =
        |tensor: &TensorMetadata| json!({ "name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape });
    json!({
        "name": metadata.name,
        "versions": metadata.versions,
        "platform": metadata.platform,
        "inputs": metadata.inputs.iter().map(tensor).collect::<Vec<_>>(),
        "outputs": metadata.outputs.iter().map(tensor).collect::<Vec<_>>(),
    })
}

/// A model's configuration, as far as there is something to say.
pub(crate) fn config(model: &ModelInfo) -> ModelConfig {
    let latest = LatestVersions { num_versions: u32::try_from(model.versions.len()).unwrap_or(u32::MAX) };
    ModelConfig {
        name: model.name.to_string(),
        platform: model.platform.to_string(),
        version_policy: Some(ModelVersionPolicy { latest: Some(latest) }),
        max_batch_size: i32::try_from(model.max_batch.unwrap_or(0)).unwrap_or(i32::MAX),
        input: model
            .inputs
            .iter()
            .map(|port| ModelInput {
                name: port.name.to_string(),
                data_type: data_type(port.datatype).into(),
                dims: item_sizes(model, port),
                optional: port.optional,
            })
            .collect(),
        output: model
            .outputs
            .iter()
            .map(|port| ModelOutput {
                name: port.name.to_string(),
                data_type: data_type(port.datatype).into(),
                dims: item_sizes(model, port),
            })
            .collect(),
        dynamic_batching: model.max_batch.map(|_| Empty {}),
        backend: SERVER.to_owned(),
    }
}

pub(crate) fn config_json(model: &ModelInfo) -> Value {
    let config = config(model);
    let type_name = |port: &Port| match port.datatype {
        Datatype::Bytes => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{other}"),
    };
    let ports = |ports: &[Port]| -> Vec<Value> {
        let port =
            |port| json!({ "name": port_name(port), "data_type": type_name(port), "dims": item_sizes(model, port) });
        ports.iter().map(port).collect()
    };
    let mut text = json!({
        "name": config.name,
        "platform": config.platform,
        "backend": config.backend,
        "version_policy": { "latest": { "num_versions": model.versions.len() } },
        "max_batch_size": config.max_batch_size,
        "input": ports(&model.inputs),
        "output": ports(&model.outputs),
    });
    if let (Some(_), Some(members)) = (model.max_batch, text.as_object_mut()) {
        members.insert("dynamic_batching".to_owned(), json!({}));
    }
    text
}

fn port_name(port: &Port) -> &str {
    &port.name
}

fn duration(total: Total) -> StatisticDuration {
    StatisticDuration { count: total.count, ns: u64::try_from(total.time.as_nanos()).unwrap_or(u64::MAX) }
}

/// What a model did.
pub(crate) fn statistics(model: &Statistics) -> ModelStatistics {
    let last = model.last.and_then(|last| last.duration_since(UNIX_EPOCH).ok());
    ModelStatistics {
        name: model.model.to_string(),
        version: model.version.to_string(),
        last_inference: last.map_or(0, |last| u64::try_from(last.as_millis()).unwrap_or(u64::MAX)),
        inference_count: model.items,
        execution_count: model.runs,
        inference_stats: Some(InferStatistics {
            success: Some(duration(model.answered)),
            fail: Some(duration(model.refused)),
            queue: Some(duration(model.queued)),
            compute_input: Some(duration(model.uploaded)),
            compute_infer: Some(duration(model.ran)),
            compute_output: Some(duration(model.downloaded)),
            cache_hit: Some(StatisticDuration::default()),
            cache_miss: Some(StatisticDuration::default()),
        }),
        batch_stats: model
            .batches
            .iter()
            .map(|batch| InferBatchStatistics {
                batch_size: batch.size as u64,
                compute_input: Some(duration(batch.uploaded)),
                compute_infer: Some(duration(batch.ran)),
                compute_output: Some(duration(batch.downloaded)),
            })
            .collect(),
    }
}

pub(crate) fn statistics_json(models: &[Statistics]) -> Value {
    let time = |total: Total| {
        let duration = duration(total);
        json!({ "count": duration.count, "ns": duration.ns })
    };
    let batch = |batch: &crate::BatchStatistics| {
        json!({
            "batch_size": batch.size,
            "compute_input": time(batch.uploaded),
            "compute_infer": time(batch.ran),
            "compute_output": time(batch.downloaded),
        })
    };
    let model = |model: &Statistics| {
        json!({
            "name": *model.model,
            "version": *model.version,
            "last_inference": statistics(model).last_inference,
            "inference_count": model.items,
            "execution_count": model.runs,
            "inference_stats": {
                "success": time(model.answered),
                "fail": time(model.refused),
                "queue": time(model.queued),
                "compute_input": time(model.uploaded),
                "compute_infer": time(model.ran),
                "compute_output": time(model.downloaded),
                "cache_hit": time(Total::default()),
                "cache_miss": time(Total::default()),
            },
            "response_stats": {},
            "batch_stats": model.batches.iter().map(batch).collect::<Vec<_>>(),
            "memory_usage": [],
        })
    };
    json!({ "model_stats": models.iter().map(model).collect::<Vec<_>>() })
}

/// The models among what is listed; `only_ready` leaves out the others.
pub(crate) fn index(listings: &[Listing], only_ready: bool) -> Vec<ModelIndex> {
    let wanted = |listing: &&Listing| listing.kind == Kind::Model && (!only_ready || listing.state == State::Ready);
    let entry = |listing: &Listing| ModelIndex {
        name: listing.name.to_string(),
        version: listing.version.to_string(),
        state: listing.state.name().to_owned(),
        reason: listing.reason.clone(),
    };
    listings.iter().filter(wanted).map(entry).collect()
}

pub(crate) fn index_json(listings: &[Listing], only_ready: bool) -> Value {
    let entry = |model: ModelIndex| json!({ "name": model.name, "version": model.version, "state": model.state, "reason": model.reason });
    Value::Array(index(listings, only_ready).into_iter().map(entry).collect())
}
