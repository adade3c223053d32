//! The protocol over HTTP: requests, answers, and what is refused.

use std::time::{Duration, Instant};

use dala_serve::wire::compression::Encoding;
use dala_serve::{Lane, Options, Refusal};
use serde_json::json;

use crate::client::Answer;
use crate::running::{Running, options};

pub(crate) const INFER: &str = "/v2/models/identity/infer";

pub(crate) fn request() -> Vec<u8> {
    json!({ "id": "7", "inputs": [{ "name": "input", "shape": [1, 4], "datatype": "FP32", "data": [1, 2.5, -3, 0] }] })
        .to_string()
        .into_bytes()
}

/// JSON, then the data of the inputs.
fn binary(text: serde_json::Value, data: &[u8]) -> (String, Vec<u8>) {
    let text = text.to_string();
    (text.len().to_string(), [text.as_bytes(), data].concat())
}

fn infer(server: &Running, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    server.send("POST", INFER, headers, body)
}

#[test]
fn json_there_and_back() {
    let server = Running::new();
    let mut client = server.client();
    for _ in 0..3 {
        let answer = client.send("POST", INFER, &[], &request());
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("server-timing"), Some("queue;dur=0.000, run;dur=0.000, batch;desc=\"1\""));
        let expected = json!({
            "model_name": "identity",
            "model_version": "1",
            "id": "7",
            "parameters": { "queue_us": 0, "run_us": 0, "batch": 1 },
            "outputs": [{ "name": "output", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.5, -3.0, 0.0] }],
        });
        assert_eq!(answer.json(), expected);
    }
}

