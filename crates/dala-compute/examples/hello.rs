//! Two buffers, one kernel, one answer.
//!
//! `cargo run -p dala-compute --example hello -- [DEVICE]`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use dala_compute::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("auto".to_owned()))?;

    let a = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    let b = Buffer::from_slice(&device, &[4.0f32, 5.0, 6.0], [3])?;
    let sum = Buffer::zeros(&device, DType::F32, [3])?;

    device.run("elementwise_add", &[&a, &b], &sum, ())?;
    println!("{:?}", sum.read::<f32>()?);

    // What does not fit is an error that says so, before anything is launched.
    if let Err(error) = device.run("relu", &[&a], &sum, params! { slop: 0.1 }) {
        println!("{}: {error}", error.code());
    }
    Ok(())
}
