//! `/openapi.json` says what the server does: every address in it is asked, and what comes back is held against it.

use std::collections::BTreeSet;

use dala_serve::{Options, Refusal};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::http::request;
use crate::running::{Running, options};

struct Document(Value);

impl Document {
    fn of(server: &Running) -> Document {
        Document(server.get("/openapi.json").json())
    }

    /// What a reference stands for, or the value itself.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(path) => self.0.pointer(path.trim_start_matches('#')).unwrap_or_else(|| panic!("{path} is not there")),
            None => value,
        }
    }

    /// Checks a value against a schema; `at` says where it is.
    fn check(&self, value: &Value, schema: &Value, at: &str) {
        let schema = self.resolved(schema);
        let is = |kind: &str| match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "null" => value.is_null(),
            other => panic!("{other} is no type"),
        };
        match &schema["type"] {
            Value::String(kind) => assert!(is(kind), "{at} is no {kind}: {value}"),
            Value::Array(kinds) => assert!(kinds.iter().any(|kind| is(kind.as_str().unwrap())), "{at}: {value}"),
            _ => panic!("{at}: a schema without a type"),
        }
        if let Some(values) = schema["enum"].as_array() {
            assert!(values.contains(value), "{at}: {value} is none of {values:?}");
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(value.get(name.as_str().unwrap()).is_some(), "{at} has no {name}: {value}");
        }
        if let (Some(members), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
            for (name, member) in members {
                let schema = known.get(name).unwrap_or_else(|| panic!("{at} has an unknown {name}: {value}"));
                self.check(member, schema, &format!("{at}.{name}"));
            }
        }
        if let (Some(elements), Some(schema)) = (value.as_array(), schema.get("items")) {
            elements.iter().for_each(|element| self.check(element, schema, &format!("{at}[]")));
        }
    }

    /// Checks an answer against what an operation says of its status.
    fn check_answer(&self, answer: &Answer, path: &str, method: &str) {
        let at = format!("{method} {path} {}", answer.status);
        let responses = &self.0["paths"][path][method.to_ascii_lowercase()]["responses"];
        let response = responses.get(answer.status.to_string()).unwrap_or_else(|| panic!("{at} is not described"));
        let response = self.resolved(response);
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        let content = response["content"].get(kind).unwrap_or_else(|| panic!("{at}: {kind} is not described"));
        if kind == "application/json" {
            self.check(&answer.json(), &content["schema"], &at);
        }
        for header in ["server-timing", "retry-after", "retry-after-ms", "inference-header-content-length"] {
            let described = response["headers"].as_object().into_iter().flatten();
            let described = described.map(|(name, _)| name.to_ascii_lowercase()).any(|name| name == header);
            assert!(answer.header(header).is_none() || described, "{at}: {header} is not described");
        }
    }
}

/// A body that an address takes.
fn body(path: &str) -> Vec<u8> {
    match path {
        _ if path.ends_with("/infer") => request(),
        _ if path.contains("pipelines") => b"picture".to_vec(),
        _ => b"{}".to_vec(),
    }
}

fn filled(path: &str, model: &str, version: &str, pipeline: &str) -> String {
    path.replace("{model}", model).replace("{version}", version).replace("{pipeline}", pipeline)
}

