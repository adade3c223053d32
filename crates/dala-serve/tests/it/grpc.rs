//! The protocol over gRPC: calls, answers, and what is refused.

use std::time::{Duration, Instant};

use bytes::Bytes;
use dala_serve::wire::compression::Encoding;
use dala_serve::wire::messages::{
    Empty, HealthCheckRequest, HealthCheckResponse, InferInputTensor, InferParameter, InferRequestedOutputTensor,
    InferTensorContents, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelMetadataResponse,
    ModelStatisticsResponse, ModelStreamInferResponse, ModelVersion, Parameter, RepositoryIndexRequest,
    RepositoryIndexResponse, RepositoryModelRequest, ServerMetadataResponse, Yes,
};
use dala_serve::{Lane, Options, Refusal};
use prost::Message;

use crate::calls::{call, frame, framed, raw};
use crate::running::{Running, options};

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

pub(crate) fn request(rows: usize) -> ModelInferRequest {
    let input = InferInputTensor {
        name: "input".into(),
        datatype: "FP32".into(),
        shape: vec![rows as i64, 4],
        ..InferInputTensor::default()
    };
    ModelInferRequest {
        model_name: "identity".into(),
        id: "7".into(),
        inputs: vec![input],
        raw_input_contents: vec![vec![9; rows * 16].into()],
        ..ModelInferRequest::default()
    }
}

fn model(name: &str) -> ModelVersion {
    ModelVersion { name: name.into(), version: String::new() }
}

#[test]
fn raw_there_and_back() {
    let server = Running::new();
    for rows in [1, 10, 1024, 1025, 100_000] {
        let answer: ModelInferResponse = call(server.grpc, "ModelInfer", &request(rows)).message();
        assert_eq!((&*answer.model_name, &*answer.model_version, &*answer.id), ("identity", "1", "7"));
        assert_eq!(answer.outputs[0].name, "output");
        assert_eq!((&*answer.outputs[0].datatype, &answer.outputs[0].shape[..]), ("FP32", &[rows as i64, 4][..]));
        assert_eq!(answer.raw_output_contents, [Bytes::from(vec![9; rows * 16])]);
        assert_eq!(answer.parameters["batch"].choice, Some(Parameter::Int64(rows as i64)));
        assert!(answer.parameters.contains_key("queue_us") && answer.parameters.contains_key("run_us"));
    }
}

#[test]
fn typed_contents() {
    let server = Running::new();
    let mut typed = request(1);
    typed.raw_input_contents.clear();
    let floats = vec![0.5, f32::INFINITY, -0.0, 1.0];
    typed.inputs[0].contents = Some(InferTensorContents { fp32_contents: floats.clone(), ..Default::default() });
    let answer: ModelInferResponse = call(server.grpc, "ModelInfer", &typed).message();
    let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(answer.raw_output_contents, [Bytes::from(bytes)]);
}

#[test]
fn messages_that_are_no_requests() {
    let server = Running::new();
    let changed = |change: fn(&mut ModelInferRequest)| {
        let mut request = request(1);
        change(&mut request);
        call(server.grpc, "ModelInfer", &request)
    };
    let changes: [fn(&mut ModelInferRequest); 14] = [
        |request| request.inputs.clear(),
        |request| request.raw_input_contents.clear(),
        |request| request.raw_input_contents.push(Bytes::new()),
        |request| request.raw_input_contents[0] = Bytes::from_static(b"short"),
        |request| request.inputs[0].contents = Some(InferTensorContents::default()),
        |request| request.inputs[0].name = "other".into(),
        |request| request.inputs[0].datatype = "FP64".into(),
        |request| request.inputs[0].datatype = "float".into(),
        |request| request.inputs[0].shape = vec![-1, 4],
        |request| request.inputs[0].shape = vec![4],
        |request| request.inputs[0].shape = vec![i64::MAX, i64::MAX],
        |request| request.outputs.push(InferRequestedOutputTensor { name: "nope".into(), ..Default::default() }),
        |request| drop(request.parameters.insert("priority".into(), InferParameter { choice: None })),
        |request| {
            drop(request.inputs[0].parameters.insert("shared_memory_region".into(), InferParameter { choice: None }))
        },
    ];
    for change in changes {
        changed(change).is_refused(3, "bad_input");
    }
    changed(|request| drop(request.parameters.insert("sequence_id".into(), InferParameter { choice: None })))
        .is_refused(12, "unsupported");
    changed(|request| request.model_name = "nope".into()).is_refused(5, "unknown_model");
    changed(|request| request.model_version = "2".into()).is_refused(5, "unknown_version");
    let wide = InferTensorContents { int_contents: vec![128, 0, 0, 0], ..Default::default() };
    let mut request = request(1);
    request.raw_input_contents.clear();
    request.inputs[0].datatype = "INT8".into();
    request.inputs[0].contents = Some(wide);
    call(server.grpc, "ModelInfer", &request).is_refused(3, "bad_input");
}

