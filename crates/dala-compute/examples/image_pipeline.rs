//! A photo becomes a drawing: four filters, compiled to one plan.
//!
//! `cargo run -p dala-compute --example image_pipeline -- [DEVICE [PHOTO [DRAWING]]]`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use dala_compute::prelude::*;

fn sketch(device: &Device, photo: &Buffer, drawing: &Buffer) -> Result<Plan, Error> {
    // Exist only while the pipeline runs; their shapes follow from the stages.
    let [soft, edges, ink] = [(); 3].map(|()| Transient::new());
    let pipeline = Pipeline::new()
        .stage(Stage::run_kernel("blur", [photo], &soft, params! { radius: 2 }))
        .stage(Stage::run_kernel("sobel", [&soft], &edges, ()))
        .stage(Stage::run_kernel("brightness_contrast", [&edges], &ink, params! { contrast: -1.0 }))
        .stage(Stage::run_kernel("grayscale", [&ink], drawing, ()));
    device.compile(&pipeline)
}

const PHOTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dala-model/tests/data/espresso_coffee.jpg");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let device = Device::open(&words.next().unwrap_or("auto".to_owned()))?;
    let picture = dala_image::Picture::open(words.next().unwrap_or(PHOTO.to_owned()))?;

    let (width, height) = (picture.width, picture.height);
    let photo = Buffer::from_slice(&device, &picture.into_rgba(), [height, width, 4])?;
    let drawing = Buffer::zeros(&device, DType::U8, [height, width])?;

    let plan = sketch(&device, &photo, &drawing)?;
    plan.run()?; // as often as you like: for each frame, after `photo.write`
    // What was fused depends on the device and the picture: `plan.explain()` says why.
    println!("{} stages in {} launches", plan.stage_count(), plan.launches());

    // The same stages, one by one in plain Rust, say whether the device can be trusted.
    let check = plan.verify(&[])?;
    println!("{} stages compared, all right: {}", check.stages, check.is_right());

    let pixels = drawing.read::<u8>()?;
    let dark = pixels.iter().filter(|value| **value < 128).count();
    println!("{:.1} % of the drawing is dark", 100.0 * dark as f64 / pixels.len() as f64);
    if let Some(file) = words.next() {
        dala_image::Picture::new(height, width, 1, dala_image::Samples::U8(pixels))?.save(file)?;
    }
    Ok(())
}