#[test]
fn every_address_answers_as_described() {
    let server = Running::with(Options { may_load: true, ..options() });
    let document = Document::of(&server);
    let mut statuses = BTreeSet::new();
    for (path, operations) in document.0["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let mut ask = |real: &str, headers: &[(&str, &str)], body: &[u8]| {
                let answer = server.send(&method, real, headers, body);
                document.check_answer(&answer, path, &method);
                statuses.insert(answer.status);
                answer
            };
            let real = filled(path, "identity", "1", "same");
            ask(&real, &[], b"");
            let sent = if method == "POST" { body(path) } else { Vec::new() };
            let whole = ask(&real, &[], &sent);
            let is_offered = operations[&method.to_ascii_lowercase()]["responses"].get("200").is_some();
            assert_eq!(whole.status, if is_offered { 200 } else { 501 }, "{method} {path}");
            if path.contains('{') && is_offered {
                let unknown = ask(&filled(path, "nope", "1", "nope"), &[], &body(path));
                assert_eq!(unknown.status, 404, "{method} {path}");
            }
            if path.contains("{version}") {
                assert_eq!(ask(&filled(path, "identity", "9", ""), &[], &body(path)).status, 404);
            }
            if path.ends_with("/infer") {
                ask(&real, &[("Inference-Header-Content-Length", "0")], &[0; 16]);
                ask(&real, &[("Content-Encoding", "br")], &body(path));
                for refusal in [Refusal::Expired, Refusal::Failed("x".into()), Refusal::DeviceLost] {
                    *server.back.refuses.lock().unwrap() = Some(refusal);
                    ask(&real, &[], &body(path));
                }
                for wait in [1, 2000].map(std::time::Duration::from_millis) {
                    *server.back.refuses.lock().unwrap() = Some(Refusal::Full { retry_after: wait });
                    ask(&real, &[], &body(path));
                }
                *server.back.refuses.lock().unwrap() = None;
            }
        }
    }
    assert!(statuses.is_superset(&[200, 400, 404, 415, 500, 501, 503, 504].into()), "{statuses:?}");
}

#[test]
fn every_code_of_a_refusal_is_described() {
    let server = Running::new();
    let document = Document::of(&server);
    let known = &document.0["components"]["schemas"]["Error"]["properties"]["code"]["enum"];
    let wait = std::time::Duration::ZERO;
    let text = String::new;
    let all = [
        Refusal::UnknownModel(text()),
        Refusal::UnknownVersion { model: text(), version: text() },
        Refusal::UnknownPipeline(text()),
        Refusal::UnknownRoute(text()),
        Refusal::WrongMethod { allowed: "" },
        Refusal::NotReady { model: text(), reason: text() },
        Refusal::BadInput(text()),
        Refusal::UnsupportedMedia(text()),
        Refusal::TooLarge { limit_bytes: 0 },
        Refusal::TooSlow(wait),
        Refusal::Full { retry_after: wait },
        Refusal::TooMany { retry_after: wait },
        Refusal::TooLate { expected_wait: wait },
        Refusal::Expired,
        Refusal::Draining,
        Refusal::Failed(text()),
        Refusal::DeviceLost,
        Refusal::Unsupported(text()),
        Refusal::Unauthorised,
        Refusal::Forbidden(text()),
        Refusal::Internal(text()),
    ];
    let codes: Vec<Value> = all.iter().map(|refusal| json!(refusal.said().code)).collect();
    assert_eq!(*known, Value::Array(codes));
}

#[test]
fn every_address_is_described() {
    let server = Running::new();
    let document = Document::of(&server);
    let described: BTreeSet<&str> = document.0["paths"].as_object().unwrap().keys().map(|path| &**path).collect();
    // What the server knows and the document does not name is found by asking for what is near to what it names.
    let mut words: BTreeSet<&str> = described.iter().flat_map(|path| path.split('/')).collect();
    words.extend(["v1", "v3", "index", "health", "live", "stats", "infer"]);
    for first in &words {
        for second in &words {
            for third in ["", "live", "index", "status"] {
                let path = format!("/{first}/{second}/{third}");
                let path = path.trim_end_matches('/').replace("//", "/");
                let path = if path.is_empty() { "/".to_owned() } else { path };
                if path.contains('{') {
                    continue;
                }
                let answer = server.get(&path);
                let is_known = answer.status != 404 || answer.json()["code"] != "unknown_route";
                let is_model = path.starts_with("/v2/models/") || path.starts_with("/v1/pipelines/");
                let is_named = path.starts_with("/v2/repository/") || path.contains("sharedmemory");
                assert!(!is_known || described.contains(&*path) || is_model || is_named, "{path} is not described");
            }
        }
    }
}