#[test]
fn what_is_served() {
    let server = Running::new();
    let grpc = server.grpc;
    assert!(call(grpc, "ServerLive", &Empty {}).message::<Yes>().yes);
    assert!(call(grpc, "ServerReady", &Empty {}).message::<Yes>().yes);
    assert!(call(grpc, "ModelReady", &model("identity")).message::<Yes>().yes);
    call(grpc, "ModelReady", &model("nope")).is_refused(5, "unknown_model");
    assert_eq!(call(grpc, "ServerMetadata", &Empty {}).message::<ServerMetadataResponse>().name, "dala");
    let metadata: ModelMetadataResponse = call(grpc, "ModelMetadata", &model("identity")).message();
    assert_eq!((&*metadata.inputs[0].name, &metadata.inputs[0].shape[..]), ("input", &[-1, 4][..]));
    let config: ModelConfigResponse = call(grpc, "ModelConfig", &model("identity")).message();
    assert_eq!(config.config.unwrap().input[0].dims, [4]);
    call(grpc, "ModelInfer", &request(3));
    let statistics: ModelStatisticsResponse = call(grpc, "ModelStatistics", &model("identity")).message();
    assert_eq!((statistics.model_stats[0].inference_count, statistics.model_stats[0].execution_count), (3, 1));
    let index: RepositoryIndexResponse = call(grpc, "RepositoryIndex", &RepositoryIndexRequest::default()).message();
    assert_eq!(index.models.len(), 2);
    let health = |service: &str| {
        raw(grpc, "/grpc.health.v1.Health/Check", &[], frame(&HealthCheckRequest { service: service.into() }))
    };
    assert_eq!(health("").message::<HealthCheckResponse>().status, 1);
    assert_eq!(health("nope").status, 5);
}

#[test]
fn what_is_not_offered() {
    let server = Running::new();
    for path in
        ["/inference.GRPCInferenceService/TraceSetting", "/inference.GRPCInferenceService/", "/other.Service/Call", "/"]
    {
        raw(server.grpc, path, &[], frame(&Empty {})).is_refused(12, "unknown_route");
    }
    raw(server.grpc, INFER, &[("content-type", "text/plain")], Bytes::new()).is_refused(12, "unsupported_media");
    let load = RepositoryModelRequest { model_name: "identity".into(), ..Default::default() };
    call(server.grpc, "RepositoryModelLoad", &load).is_refused(7, "forbidden");
    let server = Running::with(Options { may_load: true, ..options() });
    call(server.grpc, "RepositoryModelUnload", &load).message::<Empty>();
    call(server.grpc, "ModelInfer", &request(1)).is_refused(14, "not_ready");
    call(server.grpc, "RepositoryModelLoad", &load).message::<Empty>();
    call(server.grpc, "ModelInfer", &request(1)).message::<ModelInferResponse>();
    let with_file =
        RepositoryModelRequest { parameters: [("file:1/model.onnx".into(), Empty {})].into(), ..load.clone() };
    call(server.grpc, "RepositoryModelLoad", &with_file).is_refused(12, "unsupported");
    let named = RepositoryModelRequest { repository_name: "other".into(), ..load };
    call(server.grpc, "RepositoryModelLoad", &named).is_refused(12, "unsupported");
}

#[test]
fn frames_that_are_damaged() {
    let server = Running::new();
    let message = request(1).encode_to_vec();
    let whole = framed(0, &message);
    for body in [
        Bytes::new(),
        whole.slice(..4),
        whole.slice(..whole.len() - 1),
        [&whole[..], b"x"].concat().into(),
        [&whole[..], &whole].concat().into(),
        framed(1, &message),
        framed(2, &message),
        framed(0, b"\xff\xff\xff\xff"),
        Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]),
    ] {
        raw(server.grpc, INFER, &[], body).is_refused(3, "bad_input");
    }
    let deep = [0x2a, 0x7f].repeat(1000);
    raw(server.grpc, INFER, &[], framed(0, &deep)).is_refused(3, "bad_input");
}

