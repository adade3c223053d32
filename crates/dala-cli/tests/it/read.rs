//! `dala read`.

use std::path::{Path, PathBuf};

use super::folder::Folder;
use super::{command, dala};

fn picture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dala-recipes/tests/data");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Whether both models are there; says so if not.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn has_models() -> bool {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let folder = std::env::var_os("DALA_MODELS").map_or(home.join(".cache/dala-compute/models"), PathBuf::from);
    let missing = ["text_detector.onnx", "text_recogniser.onnx"].map(|name| folder.join(name)).into_iter();
    let missing: Vec<PathBuf> = missing.filter(|file| !file.is_file()).collect();
    missing.iter().for_each(|file| println!("skipped: {} is missing", file.display()));
    missing.is_empty()
}

#[test]
fn lines_are_printed_in_reading_order() {
    if !has_models() {
        return;
    }
    let note = picture("note.png");
    let text = dala(&["read", &note, "--device", "cpu"]).success();
    let lines: Vec<&str> = text.lines().collect();
    // RapidOCR leaves out the spaces of the second line, too.
    assert_eq!((lines[0], lines[1].replace(' ', "")), ("Shopping list", "twoloavesofbread".to_owned()), "{text}");
    // Of several photos each has its name above it.
    let both = dala(&["read", &note, &picture("slanted.png"), "--device", "cpu"]).success();
    assert!(both.starts_with(&format!("{note}: {} lines\n  Shopping list\n", lines.len())), "{both}");
    assert!(both.contains("\n  Uphill we go\n"), "{both}");
}

#[test]
fn lines_are_framed_and_described() {
    if !has_models() {
        return;
    }
    let folder = Folder::new();
    let (note, framed) = (picture("note.png"), folder.path("framed.png"));
    let answer = dala(&["read", &note, "--json", "--output", &framed, "--device", "cpu"]).json();
    let first = &answer["photos"][0]["lines"][0];
    assert_eq!(first["text"], "Shopping list");
    assert!(first["score"].as_f64().unwrap() > 0.9);
    assert_eq!((answer["device"].as_str(), first["corners"].as_array().unwrap().len()), (Some("cpu"), 4));
    let (before, after) = (image::open(&note).unwrap().to_rgb8(), image::open(&framed).unwrap().to_rgb8());
    assert_eq!(before.dimensions(), after.dimensions());
    let (x, y) = (first["corners"][0][0].as_f64().unwrap(), first["corners"][0][1].as_f64().unwrap());
    let near = |at: u32, place: f64| (f64::from(at) - place).abs() < 4.0;
    let changed = after.enumerate_pixels().filter(|(column, row, pixel)| before.get_pixel(*column, *row) != *pixel);
    assert!(changed.filter(|(column, row, _)| near(*column, x) && near(*row, y)).count() > 0);
}

#[test]
fn a_photo_without_text_is_a_negative_answer() {
    if !has_models() {
        return;
    }
    let folder = Folder::new();
    image::RgbImage::from_pixel(40, 30, image::Rgb([90, 120, 200])).save(folder.path("plain.png")).unwrap();
    let plain = folder.path("plain.png");
    assert!(dala(&["read", &plain, "--device", "cpu"]).error(1).contains("no text"));
    let answer = dala(&["read", &plain, "--device", "cpu", "--json"]).json();
    assert_eq!(answer["photos"][0]["lines"].as_array().unwrap().len(), 0);
}

#[test]
fn what_is_missing_is_named() {
    let folder = Folder::new();
    let note = picture("note.png");
    let empty = |arguments: &[&str]| command(arguments).env("DALA_MODELS", folder.path(".")).output().unwrap().into();
    let run: super::Run = empty(&["read", &note]);
    let message = run.error(2);
    assert!(message.contains("text_detector") && message.contains("scripts/get-models text"), "{message}");
    assert!(dala(&["read", "nowhere.png"]).error(2).contains("cannot read nowhere.png"));
    assert!(dala(&["read", &note, &note, "-o", "a.png"]).error(2).contains("--output is for one photo"));
    assert!(dala(&["read", &note, "-o", "a.gif"]).error(2).contains("cannot write a.gif"));
}
