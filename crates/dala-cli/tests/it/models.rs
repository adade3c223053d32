//! `dala classify` and `dala model info`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::folder::Folder;
use super::{Run, command, dala};

/// A file of the model crate's tests.
fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dala-model/tests/data");
    folder.join(name).to_str().unwrap().to_owned()
}

/// A file that `scripts/get-models` made.
pub(crate) fn model_file(name: &str) -> String {
    let folder = std::env::var_os("DALA_MODELS").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cache/dala-compute/models")
    });
    let file = folder.join(name);
    assert!(file.exists(), "{} is missing: run scripts/get-models first", file.display());
    file.to_str().unwrap().to_owned()
}

/// Fields of an ONNX file, as its format writes them.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut out = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len >= 128 {
        out.push(len as u8 | 128);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend(bytes);
    out
}

fn number(number: u8, value: u8) -> Vec<u8> {
    assert!(value < 128);
    vec![number << 3, value]
}

/// An ONNX file: its input's shape, where 0 is a size that is open, its nodes as name, operator, input and output, and its outputs.
pub(crate) fn onnx(dims: &[u8], nodes: &[[&str; 4]], outputs: &[&str]) -> Vec<u8> {
    let dim = |dim: &u8| field(1, if *dim == 0 { field(2, "N") } else { number(1, *dim) });
    let dims: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor = [number(1, 1), field(2, dims)].concat();
    let input = [field(1, "x"), field(2, field(1, tensor))].concat();
    let node = |[name, operator, input, output]: &[&str; 4]| {
        field(1, [field(1, input), field(2, output), field(3, name), field(4, operator)].concat())
    };
    let mut graph: Vec<u8> = nodes.iter().flat_map(node).collect();
    graph.extend(field(11, input));
    graph.extend(outputs.iter().flat_map(|output| field(12, field(1, output))));
    [number(1, 8), field(7, graph), field(8, number(2, 13))].concat()
}

/// A file with operators that are not supported.
pub(crate) fn strange() -> Vec<u8> {
    let nodes = [["a", "StringSplit", "x", "y"], ["b", "RegexFullMatch", "y", "z"], ["c", "StringSplit", "z", "w"]];
    onnx(&[1, 3], &nodes, &["w"])
}

/// Tells pictures by their mean colour.
fn colours(last: &[[&str; 4]], output: &str) -> Vec<u8> {
    let mean = [["mean", "GlobalAveragePool", "x", "y"], ["row", "Flatten", "y", "z"]];
    onnx(&[1, 3, 4, 4], &[&mean, last].concat(), &[output])
}

/// A picture of one colour.
fn plain(folder: &Folder, name: &str, colour: [u8; 3]) -> String {
    image::RgbImage::from_pixel(9, 7, image::Rgb(colour)).save(folder.path(name)).unwrap();
    folder.path(name)
}

/// The first label of each block.
fn first_labels(text: &str) -> Vec<String> {
    let label = |block: &str| block.lines().nth(1).unwrap().trim().split("  ").next().unwrap().to_owned();
    text.trim_end().split("\n\n").map(label).collect()
}

