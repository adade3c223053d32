//! Kinds of files, beside the package that the model is from.

use std::path::Path;

use dala_recipes::{Excerpt, FILE_TYPE_MODEL, FileType, FileTypes, SPEECH_MODEL};
use serde_json::Value;

use super::{data, device, json, model};

fn types() -> Option<FileTypes> {
    let model = model(FILE_TYPE_MODEL)?;
    let labels = model.with_extension("json");
    if !labels.is_file() {
        println!("skipped: the labels {} are missing", labels.display());
        return None;
    }
    Some(FileTypes::open(&device(), &model, &labels).unwrap())
}

fn content(case: &Value) -> Vec<u8> {
    if let Some(text) = case["text"].as_str() {
        return text.as_bytes().to_vec();
    }
    let digits = case["hex"].as_str().unwrap();
    (0..digits.len() / 2).map(|place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap()).collect()
}

/// How far a score is from the one that is expected; the label is the same.
fn compare(found: &FileType, case: &Value) -> f64 {
    assert_eq!(found.label, case["label"].as_str().unwrap(), "{}", case["name"]);
    if let Some(description) = &found.description {
        assert_eq!(description, case["description"].as_str().unwrap());
    }
    (f64::from(found.score) - case["score"].as_f64().unwrap()).abs()
}

#[test]
fn labels_and_scores_are_those_of_the_package() {
    let Some(types) = types() else { return };
    let cases = json("file_types.json");
    let cases = cases.as_array().unwrap();
    let excerpts: Vec<Excerpt> = cases.iter().map(|case| Excerpt::of_bytes(&content(case))).collect();
    let together = types.describe_all(&excerpts).unwrap();
    assert_eq!(together.len(), cases.len());
    let far = together.iter().zip(cases).map(|(found, case)| compare(found, case)).fold(0.0, f64::max);
    assert!(far < 1e-4, "{far}");
    for case in cases.iter().step_by(5) {
        assert!(compare(&types.describe(&content(case)).unwrap(), case) < 1e-4);
    }
    println!("{} contents have the labels of the package; scores differ by at most {far:.1e}", cases.len());
}

#[test]
fn what_is_at_a_path_is_described() {
    let Some(types) = types() else { return };
    let label = |name: &str| types.describe_path(&data(name)).unwrap().label;
    assert_eq!(["speech.wav", "speech.json", "."].map(label), ["wav", "json", "directory"]);
    assert_eq!(types.describe_path(&data("nowhere")).unwrap_err().code(), "bad_input");
    assert!(types.describe_all(&[]).unwrap().is_empty());
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (Some(model), Some(speech)) = (model(FILE_TYPE_MODEL), model(SPEECH_MODEL)) else { return };
    let labels = model.with_extension("json");
    let code = |model: &Path, labels: &Path| FileTypes::open(&device(), model, labels).err().unwrap().code();
    assert_eq!(code(&speech, &labels), "unfit_model");
    assert_eq!(code(&model, &data("speech.json")), "unfit_model");
    assert_eq!(code(&model, &data("nowhere.json")), "unfit_model");
}
