//! `dala detect --watch`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::folder::Folder;
use super::photos::{FACE, astronaut, fetched};
use super::{command, dala};

/// The lines of `--json` by the names of the photos.
fn lines(text: &str) -> BTreeMap<String, Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = lines.map(|line| (line["photo"].as_str().unwrap().rsplit('/').next().unwrap().to_owned(), line));
    named.collect()
}

#[test]
fn a_folder_is_gone_through_once_and_broken_files_are_reported() {
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let folder = Folder::new();
    fs::copy(astronaut(), folder.path("face.png")).unwrap();
    folder.photo("plain.png");
    folder.file("cut.png", &fs::read(astronaut()).unwrap()[..5000]);
    folder.file("empty.jpg", "");
    folder.file("notes.txt", "no photo");
    let watched = folder.path(".");
    let arguments = ["detect", "--watch", &watched, "--once", "--model", &model, "--device", "cpu"];

    let run = dala(&[&arguments[..], &["--json", "--deadline", "600s"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (1, "error: 2 of 4 photos could not be looked at\n"), "{}", run.stdout);
    let found = lines(&run.stdout);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["cut.png", "empty.jpg", "face.png", "plain.png"], "{}", run.stdout);
    let face = &found["face.png"]["faces"][0];
    for (side, expected) in ["left", "top", "right", "bottom"].into_iter().zip(FACE.0) {
        assert!((face[side].as_f64().unwrap() - expected).abs() < 0.1, "{side}: {face}");
    }
    assert_eq!(found["plain.png"]["faces"].as_array().map(Vec::len), Some(0));
    assert!(found.values().all(|line| line["late"] == false && line["dropped"] == false), "{}", run.stdout);
    assert!(found["cut.png"]["error"].as_str().unwrap().contains("the PNG picture is cut off"), "{}", run.stdout);
    assert!(found["empty.jpg"]["error"].as_str().unwrap().contains("it is empty"), "{}", run.stdout);

    for name in ["cut.png", "empty.jpg"] {
        fs::remove_file(folder.path(name)).unwrap();
    }
    let text = dala(&arguments).success();
    assert!(text.contains("/face.png: 1 face, ") && text.contains("/plain.png: 0 faces, "), "{text}");
}

#[test]
fn photos_that_wait_too_long_are_dropped_and_others_late() {
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let folder = Folder::new();
    for name in ["a.png", "b.png", "c.png", "d.png", "e.png"] {
        fs::copy(astronaut(), folder.path(name)).unwrap();
    }
    let watched = folder.path(".");
    let options = ["--deadline", "1ms", "--json", "--model", &model, "--device", "cpu"];
    let text = dala(&[&["detect", "--watch", &watched, "--once"], &options[..]].concat()).success();
    let found = lines(&text);
    assert_eq!(found.len(), 5, "{text}");
    let is = |line: &Value, what: &str| line[what] == true;
    // To read one alone takes longer than that.
    assert!(found.values().all(|line| is(line, "late") != is(line, "dropped")), "{text}");
    assert!(found.values().all(|line| is(line, "dropped") == line["faces"].is_null()), "{text}");
    assert!(found.values().filter(|line| is(line, "dropped")).count() >= 3, "{text}");
}

#[test]
fn photos_are_looked_at_as_they_come_when_they_are_whole() {
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let folder = Folder::new();
    let watched = folder.path(".");
    let mut child = command(&["detect", "--watch", &watched, "--model", &model, "--device", "cpu"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || output.next().unwrap().unwrap();
    // A photo that is written slowly is read when it is whole.
    let bytes = fs::read(astronaut()).unwrap();
    let mut file = fs::File::create(folder.path("slow.png")).unwrap();
    let mut longest = Duration::ZERO;
    for part in bytes.chunks(bytes.len() / 40 + 1) {
        let begun = Instant::now();
        file.write_all(part).unwrap();
        sleep(Duration::from_millis(20));
        longest = longest.max(begun.elapsed());
    }
    drop(file);
    let mut line = next();
    // Where this thread stood still, the file looked whole before it was.
    while longest > Duration::from_millis(200) && line.contains("/slow.png: failed: ") {
        line = next();
    }
    assert!(line.contains("/slow.png: 1 face, ") && !line.contains("late"), "{line}");
    // These are whole as soon as they are there.
    let aside = Folder::new();
    fs::rename(aside.photo("plain.png"), folder.path("next.png")).unwrap();
    let line = next();
    assert!(line.contains("/next.png: 0 faces, "), "{line}");
    // One that changes is another.
    fs::copy(astronaut(), aside.path("face.png")).unwrap();
    fs::rename(aside.path("face.png"), folder.path("next.png")).unwrap();
    let line = next();
    assert!(line.contains("/next.png: 1 face, "), "{line}");

    // Not by an interrupt: whoever starts tests in the background may have these ignored.
    let start = Instant::now();
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.signal(), Some(15), "{ended}");
    assert!(start.elapsed() < Duration::from_secs(120));
    assert!(output.next().is_none());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let photo = folder.photo("photo.png");
    let watched = folder.path(".");
    for (arguments, expected) in [
        (vec!["--watch", &watched, &photo], "cannot be used with"),
        (vec!["--watch", &watched, "--output", "a.png"], "cannot be used with"),
        (vec![&photo, "--once"], "cannot be used with"),
        (vec!["--watch", &watched, "--deadline", "200"], "write a time above zero, such as 200ms or 1.5s"),
        (vec!["--watch", &watched, "--deadline=-1s"], "write a time above zero"),
        (vec!["--watch", &watched, "--deadline", "0ms"], "write a time above zero"),
        (vec!["--watch", &watched, "--deadline", "NaNs"], "write a time above zero"),
    ] {
        let message = dala(&[&["detect"], &arguments[..]].concat()).error(2);
        assert!(message.contains(expected), "{message}");
    }
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let message = folder.on_cpu(&["detect", "--watch", &folder.path("nowhere"), "--model", &model]).error(2);
    assert_eq!(message, "error: cannot read ./nowhere: No such file or directory (os error 2)\n");
}