#[test]
fn photos_are_classified() {
    let photos = ["cat_chelsea.jpg", "espresso_coffee.jpg", "tripod_camera.png"].map(data);
    let [cat, coffee, tripod] = &photos;
    let model = model_file("mobilenet_v2.onnx");
    let text = dala(&["classify", cat, coffee, tripod, "--model", &model, "--device", "cpu"]).success();
    assert_eq!(first_labels(&text), ["Egyptian cat", "espresso", "tripod"], "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.starts_with(&format!("{cat}: 3 stages in ")) && first.ends_with(" ms"), "{first}");
    assert_eq!(text.lines().count(), 3 * 6 + 2, "{text}");
}

#[test]
fn photos_are_classified_on_vulkan_as_json() {
    model_file("mobilenet_v2.onnx");
    let answer = dala(&["classify", &data("cat_chelsea.jpg"), "--device", "vulkan", "--json", "--top", "2"]).json();
    assert_eq!(answer["device"], "vulkan");
    let classes = answer["photos"][0]["classes"].as_array().unwrap();
    assert_eq!((classes.len(), &classes[0]["index"], &classes[0]["label"]), (2, &285.into(), &"Egyptian cat".into()));
    let probability = |class: &Value| class["probability"].as_f64().unwrap();
    assert!(probability(&classes[0]) > probability(&classes[1]) && probability(&classes[0]) < 1.0, "{answer}");
}

#[test]
fn models_and_labels_may_be_your_own() {
    let folder = Folder::new();
    let model = folder.file("colours.onnx", colours(&[], "z"));
    let labels = folder.file("labels.txt", "red\ngreen\nblue\n");
    let (red, blue) = (plain(&folder, "red.png", [250, 0, 0]), plain(&folder, "blue.png", [0, 0, 250]));
    let text = folder.on_cpu(&["classify", &red, &blue, "--model", &model, "--labels", &labels]).success();
    assert_eq!(first_labels(&text), ["red", "blue"]);

    let numbered = folder.on_cpu(&["classify", &red, "--model", &model, "--top", "1"]).success();
    assert_eq!(first_labels(&numbered), ["class 0"]);
    assert_eq!(numbered.lines().count(), 2, "{numbered}");

    folder.file("labels.txt", "red\ngreen\n");
    let message = folder.on_cpu(&["classify", &red, "--model", &model, "--labels", &labels]).error(2);
    assert_eq!(message, "error: ./labels.txt has 2 lines, and the model has 3 classes\n");
}

#[test]
fn outputs_become_probabilities_once() {
    let folder = Folder::new();
    let red = plain(&folder, "red.png", [250, 0, 0]);
    let ends = [folder.file("a.onnx", colours(&[], "z")), {
        folder.file("b.onnx", colours(&[["last", "Softmax", "z", "p"]], "p"))
    }];
    let scores = |model: &str, options: &[&str], key: &str| -> Vec<f64> {
        let answer = folder.on_cpu(&[&["classify", &red, "--json", "--model", model], options].concat()).json();
        let classes = answer["photos"][0]["classes"].as_array().unwrap().clone();
        classes.iter().map(|class| class[key].as_f64().unwrap()).collect()
    };
    let [logits, probabilities] = ends.each_ref().map(|model| scores(model, &[], "probability"));
    for (a, b) in logits.iter().zip(&probabilities) {
        assert!((a - b).abs() < 1e-6, "{logits:?} {probabilities:?}");
    }
    assert!((logits.iter().sum::<f64>() - 1.0).abs() < 1e-5);
    // (250 / 255 - 0.485) / 0.229
    let raw = scores(&ends[0], &["--raw"], "value");
    assert!((raw[0] - 2.1633).abs() < 1e-3, "{raw:?}");
    let text = folder.on_cpu(&["classify", &red, "--model", &ends[0], "--raw", "--top", "1"]).success();
    assert!(text.trim_end().ends_with("2.1633"), "{text}");
}

#[test]
fn bars_are_plain_where_the_locale_is() {
    let folder = Folder::new();
    let (model, red) = (folder.file("colours.onnx", colours(&[], "z")), plain(&folder, "red.png", [250, 0, 0]));
    let text = |locale: &str| {
        let mut command = command(&["classify", &red, "--model", &model, "--device", "cpu"]);
        let output = command.env("LC_ALL", locale).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (plain, full) = (text("C"), text("en_GB.UTF-8"));
    assert!(plain.is_ascii() && plain.contains("####"), "{plain}");
    assert!(full.contains("███") && !full.contains('#'), "{full}");
}

#[test]
fn unclassifiable_inputs_are_errors() {
    let folder = Folder::new();
    let photo = folder.photo("photo.png");
    let gray = folder.file("gray.onnx", onnx(&[1, 1, 4, 4], &[["mean", "GlobalAveragePool", "x", "y"]], &["y"]));
    let map = folder.file("map.onnx", onnx(&[1, 3, 4, 4], &[["last", "Relu", "x", "y"]], &["y"]));
    let text = folder.file("text.txt", "not a picture");
    for (arguments, expected) in [
        (
            ["nowhere.png", "--model", &gray],
            "cannot read nowhere.png: No such file or directory (os error 2)".to_owned(),
        ),
        ([&text, "--model", &folder.file("a.onnx", colours(&[], "z"))], {
            "cannot read ./text.txt: it is no JPEG, PNG, WebP, TIFF, BMP, PNM or NPY picture: convert it to one first"
                .to_owned()
        }),
        (
            [&photo, "--model", &gray],
            "./gray.onnx: the model does not take one picture in colours, f32 {batch, 3, height, width}: it takes f32 \
             {1, 1, 4, 4}"
                .to_owned(),
        ),
        (
            [&photo, "--model", &map],
            "./map.onnx: the model does not give one number for each class: it gives f32 {1, 3, 4, 4}".to_owned(),
        ),
        ([&photo, "--model", "nowhere.onnx"], {
            "cannot read nowhere.onnx: No such file or directory (os error 2)".to_owned()
        }),
    ] {
        let message = folder.on_cpu(&[&["classify"], &arguments[..]].concat()).error(2);
        assert_eq!(message, format!("error: {expected}\n"));
    }
    let mut missing = command(&["classify", &photo, "--device", "cpu"]);
    let output = missing.env("DALA_MODELS", &*folder.path("models")).output().unwrap();
    let message = folder.short(Run::from(output)).error(2);
    assert_eq!(
        message,
        "error: ./models/mobilenet_v2.onnx is missing: run scripts/get-models, or name a model by --model FILE.onnx\n"
    );
}

#[test]
fn models_are_described() {
    let text = dala(&["model", "info", &data("squeezenet.onnx"), "--device", "cpu", "--batch", "2"]).success();
    for part in ["\n  input ", "f32 {batch, 3, ", "Conv ", "\n  parameters ", " of weights", "\na batch of 2 on cpu ("]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let answer = dala(&["model", "info", &model_file("mobilenet_v2.onnx"), "--device", "cpu", "--json"]).json();
    assert_eq!(answer["inputs"][0]["shape"], serde_json::json!([1, 3, 224, 224]));
    assert_eq!(answer["outputs"][0]["shape"], serde_json::json!([1, 1000]));
    assert_eq!(answer["operators"][0], serde_json::json!({"name": "BatchNormalization", "count": 52}));
    let count = |value: &Value| value.as_u64().unwrap();
    // Batch normalisations, what limits them and sums are part of the launches of convolutions.
    assert_eq!((count(&answer["layers"]), count(&answer["plan"]["launches"])), (152, 54), "{answer}");
    assert!(count(&answer["weight_bytes"]) > 13 << 20 && count(&answer["plan"]["scratch_bytes"]) > 1 << 20, "{answer}");
}

#[test]
fn plans_of_models_are_explained() {
    let folder = Folder::new();
    let model = folder.file("colours.onnx", colours(&[], "z"));
    let text = folder.on_cpu(&["model", "info", &model, "--explain"]).success();
    assert!(text.starts_with("./colours.onnx\n  input       x f32 {1, 3, 4, 4}\n"), "{text}");
    assert!(text.contains("\n  batch       1, fixed\n") && text.contains("model: "), "{text}");
}

#[test]
fn files_that_are_no_models_are_refused() {
    let folder = Folder::new();
    let info = |file: &str| folder.on_cpu(&["model", "info", file]);
    assert_eq!(
        info("nowhere.onnx").error(2),
        "error: cannot read nowhere.onnx: No such file or directory (os error 2)\n"
    );
    let text = folder.file("text.onnx", "This is a text.");
    assert!(info(&text).error(2).starts_with("error: ./text.onnx: this is not an ONNX file: "));
    let message = info(&folder.file("strange.onnx", strange())).error(2);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "error: ./strange.onnx: the model has operators that are not supported:");
    assert!(lines[1].starts_with("  StringSplit (") && lines[1].ends_with("): `a`, `c`"), "{message}");
    assert!(lines[2].starts_with("  RegexFullMatch (") && lines[2].ends_with("): `b`"), "{message}");
    let colours = folder.file("colours.onnx", colours(&[], "z"));
    let message = folder.on_cpu(&["model", "info", &colours, "--batch", "2"]).error(2);
    assert_eq!(message, "error: ./colours.onnx: the model takes a batch of 1, not of 2\n");
}

#[test]
fn a_model_of_two_outputs_is_described_and_run() {
    let folder = Folder::new();
    let nodes = [["a", "Relu", "x", "y"], ["b", "Tanh", "x", "z"]];
    let model = folder.file("two.onnx", onnx(&[1, 3], &nodes, &["y", "z"]));
    let run = folder.on_cpu(&["model", "info", &model]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("  output      y f32 {1, 3}\n  output      z f32 {1, 3}\n"), "{}", run.stdout);
    let (to, from) = (format!("z={}", folder.path("z.npy")), format!("x={}", folder.path("z.npy")));
    let run = folder.on_cpu(&["model", "run", &model, "--input", "x=-0.5", "--output", "y=-", "--output", &to]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "0.0 0.0 0.0\n"), "{}", run.stderr);
    let run = folder.on_cpu(&["model", "run", &model, "--input", &from, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&answer[1]["name"], &answer[1]["shape"]), (&"z".into(), &serde_json::json!([1, 3])));
    let twice = (-0.5f64).tanh().tanh();
    assert!((answer[1]["values"][2].as_f64().unwrap() - twice).abs() < 1e-6, "{}", run.stdout);
    let error = folder.on_cpu(&["model", "run", &model]).error(2);
    assert_eq!(error, "error: input `x` is missing: it takes f32 {1, 3}, say --input x=…\n");
    let error = folder.on_cpu(&["model", "run", &model, "--input", "y=1"]).error(2);
    assert_eq!(error, "error: the model has no input `y`: it has x\n");
    let error = folder.on_cpu(&["model", "run", &model, "--input", "x=shape:1x4"]).error(2);
    assert_eq!(error, "error: ./two.onnx: input `x` takes f32 {1, 3}, found f32 {1, 4}\n");
}
