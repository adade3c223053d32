//! `dala listen` and `dala describe-type`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::folder::Folder;
use super::{Run, command, dala};

/// The recording of the recipes' tests.
fn recording() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dala-recipes/tests/data/speech.wav");
    file.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Whether a recipe's model is there; says so if it is not.
#[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
fn has_model(name: &str) -> bool {
    let folder = std::env::var_os("DALA_MODELS").map(PathBuf::from);
    let home = || std::env::home_dir().unwrap_or_default().join(".cache/dala-compute/models");
    let file = folder.unwrap_or_else(home).join(name);
    if !file.is_file() {
        println!("skipped: {} is missing", file.display());
    }
    file.is_file()
}

#[test]
fn speech_is_found_and_drawn() {
    if !has_model("speech.onnx") {
        return;
    }
    let (folder, recording) = (Folder::new(), recording());
    let svg = folder.path("timeline.svg");
    let text = folder.on_cpu(&["listen", &recording, "--output", &svg]).success();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("{recording}: 3.71 s, 2 spans of speech, 1.98 s, ")), "{text}");
    let spans = ["    0.58 s      1.41 s     0.83 s", "    2.02 s      3.17 s     1.15 s"];
    assert_eq!((lines.len(), &lines[1..3]), (4, &spans[..]), "{text}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.matches("class=\"span\"").count() == 2, "{svg}");

    let answer = folder.on_cpu(&["listen", &recording, "--json"]).json();
    assert_eq!((answer["device"].as_str(), answer["window_seconds"].as_f64()), (Some("cpu"), Some(0.032)));
    assert_eq!(answer["probabilities"].as_array().unwrap().len(), 117);
    assert_eq!(answer["spans"][1]["start_seconds"].as_f64().map(|start| (start * 1e3).round()), Some(2018.0));
}

#[test]
fn what_is_no_recording_is_said_before_a_model_is_read() {
    let folder = Folder::new();
    let text = folder.file("text.wav", "not a recording at all");
    let mut cut = fs::read(recording()).unwrap();
    cut.truncate(5000);
    let cut = folder.file("cut.wav", cut);
    let no_model = folder.path("none.onnx");
    for (arguments, expected) in [
        (vec![text.as_str()], "cannot read ./text.wav: it is no WAV file: it does not start with RIFF and WAVE"),
        (vec!["nowhere.wav"], "cannot read nowhere.wav: No such file or directory (os error 2)"),
        (vec![&cut], "cannot read ./cut.wav: it is cut off: the chunk `data` has 118804 bytes, and 4956 are left"),
        (vec![&text, "--output", "a.png"], "cannot write a.png: name it .svg"),
    ] {
        let message = folder.on_cpu(&[&["listen"], &arguments[..], &["--model", &no_model]].concat()).error(2);
        assert_eq!(message, format!("error: {expected}\n"));
    }
}

#[test]
fn a_model_that_is_missing_is_named() {
    let folder = Folder::new();
    for arguments in [["listen", &recording()], ["describe-type", &recording()]] {
        let output = command(&arguments).env("DALA_MODELS", folder.path(".")).output().unwrap();
        let message = folder.short(output.into()).error(2);
        assert!(message.contains(" is missing: ./") && message.contains("name a file"), "{message}");
    }
}

#[test]
fn files_are_told_apart() {
    if !has_model("file_type.onnx") || !has_model("file_type.json") {
        return;
    }
    let (folder, recording) = (Folder::new(), recording());
    // The name says something else.
    let photo = folder.file("a.txt", fs::read(folder.photo("a.png")).unwrap());
    let empty = folder.file("empty", "");
    let text = folder.on_cpu(&["describe-type", &photo, &empty, &folder.path(".")]).success();
    let labels: Vec<&str> = text.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(labels, ["png", "empty", "directory"], "{text}");
    let answer = folder.on_cpu(&["describe-type", &recording, "--json"]).json();
    assert_eq!((&answer["files"][0]["label"], answer["files"].as_array().unwrap().len()), (&"wav".into(), 1));

    let mut child = command(&["describe-type", "-", "--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(recording).unwrap()).unwrap();
    let run: Run = child.wait_with_output().unwrap().into();
    assert!(run.success().starts_with("-  wav  "));
    let message = dala(&["describe-type", "nowhere"]).error(2);
    assert_eq!(message, "error: cannot read nowhere: No such file or directory (os error 2)\n");
}
