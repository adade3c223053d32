//! Work is queued in lanes while the program goes on: who waits for whom, and what a failure does.
//!
//! `cargo run -p dala-compute --example async_commands -- [DEVICE]`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use std::sync::mpsc;
use std::time::Duration;

use dala_compute::WhileSuspended;
use dala_compute::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("auto".to_owned()))?;
    let x = Buffer::from_slice(&device, &[1.0f32, -2.0, 3.0], [3])?;
    let [y, z] = [Buffer::zeros(&device, DType::F32, [3])?, Buffer::zeros(&device, DType::F32, [3])?];

    // Several stages are one command. `submit` returns at once.
    let stages =
        [Stage::run_kernel("relu", &[&x], &y, ()), Stage::run_kernel("scalar_mul", &[&y], &y, params! { scalar: 2.0 })];
    let command = device.submit_with(stages, Lane::Background)?;

    // Shares no buffer with it, so it may go first.
    device.submit_with(Stage::generate("fill", &z, params! { value: 7.0 }), Lane::Interactive)?.wait(None)?;
    println!("z is {:?}", z.read::<f32>()?);

    // Told when it ends, without waiting.
    let (sender, told) = mpsc::channel();
    command.on_complete(move |outcome| drop(sender.send(outcome)));
    println!("told: {}", if matches!(told.recv(), Ok(Ok(()))) { "completed" } else { "failed" });
    println!("y is {:?}", y.read::<f32>()?);

    // While an app is in the background nothing starts: here, so that what follows is known.
    device.suspend(WhileSuspended::Wait);
    let cancelled = device.submit(Stage::run_kernel("relu", &[&x], &y, ()))?;
    let dependent = device.submit(Stage::run_kernel("scalar_mul", &[&y], &z, params! { scalar: 2.0 }))?;
    let options = SubmitOptions::new().deadline(Duration::from_millis(1));
    let late = device.submit_with(Stage::run_kernel("relu", &[&x], &x, ()), options)?;
    println!("cancelled: {}", cancelled.cancel());
    std::thread::sleep(Duration::from_millis(2));
    device.resume();

    for (name, command) in [("cancelled", &cancelled), ("dependent", &dependent), ("late", &late)] {
        let error = command.wait(None).err().map(|error| error.code());
        println!("{name}: {}, {}", command.poll(), error.unwrap_or("no error"));
    }
    // No stale data: reading gives the cause, until something is written again.
    println!("z: {}", z.read::<f32>().map_or_else(|error| error.code().to_owned(), |z| format!("{z:?}")));
    z.write(&[0.0f32; 3])?;
    println!("z is {:?}", z.read::<f32>()?);
    Ok(())
}
