//! A moving gradient on a surface: `cargo run -p dala-surface --example surface -- [DEVICE] [window]`.
//!
//! Each frame is computed on the device and drawn there; only the last is read back, as a PNG.
#![allow(clippy::print_stdout, reason = "an example")]

use dala_compute::prelude::*;
use dala_surface::Surface;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let device = Device::open(arguments.first().map_or("auto", String::as_str))?;
    let surface = if arguments.iter().any(|argument| argument == "window") {
        Surface::window(&device, 320, 240, "Dala")?
    } else {
        Surface::offscreen(&device, 320, 240)?
    };

    // A kernel of our own: red grows across, green down, and both move with the frame.
    let text = "select(channel == 3, 255, select(channel == 2, 128, \
                (select(channel == 0, coord(1), coord(0)) + 2 * frame) % 256))";
    let definition = Definition::inputs([] as [&str; 0]).param(param("frame", ParamKind::Int).default(0));
    device.define("moving_gradient", text, definition)?;

    let picture = Buffer::zeros(&device, DType::U8, [240, 320, 4])?;
    for frame in 0..60 {
        device.run("moving_gradient", &[], &picture, [("frame", frame)])?;
        surface.set_buffer(&picture)?;
        surface.present()?;
    }
    println!("{} frames of 320 x 240", surface.presented());
    let read_back = if surface.on_device() { device.stats().downloaded_bytes } else { 0 };
    println!("{read_back} bytes left a graphics device");
    let last = surface.snapshot()?;
    println!("the first pixel of the last frame: {:?}", &last.rgba[..4]);
    std::fs::write(std::env::temp_dir().join("dala-surface.png"), last.to_png()?)?;
    Ok(())
}
