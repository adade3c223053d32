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

/// Letters and digits alone: RapidOCR leaves out spaces here and there, and has commas for East Asian text.
fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|letter| letter.is_alphanumeric()).collect()
}

/// How many letters must be put in, taken out or changed to get from one text to the other.
fn changes(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (place, letter) in from.iter().enumerate() {
        let mut before = row[0];
        row[0] = place + 1;
        for column in 0..to.len() {
            let changed = before + usize::from(letter != &to[column]);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// `DALA_TEXT_PICTURES` names a folder with more pictures, and `lines.txt`, as `tests/data/make_text.py` makes them. One letter in ten
/// may be another: RapidOCR reads `rn` as `m`.
#[test]
fn every_line_that_rapidocr_reads_is_read() {
    let Some(reader) = reader() else { return };
    let more = std::env::var_os("DALA_TEXT_PICTURES").map(PathBuf::from);
    let (mut count, mut missing) = (0, Vec::new());
    for folder in [Some(data()), more].into_iter().flatten() {
        for (name, lines) in expected(&folder) {
            let found = read(&reader, &folder.join(&name));
            println!("{name}: {} lines, {} of RapidOCR", found.len(), lines.len());
            count += lines.len();
            for line in lines {
                let wanted = letters(&line);
                let is_it = |found: &TextLine| changes(&letters(&found.text), &wanted) <= wanted.len() / 10;
                if !found.iter().any(is_it) {
                    let found: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
                    missing.push(format!("{name}: `{line}` is not in {found:?}"));
                }
            }
        }
    }
    assert!(count >= 17 && missing.is_empty(), "of {count} lines these are missing: {missing:#?}");
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
