//! Kernels of your own, as one line of text: checked, compiled for the device you have, used by name like any other.
//!
//! `cargo run -p dala-compute --example custom_expression -- [DEVICE]`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use dala_compute::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("auto".to_owned()))?;

    // Params have types, defaults and ranges. Another value compiles nothing.
    let gain = param("gain", ParamKind::Float).default(1.0).range(0.0, 8.0);
    device.define("brighten", "clamp(x * gain, 0, 1)", Definition::inputs(["x"]).param(gain))?;
    let x = Buffer::from_slice(&device, &[0.25f32, 0.5, 0.75], [3])?;
    let y = Buffer::zeros(&device, DType::F32, [3])?;
    for gain in [0.5, 1.5] {
        device.run("brighten", &[&x], &y, params! { gain: gain })?;
        println!("gain {gain}: {:?}", y.read::<f32>()?);
    }
    if let Err(error) = device.run("brighten", &[&x], &y, params! { gain: 9.0 }) {
        println!("gain 9: {error}");
    }

    // Places and channels: pictures are {height, width, channels}.
    let swap = "select(channel == 0, x.b, select(channel == 2, x.r, x))";
    device.define("swap_red_and_blue", swap, Definition::inputs(["x"]))?;
    let pixels = Buffer::from_slice(&device, &[255u8, 128, 0, 10, 20, 30], [1, 2, 3])?;
    let swapped = Buffer::zeros(&device, DType::U8, [1, 2, 3])?;
    device.run("swap_red_and_blue", &[&pixels], &swapped, ())?;
    println!("swapped: {:?}", swapped.read::<u8>()?);

    // A mistake is shown where it is.
    if let Err(error) = device.define("wrong", "clamp(x * gian, 0, 1)", Definition::inputs(["x", "gain"])) {
        println!("{error}");
    }
    Ok(())
}
