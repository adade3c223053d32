//! Text in photos, beside what RapidOCR reads with the same models.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dala_compute::Device;
use dala_image::{Limits, decode};
use dala_recipes::text::{DETECTOR, RECOGNISER, Reader, TextLine};
use dala_recipes::{RecipeError, find};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A reader, or a reason why there is none.
fn reader() -> Option<Reader> {
    match (find(DETECTOR, None), find(RECOGNISER, None)) {
        (Ok(detector), Ok(recogniser)) => {
            let device = Device::open("cpu").unwrap();
            Some(Reader::open(&device, &detector, &recogniser).unwrap())
        }
        (Err(error), _) | (_, Err(error)) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn read(reader: &Reader, file: &Path) -> Vec<TextLine> {
    let picture = decode(&fs::read(file).unwrap(), &Limits::default()).unwrap();
    let (height, width) = (picture.height, picture.width);
    let rgba = picture.into_rgba();
    let levels: Vec<u8> =
        rgba.as_chunks::<4>().0.iter().flat_map(|[red, green, blue, _]| [*red, *green, *blue]).collect();
    reader.read(&levels, height, width).unwrap()
}

/// What RapidOCR reads in the pictures of a folder.
fn expected(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("lines.txt")).unwrap().lines() {
        let (name, text) = line.split_once('\t').unwrap();
        lines.entry(name.to_owned()).or_default().push(text.to_owned());
    }
    lines
}

/// `DALA_TEXT_PICTURES` names a folder with more pictures, and `lines.txt`, as `tests/data/make_text.py` makes them.
#[test]
fn every_word_that_rapidocr_reads_is_read() {
    let Some(reader) = reader() else { return };
    let more = std::env::var_os("DALA_TEXT_PICTURES").map(PathBuf::from);
    let (mut count, mut missing) = (0, Vec::new());
    for folder in [Some(data()), more].into_iter().flatten() {
        for (name, lines) in expected(&folder) {
            let found = read(&reader, &folder.join(&name));
            let words: Vec<&str> = found.iter().flat_map(|line| line.text.split_whitespace()).collect();
            for word in lines.iter().flat_map(|line| line.split_whitespace()) {
                count += 1;
                if !words.contains(&word) {
                    missing.push(format!("{name}: `{word}`"));
                }
            }
            let texts: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
            println!("{name}: {} lines of RapidOCR, {}: {texts:?}", lines.len(), found.len());
        }
    }
    assert!(count > 30 && missing.is_empty(), "of {count} words these are missing: {missing:#?}");
}

#[test]
fn lines_are_where_they_are_drawn() {
    let Some(reader) = reader() else { return };
    let note = read(&reader, &data().join("note.png"));
    let near = |place: (f32, f32), x: f32, y: f32| (place.0 - x).abs() < 12.0 && (place.1 - y).abs() < 12.0;
    let eggs = note.iter().find(|line| line.text == "12 eggs").unwrap();
    assert!(near(eggs.corners[0], 24.0, 116.0), "{eggs:?}");
    assert!(eggs.score > 0.9);
    // The price is beside it, so it is read after it.
    let place = |text: &str| note.iter().position(|line| line.text == text).unwrap();
    assert_eq!(place("$4.99"), place("12 eggs") + 1);
    // What is upside down begins at its lower right.
    let sides = read(&reader, &data().join("sides.png"));
    let turned = sides.iter().find(|line| line.text.contains("upside")).unwrap();
    assert!(turned.corners[0].0 > turned.corners[1].0 + 50.0, "{turned:?}");
}

#[test]
fn photos_without_text_or_pixels_are_no_trouble() {
    let Some(reader) = reader() else { return };
    assert_eq!(reader.read(&[255; 3], 1, 1).unwrap(), []);
    assert_eq!(reader.read(&[90; 40 * 3 * 3], 3, 40).unwrap(), []);
    for (levels, height, width) in [(0, 0, 0), (0, 0, 5), (5, 1, 2), (3, usize::MAX, usize::MAX)] {
        let error = reader.read(&vec![0; levels], height, width).unwrap_err();
        assert!(matches!(error, RecipeError::Input(_)), "{error}");
    }
}

#[test]
fn other_models_are_refused() {
    let device = Device::open("cpu").unwrap();
    let error = |detector: &Path, recogniser: &Path| Reader::open(&device, detector, recogniser).err().unwrap();
    assert_eq!(error(Path::new("nowhere.onnx"), Path::new("nowhere.onnx")).code(), "io");
    let (Ok(detector), Ok(recogniser)) = (find(DETECTOR, None), find(RECOGNISER, None)) else {
        println!("skipped: the models are not there");
        return;
    };
    // The detector does not know any characters.
    assert_eq!(error(&detector, &detector).code(), "unfit_model");
    // The recogniser makes no map of a photo.
    let reader = Reader::open(&device, &recogniser, &recogniser).unwrap();
    assert!(["unfit_model", "shape_mismatch"].contains(&reader.read(&[0; 12], 2, 2).unwrap_err().code()));
}