#[test]
fn compressed_both_ways() {
    let server = Running::new();
    for encoding in [Encoding::Gzip, Encoding::Deflate] {
        let message = encoding.compress(&[request(1000).encode_to_vec().into()]).unwrap();
        let headers = [("grpc-encoding", encoding.name())];
        let called = raw(server.grpc, INFER, &headers, framed(1, &message));
        assert_eq!((called.status, called.headers["grpc-encoding"].to_str().unwrap()), (0, encoding.name()));
        assert_eq!(called.body[0], 1);
        let plain = encoding.decompress(&called.body[5..], 1 << 20).unwrap();
        assert_eq!(ModelInferResponse::decode(plain).unwrap().raw_output_contents[0].len(), 16_000);
        raw(server.grpc, INFER, &headers, framed(1, b"damaged")).is_refused(3, "bad_input");
    }
    let called = raw(server.grpc, INFER, &[("grpc-encoding", "zstd")], framed(1, b"x"));
    called.is_refused(12, "unsupported_media");
    assert_eq!(called.headers["grpc-accept-encoding"], "identity,gzip,deflate");
}

#[test]
fn refusals_deadlines_and_lanes() {
    let server = Running::new();
    let full = Refusal::Full { retry_after: Duration::from_millis(1500) };
    *server.back.refuses.lock().unwrap() = Some(full.clone());
    let called = call(server.grpc, "ModelInfer", &request(1));
    called.is_refused(14, "full");
    assert_eq!(called.headers["grpc-message"], full.to_string());
    assert_eq!(
        (&called.headers["grpc-retry-pushback-ms"], &called.headers["retry-after-ms"]),
        (&"1500".parse().unwrap(), &"1500".parse().unwrap())
    );
    *server.back.refuses.lock().unwrap() = None;
    let mut urgent = request(1);
    urgent.parameters.insert("priority".into(), InferParameter { choice: Some(Parameter::Uint64(1)) });
    urgent.parameters.insert("timeout".into(), InferParameter { choice: Some(Parameter::Int64(60_000_000)) });
    raw(server.grpc, INFER, &[("grpc-timeout", "30S")], frame(&urgent)).message::<ModelInferResponse>();
    let terms = server.back.terms.lock().unwrap().unwrap();
    let left = terms.deadline.unwrap().saturating_duration_since(Instant::now());
    assert!(
        terms.lane == Lane::Interactive && left < Duration::from_secs(30) && left > Duration::from_secs(1),
        "{left:?}"
    );
    raw(server.grpc, INFER, &[("grpc-timeout", "soon")], frame(&urgent)).is_refused(3, "bad_input");
    server.back.holds.send_replace(true);
    raw(server.grpc, INFER, &[("grpc-timeout", "100m")], frame(&request(1))).is_refused(4, "expired");
    server.until_waiting(0);
}

#[test]
fn a_client_that_goes_is_noticed() {
    let server = Running::new();
    server.back.holds.send_replace(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = frame(&request(1));
    let call = crate::calls::send(server.grpc, INFER, &[], body);
    runtime.block_on(async {
        let gone = tokio::time::timeout(Duration::from_millis(500), call).await;
        assert!(gone.is_err());
    });
    drop(runtime);
    server.until_waiting(0);
}

#[test]
fn many_requests_over_one_call() {
    let server = Running::new();
    let (mut wrong, mut large) = (request(1), request(5000));
    wrong.model_name = "nope".into();
    wrong.id = "wrong".into();
    large.id = "large".into();
    let requests = [request(1), wrong, large, request(2)];
    let body: Vec<u8> = requests.iter().flat_map(frame).collect();
    let path = "/inference.GRPCInferenceService/ModelStreamInfer";
    let called = raw(server.grpc, path, &[], body.into());
    assert_eq!((called.status, called.trailers.get("grpc-status").unwrap().to_str().unwrap()), (0, "0"));
    let (mut rest, mut answers) = (&called.body[..], Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        answers.push(ModelStreamInferResponse::decode(&after[..length]).unwrap());
        rest = &after[length..];
    }
    let said: Vec<(String, usize, bool)> = answers
        .into_iter()
        .map(|answer| {
            let response = answer.infer_response.unwrap();
            let size = response.raw_output_contents.first().map_or(0, Bytes::len);
            (response.id, size, answer.error_message.is_empty())
        })
        .collect();
    let id = String::from;
    assert_eq!(said, [(id("7"), 16, true), (id("wrong"), 0, false), (id("large"), 80_000, true), (id("7"), 32, true)]);
    let cut: Vec<u8> = [&frame(&request(1))[..], &frame(&request(1))[..20]].concat();
    assert_eq!(raw(server.grpc, path, &[], cut.into()).status, 3);
}