#[test]
fn binary_there_and_back() {
    let server = Running::new();
    let data: Vec<u8> = [1f32, 2.5, -3.0, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
    let input =
        json!({ "name": "input", "shape": [1, 4], "datatype": "FP32", "parameters": { "binary_data_size": 16 } });
    let as_binary = json!({ "name": "output", "parameters": { "binary_data": true } });
    let as_json = json!({ "name": "output" });
    for (body, is_binary) in [
        (json!({ "inputs": [input], "outputs": [as_binary] }), true),
        (json!({ "inputs": [input], "parameters": { "binary_data_output": true } }), true),
        (json!({ "inputs": [input], "outputs": [as_json], "parameters": { "binary_data_output": true } }), true),
        (json!({ "inputs": [input], "outputs": [as_json] }), false),
        (json!({ "inputs": [input] }), false),
    ] {
        let (length, body) = binary(body, &data);
        let answer = infer(&server, &[("Inference-Header-Content-Length", &length)], &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        let output = answer.json()["outputs"][0].clone();
        if is_binary {
            assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
            assert_eq!(output["parameters"]["binary_data_size"], 16);
            assert_eq!(output.get("data"), None);
            assert_eq!(answer.body[answer.body.len() - 16..], data);
        } else {
            assert_eq!(output["data"], json!([1.0, 2.5, -3.0, "NaN"]));
        }
    }
}

#[test]
fn large_tensors_and_several_at_once() {
    let server = Running::new();
    let rows = 100_000;
    let floats: Vec<u8> = (0..rows * 4).flat_map(|index| (index as f32).to_le_bytes()).collect();
    let size = floats.len();
    let input =
        json!({ "name": "input", "shape": [rows, 4], "datatype": "FP32", "parameters": { "binary_data_size": size } });
    let (length, body) = binary(json!({ "inputs": [input], "parameters": { "binary_data_output": true } }), &floats);
    let answer = infer(&server, &[("Inference-Header-Content-Length", &length)], &body);
    assert!(answer.body.ends_with(&floats));

    let text = json!({ "inputs": [{ "name": "input", "shape": [rows, 4], "datatype": "FP32",
        "data": (0..rows * 4).collect::<Vec<_>>() }] });
    let answer = infer(&server, &[], text.to_string().as_bytes());
    assert_eq!(answer.json()["outputs"][0]["data"][399_999], 399_999.0);
}

#[test]
fn every_type_both_ways() {
    let server = Running::new();
    let values = [
        ("BOOL", json!([true, false, true, false]), 1),
        ("UINT8", json!([0, 255, 1, 2]), 1),
        ("UINT16", json!([0, 65535, 1, 2]), 2),
        ("UINT32", json!([0, 4_294_967_295_u32, 1, 2]), 4),
        ("UINT64", json!([0, u64::MAX, 1, 2]), 8),
        ("INT8", json!([-128, 127, 1, 2]), 1),
        ("INT16", json!([-32768, 32767, 1, 2]), 2),
        ("INT32", json!([i32::MIN, i32::MAX, 1, 2]), 4),
        ("INT64", json!([i64::MIN, i64::MAX, 1, 2]), 8),
        ("FP16", json!(null), 2),
        ("FP32", json!([0.1, -1e30, 1.0, 2.0]), 4),
        ("FP64", json!([0.1, -1e300, 1.0, 2.0]), 8),
        ("BYTES", json!(["", "text", "é\n\"", "x"]), 0),
    ];
    let (mut inputs, mut outputs, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for (name, data, size) in &values {
        let mut input = json!({ "name": format!("INPUT_{name}"), "shape": [1, 4], "datatype": name });
        let mut output = json!({ "name": format!("OUTPUT_{name}") });
        if data.is_null() {
            input["parameters"] = json!({ "binary_data_size": 4 * size });
            behind.extend_from_slice(&[0, 0x3c, 0, 0xc0, 1, 0, 0xff, 0x7b]);
            output["parameters"] = json!({ "binary_data": true });
        } else {
            input["data"] = data.clone();
        }
        inputs.push(input);
        outputs.push(output);
    }
    let (length, body) = binary(json!({ "inputs": inputs, "outputs": outputs }), &behind);
    let answer =
        server.send("POST", "/v2/models/every_type/infer", &[("Inference-Header-Content-Length", &length)], &body);
    assert_eq!(answer.status, 200, "{}", answer.json());
    let answered = answer.json();
    for (place, (name, data, _)) in values.iter().enumerate() {
        let output = &answered["outputs"][place];
        assert_eq!(output["name"], format!("OUTPUT_{name}"));
        if data.is_null() {
            assert!(answer.body.ends_with(&behind));
        } else {
            assert_eq!(&output["data"], data, "{name}");
        }
    }
    let wants_text = json!({ "inputs": inputs, "outputs": [{ "name": "OUTPUT_FP16" }] });
    let (length, body) = binary(wants_text, &behind);
    let answer =
        server.send("POST", "/v2/models/every_type/infer", &[("Inference-Header-Content-Length", &length)], &body);
    answer.is_refused(400, "bad_input");
}

#[test]
fn a_body_that_is_nothing_but_the_input() {
    let server = Running::new();
    let answer = infer(&server, &[("Inference-Header-Content-Length", "0")], &[1; 16]);
    assert_eq!(answer.status, 200, "{}", answer.json());
    assert!(answer.body.ends_with(&[1; 16]));
    infer(&server, &[("Inference-Header-Content-Length", "0")], &[1; 15]).is_refused(400, "bad_input");
    let path = "/v2/models/every_type/infer";
    server.send("POST", path, &[("Inference-Header-Content-Length", "0")], &[1; 16]).is_refused(400, "bad_input");
}

#[test]
fn compressed_both_ways() {
    let server = Running::new();
    let rows = 2000;
    let text =
        json!({ "inputs": [{ "name": "input", "shape": [rows, 4], "datatype": "FP32", "data": vec![1; rows * 4] }] });
    let plain = infer(&server, &[], text.to_string().as_bytes());
    for encoding in [Encoding::Gzip, Encoding::Deflate] {
        let name = encoding.name();
        let body = encoding.compress(&[text.to_string().into()]).unwrap();
        let headers = [("Content-Encoding", name), ("Accept-Encoding", name)];
        let answer = infer(&server, &headers, &body);
        assert_eq!((answer.status, answer.header("content-encoding")), (200, Some(name)));
        assert!(answer.body.len() * 10 < plain.body.len());
        assert_eq!(encoding.decompress(&answer.body, 1 << 20).unwrap(), plain.body);
        infer(&server, &[("Content-Encoding", name)], b"damaged").is_refused(400, "bad_input");
    }
    let answer = infer(&server, &[("Content-Encoding", "br")], b"x");
    answer.is_refused(415, "unsupported_media");
    assert_eq!(answer.header("accept-encoding"), Some("gzip, deflate"));
}

#[test]
fn bodies_that_are_no_requests() {
    let server = Running::new();
    let input = |members: &str| format!(r#"{{"inputs":[{{{members}}}]}}"#);
    let whole = r#""name":"input","shape":[1,4],"datatype":"FP32""#;
    let bodies = [
        String::new(),
        "null".into(),
        "[]".into(),
        "{".into(),
        "{}".into(),
        "{\"inputs\":{}}".into(),
        "{\"inputs\":[]}".into(),
        "{\"inputs\":[1]}".into(),
        input(""),
        input(r#""name":"input","shape":[1,4],"data":[1,2,3,4]"#),
        input(r#""name":"input","datatype":"FP32","data":[1,2,3,4]"#),
        input(r#""shape":[1,4],"datatype":"FP32","data":[1,2,3,4]"#),
        input(whole),
        input(&format!("{whole},\"data\":[1,2,3]")),
        input(&format!("{whole},\"data\":[1,2,3,4,5]")),
        input(&format!("{whole},\"data\":[1,2,3,\"4\"]")),
        input(&format!("{whole},\"data\":[1,2,3,4],\"data\":[1,2,3,4]")),
        input(&format!("{whole},\"data\":[1,2,3,4],\"parameters\":{{\"binary_data_size\":16}}")),
        input(&format!("{whole},\"parameters\":{{\"binary_data_size\":16}}")),
        input(&format!("{whole},\"parameters\":{{\"shared_memory_region\":\"x\"}}")),
        input(r#""name":"input","shape":[1,4],"datatype":"FP33","data":[1,2,3,4]"#),
        input(r#""name":"input","shape":[1,4],"datatype":"FP64","data":[1,2,3,4]"#),
        input(r#""name":"input","shape":[-1,4],"datatype":"FP32","data":[1,2,3,4]"#),
        input(r#""name":"input","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]"#),
        input(r#""name":"other","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]"#),
        input(r#""name":"input","shape":[9223372036854775807,9223372036854775807],"datatype":"FP32","data":[]"#),
        format!("{}x", String::from_utf8(request()).unwrap()),
        r#"{"parameters":{"priority":"high"},"inputs":[]}"#.into(),
        r#"{"parameters":{"triton_x":1},"inputs":[]}"#.into(),
        r#"{"outputs":[{"name":"nope"}],"inputs":[{"name":"input","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#
            .into(),
    ];
    let mut client = server.client();
    for body in bodies {
        let answer = client.send("POST", INFER, &[], body.as_bytes());
        assert_eq!(answer.status, 400, "{body}");
        answer.is_refused(400, "bad_input");
    }
    let sequence = r#"{"parameters":{"sequence_id":1},"inputs":[]}"#;
    client.send("POST", INFER, &[], sequence.as_bytes()).is_refused(501, "unsupported");
    for length in ["-1", "x", "1000000", "18446744073709551616", "5"] {
        let answer = client.send("POST", INFER, &[("Inference-Header-Content-Length", length)], &request());
        answer.is_refused(400, "bad_input");
    }
    assert_eq!(client.send("POST", INFER, &[], &request()).status, 200, "the connection goes on");
}

#[test]
fn data_may_come_before_its_type() {
    let server = Running::new();
    let body = r#"{"outputs":null,"inputs":[{"data":[[1,2,3,4]],"shape":[1,4],"parameters":{"x":[{}]},"datatype":"FP32","name":"input"}],"unknown":{"a":[1]}}"#;
    assert_eq!(infer(&server, &[], body.as_bytes()).json()["outputs"][0]["data"], json!([1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn what_is_served() {
    let server = Running::new();
    assert_eq!(server.get("/v2/health/live").status, 200);
    assert_eq!(server.get("/v2/health/ready").json(), json!({ "ready": true }));
    let metadata = server.get("/v2").json();
    assert_eq!(metadata["name"], "dala");
    assert!(metadata["extensions"].as_array().unwrap().contains(&json!("binary_tensor_data")));
    assert!(!metadata["extensions"].as_array().unwrap().contains(&json!("model_repository")), "it may not be used");
    let tensor = |name| json!({ "name": name, "datatype": "FP32", "shape": [-1, 4] });
    let expected = json!({ "name": "identity", "versions": ["1"], "platform": "dala_identity",
        "inputs": [tensor("input")], "outputs": [tensor("output")] });
    assert_eq!(server.get("/v2/models/identity").json(), expected);
    assert_eq!(server.get("/v2/models/identity/versions/1").json(), expected);
    assert_eq!(server.get("/v2/models/identity/ready").json(), json!({ "name": "identity", "ready": true }));
    let config = server.get("/v2/models/identity/config").json();
    assert_eq!(config["input"], json!([{ "name": "input", "data_type": "TYPE_FP32", "dims": [4] }]));
    let index = server.send("POST", "/v2/repository/index", &[], b"").json();
    assert_eq!(index[0], json!({ "name": "identity", "version": "1", "state": "READY", "reason": "" }));
    assert_eq!(index.as_array().unwrap().len(), 2, "pipelines are not models");
    server.send("POST", INFER, &[], &request());
    let statistics = server.get("/v2/models/identity/stats").json();
    assert_eq!(statistics["model_stats"][0]["inference_count"], 1);
    assert_eq!(server.get("/v2/models/stats").json()["model_stats"].as_array().unwrap().len(), 2);
}

#[test]
fn names_that_are_not_served() {
    let server = Running::new();
    for name in [
        "nope",
        "..",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "identity%00",
        "%c3%a9",
        "identity%2Fversions",
        &"a".repeat(5000),
    ] {
        for part in ["", "/ready", "/config", "/stats"] {
            server.get(&format!("/v2/models/{name}{part}")).is_refused(404, "unknown_model");
        }
        server.send("POST", &format!("/v2/models/{name}/infer"), &[], &request()).is_refused(404, "unknown_model");
        server.send("POST", &format!("/v1/pipelines/{name}"), &[], b"picture").is_refused(404, "unknown_pipeline");
    }
    server.get("/v2/models/identity/versions/2").is_refused(404, "unknown_version");
    server.get("/v2/models/identity/nothing").is_refused(404, "unknown_route");
    server.get("/../../etc/passwd").is_refused(404, "unknown_route");
    let answer = server.get(INFER);
    answer.is_refused(405, "wrong_method");
    assert_eq!(answer.header("allow"), Some("POST"));
    for path in ["/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/status", "/v2/repository/x/index"] {
        server.get(path).is_refused(501, "unsupported");
    }
}

#[test]
fn models_are_loaded_where_that_is_allowed() {
    let path = |verb| format!("/v2/repository/models/identity/{verb}");
    let server = Running::new();
    server.send("POST", &path("load"), &[], b"").is_refused(403, "forbidden");
    server.send("POST", &path("unload"), &[], b"").is_refused(403, "forbidden");
    let server = Running::with(Options { may_load: true, ..options() });
    assert_eq!(server.send("POST", &path("unload"), &[], br#"{"parameters":{"unload_dependents":false}}"#).status, 200);
    server.get("/v2/models/identity/ready").is_refused(503, "not_ready");
    server.send("POST", INFER, &[], &request()).is_refused(503, "not_ready");
    let ready = server.send("POST", "/v2/repository/index", &[], br#"{"ready":true}"#).json();
    assert_eq!(ready.as_array().unwrap().len(), 1);
    assert_eq!(server.send("POST", &path("load"), &[], b"{}").status, 200);
    assert_eq!(server.get("/v2/models/identity/ready").status, 200);
    server.send("POST", &path("load"), &[], br#"{"parameters":{"config":"{}"}}"#).is_refused(501, "unsupported");
    server.send("POST", &path("load"), &[], b"[]").is_refused(400, "bad_input");
    server.send("POST", "/v2/repository/models/nope/load", &[], b"").is_refused(404, "unknown_model");
}

#[test]
fn each_refusal_of_the_back_reaches_the_client() {
    let server = Running::new();
    let wait = Duration::from_millis(1500);
    let mut client = server.client();
    for (refusal, status, code, retry) in [
        (Refusal::Full { retry_after: wait }, 503, "full", Some("2")),
        (Refusal::TooMany { retry_after: wait }, 429, "too_many", Some("2")),
        (Refusal::TooLate { expected_wait: wait }, 503, "too_late", Some("2")),
        (Refusal::Expired, 504, "expired", None),
        (Refusal::Failed("the 3rd item".into()), 500, "failed", None),
        (Refusal::DeviceLost, 500, "device_lost", None),
        (Refusal::BadInput("é\n".into()), 400, "bad_input", None),
        (Refusal::NotReady { model: "m".into(), reason: "r".into() }, 503, "not_ready", None),
        (Refusal::Unsupported("x".into()), 501, "unsupported", None),
        (Refusal::Forbidden("x".into()), 403, "forbidden", None),
        (Refusal::Internal("x".into()), 500, "internal", None),
    ] {
        *server.back.refuses.lock().unwrap() = Some(refusal.clone());
        let answer = client.send("POST", INFER, &[], &request());
        answer.is_refused(status, code);
        assert_eq!(answer.json()["error"], refusal.to_string());
        assert_eq!(answer.header("retry-after"), retry);
        assert_eq!(answer.header("retry-after-ms"), retry.map(|_| "1500"));
    }
}

#[test]
fn lanes_and_deadlines_reach_the_back() {
    let server = Running::new();
    let asked = |headers: &[(&str, &str)], parameters: &str| {
        let body = format!(
            r#"{{"parameters":{parameters},"inputs":[{{"name":"input","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}}]}}"#
        );
        assert_eq!(infer(&server, headers, body.as_bytes()).status, 200);
        server.back.terms.lock().unwrap().unwrap()
    };
    let terms = asked(&[], "{}");
    assert_eq!((terms.lane, terms.deadline), (Lane::Default, None));
    assert_eq!(asked(&[], r#"{"priority":1}"#).lane, Lane::Interactive);
    assert_eq!(asked(&[("Dala-Lane", "background")], "{}").lane, Lane::Background);
    assert_eq!(asked(&[("Dala-Lane", "background")], r#"{"priority":1}"#).lane, Lane::Interactive);
    let near = |terms: dala_serve::Terms, seconds: u64| {
        let left = terms.deadline.unwrap().saturating_duration_since(Instant::now());
        let whole = Duration::from_secs(seconds);
        assert!(left < whole && left > whole - Duration::from_secs(25), "{left:?}");
    };
    near(asked(&[], r#"{"timeout":60000000}"#), 60);
    near(asked(&[("Dala-Timeout-Ms", "30000")], "{}"), 30);
    near(asked(&[("Dala-Timeout-Ms", "30000")], r#"{"timeout":60000000}"#), 30);
    infer(&server, &[("Dala-Lane", "fast")], &request()).is_refused(400, "bad_input");
    infer(&server, &[("Dala-Timeout-Ms", "soon")], &request()).is_refused(400, "bad_input");
    server.back.holds.send_replace(true);
    let began = Instant::now();
    infer(&server, &[("Dala-Timeout-Ms", "100")], &request()).is_refused(504, "expired");
    assert!(began.elapsed() < Duration::from_secs(60));
    server.until_waiting(0);
}

#[test]
fn a_client_that_goes_is_noticed() {
    let server = Running::new();
    server.back.holds.send_replace(true);
    let mut client = server.client();
    client.begin("POST", INFER, &[], request().len());
    std::io::Write::write_all(&mut client.stream, &request()).unwrap();
    server.until_waiting(1);
    drop(client);
    server.until_waiting(0);
}

#[test]
fn pictures() {
    let server = Running::new();
    let answer = server.send("POST", "/v1/pipelines/same", &[("Content-Type", "image/jpeg")], b"a picture");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/png")));
    assert_eq!(answer.body, b"a picture");
    assert!(answer.header("server-timing").is_some());
    server.send("POST", "/v1/pipelines/same", &[], b"").is_refused(400, "bad_input");
    server
        .send("POST", "/v1/pipelines/same", &[("Content-Encoding", "gzip")], b"x")
        .is_refused(415, "unsupported_media");
    server.get("/v1/pipelines/same").is_refused(405, "wrong_method");
}

#[test]
fn metrics_and_status_count() {
    let server = Running::new();
    infer(&server, &[], &request());
    infer(&server, &[], b"{}");
    server.send("POST", "/v2/models/nope/infer", &[], b"{}");
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    for line in [
        "dala_requests_total{model=\"identity\",outcome=\"ok\"} 1",
        "dala_requests_total{model=\"identity\",outcome=\"bad_input\"} 1",
        "dala_requests_total{model=\"\",outcome=\"unknown_model\"} 1",
        "dala_request_seconds_count{model=\"identity\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    let status = server.get("/v1/status").json();
    assert_eq!((&status["models"][0]["answered"], &status["models"][0]["refused"]), (&json!(1), &json!(1)));
    assert_eq!(status["pipelines"][0]["name"], "same");
    assert_eq!(status["models"][0]["inputs"][0]["shape"], json!([-1, 4]));
}

#[test]
fn heads_are_answered_without_bodies() {
    let server = Running::new();
    let mut client = server.client();
    client.begin("HEAD", "/v2", &[], 0);
    let mut first = [0; 15];
    std::io::Read::read_exact(&mut client.stream, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
}

#[test]
fn a_client_that_asks_before_it_sends() {
    let server = Running::new();
    let mut client = server.client();
    let body = request();
    client.begin("POST", INFER, &[("Expect", "100-continue")], body.len());
    assert_eq!(client.answer().unwrap().status, 100);
    std::io::Write::write_all(&mut client.stream, &body).unwrap();
    assert_eq!(client.answer().unwrap().status, 200);
}
