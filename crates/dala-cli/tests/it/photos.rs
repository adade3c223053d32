//! `dala detect` and `dala upscale`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::folder::Folder;
use super::models::onnx;
use super::{Run, command, dala};

/// A model that `scripts/get-models` fetches if it is asked for; tests that need it say so where it is not there.
#[expect(clippy::print_stdout, reason = "what is skipped is said")]
pub(crate) fn fetched(name: &str, words: &str) -> Option<String> {
    let folder = std::env::var_os("DALA_MODELS").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cache/dala-compute/models")
    });
    let file = folder.join(name);
    if !file.exists() {
        println!("skipped: {} is missing; `scripts/get-models {words}` fetches it", file.display());
        return None;
    }
    Some(file.to_str().unwrap().to_owned())
}

/// A woman in front of a flag, 512 by 512.
pub(crate) fn astronaut() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dala-model/zoo/pictures/astronaut.png");
    file.to_str().unwrap().to_owned()
}

/// What ONNX Runtime gives for the same steps: a box, how sure it is, and the landmarks.
pub(crate) const FACE: ([f64; 4], f64, [[f64; 2]; 5]) = (
    [181.530, 58.202, 269.883, 177.811],
    0.92911,
    [[203.154, 101.679], [247.007, 104.514], [223.265, 125.076], [203.378, 142.327], [241.335, 144.419]],
);

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn faces_are_found_where_onnx_runtime_finds_them() {
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let folder = Folder::new();
    let drawn = folder.path("found.png");
    let arguments = ["detect", &astronaut(), "--model", &model, "--json", "--device", "cpu", "--output", &drawn];
    let answer = dala(&arguments).json();
    let photo = &answer["photos"][0];
    assert_eq!((&photo["height"], &photo["width"]), (&json!(512), &json!(512)));
    let faces = photo["faces"].as_array().unwrap();
    assert_eq!(faces.len(), 1, "{answer}");
    let (sides, score, landmarks) = FACE;
    for (side, expected) in ["left", "top", "right", "bottom"].into_iter().zip(sides) {
        let found = faces[0][side].as_f64().unwrap();
        assert!((found - expected).abs() < 0.1, "{side}: {found} and {expected}");
    }
    assert!((faces[0]["score"].as_f64().unwrap() - score).abs() < 1e-3, "{answer}");
    for (found, expected) in faces[0]["landmarks"].as_array().unwrap().iter().zip(landmarks) {
        let close = numbers(found).iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.1);
        assert!(close, "{found} and {expected:?}");
    }
    // The box is on the picture, and the rest as it was.
    let (before, after) = (image::open(astronaut()).unwrap().to_rgb8(), folder.open("found.png").to_rgb8());
    let (left, middle) = (sides[0].round() as u32, ((sides[1] + sides[3]) / 2.0) as u32);
    assert_eq!(after.get_pixel(left, middle).0, [255, 200, 0]);
    assert_eq!((after.dimensions(), after.get_pixel(5, 500)), (before.dimensions(), before.get_pixel(5, 500)));
}

#[test]
fn photos_without_faces_and_thresholds_are_answers() {
    let Some(model) = fetched("faces.onnx", "faces") else { return };
    let folder = Folder::new();
    let (photo, face) = (folder.photo("photo.png"), astronaut());
    let text = folder.on_cpu(&["detect", &photo, &face, "--model", &model]).success();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("./photo.png: 0 faces on cpu, ") && lines[0].ends_with(" ms"), "{text}");
    assert!(lines[1].ends_with(" ms") && lines[1].contains(": 1 face on cpu, "), "{text}");
    assert!(lines[2].contains(" %  left ") && lines.len() == 3, "{text}");
    let sure = folder.on_cpu(&["detect", &face, "--model", &model, "--threshold", "0.999", "--longer-side", "256"]);
    assert!(sure.success().contains(": 0 faces on cpu, "));
    for wrong in ["0", "1", "-1", "NaN", "7"] {
        let option = format!("--threshold={wrong}");
        let message = folder.on_cpu(&["detect", &face, "--model", &model, &option]).error(2);
        assert_eq!(message, format!("error: a threshold is between 0 and 1, not {wrong}\n"));
    }
}

