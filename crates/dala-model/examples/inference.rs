//! What is in a photo: preprocessing, network and softmax as one plan.
//!
//! `cargo run -p dala-model --example inference -- [DEVICE [PHOTO [MODEL]]]`, after `scripts/get-models`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use std::error::Error;
use std::path::PathBuf;

use dala_compute::prelude::*;
use dala_image::Picture;
use dala_model::{LoadModel, imagenet_classes};

const PHOTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cat_chelsea.jpg");

fn classifier(device: &Device, photo: &Buffer, probabilities: &Buffer) -> Result<Plan, dala_compute::Error> {
    let (input, logits) = (Transient::new().shape([1, 3, 224, 224]), Transient::new());
    let crop = params! { fit: "crop", resize: 256, normalize: true };
    let pipeline = Pipeline::new()
        .stage(Stage::run_kernel("preprocess", [photo], &input, crop))
        .stage(Stage::run_kernel("mobilenet_v2", [&input], &logits, ()))
        .stage(Stage::run_kernel("softmax", [&logits], probabilities, ()));
    device.compile(&pipeline)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let device = Device::open(&words.next().unwrap_or("auto".to_owned()))?;
    let picture = Picture::open(words.next().unwrap_or(PHOTO.to_owned()))?;
    let model = device.load_model("mobilenet_v2", words.next().map_or_else(fetched, PathBuf::from))?;
    println!("{} parameters", model.parameters());

    let shape = [picture.height, picture.width, 4];
    let photo = Buffer::from_slice(&device, &picture.into_rgba(), shape)?;
    let probabilities = Buffer::zeros(&device, DType::F32, [1, 1000])?;
    let plan = classifier(&device, &photo, &probabilities)?;
    plan.run()?; // for each photo of this size, after `photo.write`

    let scores = probabilities.read::<f32>()?;
    let mut classes: Vec<(&str, f32)> = imagenet_classes().zip(scores).collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, probability) in &classes[..3] {
        println!("{name}: {:.0} %", probability * 100.0);
    }
    Ok(())
}

/// Where `scripts/get-models` puts it.
fn fetched() -> PathBuf {
    let models = std::env::var_os("DALA_MODELS").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/dala-compute/models");
    models.unwrap_or_else(home).join("mobilenet_v2.onnx")
}
