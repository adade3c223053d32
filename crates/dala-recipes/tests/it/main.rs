//! Recipes with the real models, beside what the packages say that these come from. Without a model a test says so and is done.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, reason = "tests")]

mod file_types;
mod speech;

use std::path::{Path, PathBuf};

use dala_compute::Device;
use dala_recipes::{ModelFile, find};
use serde_json::Value;

/// A model of the folder of models; none, with a printed reason, if it is not there.
fn model(model: ModelFile) -> Option<PathBuf> {
    find(model, None).inspect_err(|error| println!("skipped: {error}")).ok()
}

fn device() -> Device {
    Device::open("cpu").unwrap()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(name)).unwrap()).unwrap()
}
