//! What people do on their first day.

use std::io::Write;

use super::load::{Connection, Load, get};
use super::{Folder, Serving, rows};

#[test]
fn models_and_pipelines_answer_by_their_names() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let server = Serving::start(&folder, &[&model, "soft=blur(radius=1) | grayscale"]);
    assert_eq!(get(server.http, "GET", "/v2/health/ready").0, 200);
    let (status, about) = get(server.http, "GET", "/v2/models/net");
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    assert_eq!((status, &about["inputs"][0]["shape"]), (200, &serde_json::json!([-1, 4])));

    let mut connection = Connection::open(server.http).unwrap();
    let body = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[2,4],"data":[1,2,3,4,5,6,7,8]}]}"#;
    let head = format!("POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    connection.stream.write_all(head.as_bytes()).unwrap();
    let (status, _, answer) = connection.answer().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["outputs"][0]["data"],
        serde_json::json!([-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0]),
        "{answer}"
    );
    assert_eq!(answer["outputs"][0]["shape"], serde_json::json!([2, 4]));

    // The same as the command does with a file.
    let photo = folder.photo("photo.png");
    let expected = folder.path("expected.png");
    folder.on_cpu(&["filter", "blur(radius=1) | grayscale", &photo, &expected]).success();
    let picture = std::fs::read(&photo).unwrap();
    let head = format!("POST /v1/pipelines/soft HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", picture.len());
    connection.stream.write_all(&[head.as_bytes(), &picture].concat()).unwrap();
    let (status, _, made) = connection.answer().unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&made));
    folder.file("made.png", made);
    assert_eq!(folder.open("made.png").to_rgb8(), folder.open("expected.png").to_rgb8());
    assert!(server.end().contains("ended: every request was answered"));
}

#[test]
fn runs_are_shared_and_answers_are_not() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let mut server = Serving::start(&folder, &[&model]);
    server.tell("slow 20ms");
    let tally = Load::new(server.http, 16, std::time::Duration::from_secs(1)).run();
    println!("16 callers, runs of 20 ms: {tally}");
    tally.is_whole();
    let (_, statistics) = get(server.http, "GET", "/v2/models/net/stats");
    let statistics: serde_json::Value = serde_json::from_str(&statistics).unwrap();
    let [items, runs] =
        ["inference_count", "execution_count"].map(|count| statistics["model_stats"][0][count].as_u64());
    assert!(items.unwrap() > 2 * runs.unwrap(), "{statistics}");
    let (_, metrics) = get(server.http, "GET", "/metrics");
    assert!(
        metrics.contains(&format!("dala_requests_total{{model=\"net\",outcome=\"ok\"}} {}", tally.answered)),
        "{metrics}"
    );
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let folder = Folder::new();
    let model = folder.file("broken.onnx", "no model");
    let serve = |what: &str| folder.on_cpu(&["serve", "--http", "127.0.0.1:0", what]).error(2);
    assert!(serve("soft=blur(radius=1) | inwert").contains("no kernel is called `inwert`"));
    assert!(serve("soft=blur(radius=-1)").contains("radius"));
    assert!(serve(&model).contains("broken"), "{}", serve(&model));
    assert!(serve("blur(radius=1)").contains("has no name to be served by"));
    assert!(serve("missing.onnx").contains("missing"));
}
