//! Where the time of a model goes: `layers MODEL.onnx [DEVICE] [BATCH]`.
//!
//! Prints the time of a run beside the sum of its launches, and the launches that took longest.

#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::time::{Duration, Instant};

use dala_compute::{Buffer, DType, Device, Pipeline, Stage};
use dala_model::LoadModel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("layers MODEL.onnx [DEVICE] [BATCH]")?;
    let device = Device::open(&arguments.next().unwrap_or_else(|| "auto".to_owned()))?;
    let batch: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let start = Instant::now();
    let model = device.load_model("model", &file)?;
    let shape = model.inputs()[0].shape(batch).ok_or("the model has open sizes")?;
    let pixels: Vec<f32> = (0..shape.len()).map(|n| (n * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
    let x = Buffer::from_slice(&device, &pixels, shape)?;
    let y = Buffer::zeros(&device, DType::F32, model.outputs()[0].shape(batch).ok_or("the model has open sizes")?)?;
    let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel("model", [&x], &y, ())))?;
    println!("read and compiled in {:.1?}, {} launches", start.elapsed(), plan.launches());
    plan.run()?;
    println!("first result after {:.1?}", start.elapsed());
    let mut best = Duration::MAX;
    for _ in 0..40 {
        let start = Instant::now();
        plan.run()?;
        best = best.min(start.elapsed());
    }
    let mut times = plan.profile()?;
    for _ in 0..10 {
        for (own, new) in times.iter_mut().zip(plan.profile()?) {
            own.time = own.time.min(new.time);
        }
    }
    let sum: Duration = times.iter().map(|launch| launch.time).sum();
    println!("a run takes {best:.2?}; its launches one by one {sum:.2?}");
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|launch| std::cmp::Reverse(times[*launch].time));
    for launch in order.into_iter().take(70) {
        let LaunchLine { name, task, time, bytes } = LaunchLine::of(&times[launch]);
        println!(
            "{launch:3}  {time:8.1} us  {:5.1} %  {:6.1} MB  {task}; {name}",
            time / sum.as_secs_f64() / 1e4,
            bytes
        );
    }
    Ok(())
}

struct LaunchLine<'a> {
    name: &'a str,
    task: &'a str,
    time: f64,
    bytes: f64,
}

impl LaunchLine<'_> {
    fn of(launch: &dala_compute::LaunchTime) -> LaunchLine<'_> {
        LaunchLine {
            name: &launch.name,
            task: &launch.task,
            time: launch.time.as_secs_f64() * 1e6,
            bytes: launch.bytes as f64 / 1e6,
        }
    }
}