#[test]
fn photos_become_twice_as_large() {
    let Some(model) = fetched("upscale.onnx", "upscale") else { return };
    let folder = Folder::new();
    let photo = folder.photo("photo.png");
    let (large, again) = (folder.path("large.png"), folder.path("again.jpg"));
    let text = folder.on_cpu(&["upscale", &photo, "--model", &model, "--output", &large]).success();
    assert!(text.starts_with("./photo.png -> ./large.png: 7 x 5 pixels became 14 x 10 on cpu, "), "{text}");
    let (small, result) = (folder.open("photo.png").to_rgb8(), folder.open("large.png").to_rgb8());
    assert_eq!(result.dimensions(), (14, 10));
    // The same photo, shrunk, but for the edges, beyond which networks see black.
    for (x, y) in [(2, 2), (3, 2), (4, 2)] {
        for channel in 0..3 {
            let four =
                [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(dx, dy)| result.get_pixel(2 * x + dx, 2 * y + dy).0[channel]);
            let mean = four.iter().map(|level| i32::from(*level)).sum::<i32>() / 4;
            assert!((mean - i32::from(small.get_pixel(x, y).0[channel])).abs() < 40, "{x}, {y}");
        }
    }
    let answer = folder.on_cpu(&["upscale", &photo, "--model", &model, "--output", &again, "--json"]).json();
    assert_eq!((&answer["height"], &answer["width"], &answer["device"]), (&json!(10), &json!(14), &json!("cpu")));
}

#[test]
fn models_that_are_missing_or_made_for_something_else_are_named() {
    let folder = Folder::new();
    let (photo, output) = (folder.photo("photo.png"), folder.path("out.png"));
    for (arguments, name, word) in
        [(vec!["detect", &photo], "faces", "faces"), (vec!["upscale", &photo, "-o", &output], "upscale", "upscale")]
    {
        let mut command = command(&arguments);
        let run: Run = command.env("DALA_MODELS", folder.path("models")).output().unwrap().into();
        assert_eq!(
            folder.short(run).error(2),
            format!(
                "error: the model `{name}` is missing: ./models/{name}.onnx is not there. Run `scripts/get-models {word}`, \
                 or name a file\n"
            )
        );
    }
    let gray = folder.file("gray.onnx", onnx(&[1, 1, 4, 4], &[["last", "Relu", "x", "y"]], &["y"]));
    let same = folder.file("same.onnx", onnx(&[1, 3, 4, 4], &[["last", "Relu", "x", "y"]], &["y"]));
    let broken = folder.file("broken.onnx", "This is a text.");
    let no_colours = "it does not take one photo in colours, f32 {batch, 3, height, width}";
    for (arguments, expected) in [
        (vec!["detect", &photo, "--model", &gray], format!("./gray.onnx is no model for this: {no_colours}")),
        (vec!["detect", &photo, "--model", &same], {
            let why = "it does not give middles, sizes, offsets and landmarks of faces as CenterFace does";
            format!("./same.onnx is no model for this: {why}")
        }),
        (vec!["upscale", &photo, "-o", &output, "--model", &same], {
            "./same.onnx is no model for this: it does not make a photo some times as large".to_owned()
        }),
        (vec!["upscale", &photo, "-o", &output, "--model", "nowhere.onnx"], {
            "cannot read nowhere.onnx: No such file or directory (os error 2)".to_owned()
        }),
        (vec!["detect", "nowhere.png"], {
            "cannot read nowhere.png: No such file or directory (os error 2)".to_owned()
        }),
        (vec!["detect", &photo, &photo, "-o", &output], "--output is for one photo, and there are 2".to_owned()),
        (vec!["detect", &photo, "-o", "found.gif"], {
            "cannot write found.gif: name it .jpg, .png, .webp, .tiff, .bmp, .pnm, .npy or .raw".to_owned()
        }),
    ] {
        assert_eq!(folder.on_cpu(&arguments).error(2), format!("error: {expected}\n"));
    }
    let message = folder.on_cpu(&["detect", &photo, "--model", &broken]).error(2);
    assert!(message.starts_with("error: ./broken.onnx: this is not an ONNX file: "), "{message}");
}
