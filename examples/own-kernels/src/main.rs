//! Three kernels of one's own, each more than an expression, used like the built-in ones: validated, verified, fused.
//!
//! `cargo run -- [DEVICE]`
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

mod emboss;
mod life;
mod rms;

use dala_compute::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("auto".to_owned()))?;
    device.add_kernel(emboss::kernel())?;
    device.add_kernel(rms::kernel())?;
    device.add_kernel(life::kernel())?;

    // A stencil, between kernels of the library: one launch for all three.
    let pixels: Vec<f32> = (0..64 * 64 * 4).map(|at| (at * 37 % 251) as f32 / 250.0).collect();
    let picture = Buffer::from_slice(&device, &pixels, [64, 64, 4])?;
    let relief = Buffer::zeros(&device, DType::F32, [64, 64, 4])?;
    let [dark, deep] = [(); 2].map(|()| Transient::new());
    let pipeline = Pipeline::new()
        .stage(Stage::run_kernel("scalar_mul", [&picture], &dark, params! { scalar: 0.5 }))
        .stage(Stage::run_kernel("emboss", [&dark], &deep, params! { strength: 0.5, border: "reflect" }))
        .stage(Stage::run_kernel("relu", [&deep], &relief, ()));
    report("emboss", &device.compile(&pipeline)?)?;

    // A reduction. What does not fit its spec is refused before anything is launched.
    let x = Buffer::from_slice(&device, &[3.0f32, 4.0, 0.0, 0.0, 5.0, 12.0, 0.0, 0.0], [2, 4])?;
    let (roots, wrong) = (Buffer::zeros(&device, DType::F32, [2])?, Buffer::zeros(&device, DType::F32, [3])?);
    let pipeline = Pipeline::new().stage(Stage::run_kernel("rms", [&x], &roots, ()));
    report("rms", &device.compile(&pipeline)?)?;
    println!("     {:?}", roots.read::<f32>()?);
    if let Err(error) = device.run("rms", &[&x], &wrong, ()) {
        println!("     {error}");
    }

    // A whole CubeCL function. Nothing is fused with it, and the plan says so.
    let mut glider = vec![0u32; 8 * 8];
    for at in [1, 10, 16, 17, 18] {
        glider[at] = 1;
    }
    let cells = Buffer::from_slice(&device, &glider, [8, 8])?;
    let next = Transient::new();
    let pipeline = Pipeline::new().stage(Stage::run_kernel("life", [&cells], &next, ())).stage(Stage::run_kernel(
        "life",
        [&next],
        &cells,
        (),
    ));
    let plan = device.compile(&pipeline)?;
    report("life", &plan)?;
    // It ran for two generations: after four, the glider is one cell further down and to the right.
    plan.submit()?.wait(None)?;
    for line in cells.read::<u32>()?.chunks(8).take(5) {
        let shown: Vec<&str> = line.iter().map(|cell| if *cell == 1 { "#" } else { "." }).collect();
        println!("     {}", shown.join(" "));
    }
    plan.explain().lines().filter(|line| line.contains("of its own, into")).for_each(|line| println!("  {line}"));
    Ok(())
}

/// Runs a plan, and compares every stage with its reference.
fn report(name: &str, plan: &Plan) -> Result<(), Error> {
    let check = plan.verify(&[])?;
    plan.run()?;
    let (stages, launches) = (plan.stage_count(), plan.launches());
    println!("{name}: stages {stages}, launches {launches}, all right: {}", check.is_right());
    Ok(())
}
