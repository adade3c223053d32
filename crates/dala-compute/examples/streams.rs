//! A camera at 60 frames a second beside a heavy job in the background.
//!
//! `cargo run -p dala-compute --example streams [-- DEVICE [SECONDS]]`
//!
//! The frames go through `blur` and `sharpen` in the interactive lane; a frame that comes while others are in flight replaces
//! the one that waits. The background multiplies matrices as fast as it can. At the end the stream's counters are printed, and
//! what each lane had of the device: on a device that is fast enough no frame is dropped, and the background gets the rest.
#![allow(clippy::print_stdout, missing_docs, reason = "an example that people run")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dala_compute::prelude::*;
use dala_compute::{FramePolicy, Stream, StreamOptions};

const FRAME: [usize; 3] = [480, 640, 4];
const SIDE: usize = 256;

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let device = Device::open(words.next().as_deref().unwrap_or("auto"))?;
    let span = words.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(3.0);
    println!("{device:?}");

    let [camera, blurred, shown] = [(); 3].map(|()| Buffer::zeros(&device, DType::U8, FRAME));
    let (camera, blurred, shown) = (camera?, blurred?, shown?);
    let stages = {
        let shown = shown.clone();
        move |frame: &Vec<u8>| {
            vec![
                Stage::write_buffer(&camera, frame.as_slice()),
                Stage::run_kernel("blur", &[&camera], &blurred, params! { radius: 2 }),
                Stage::run_kernel("sharpen", &[&blurred], &shown, params! { amount: 0.5 }),
            ]
        }
    };
    let stream = Stream::new(&device, stages, StreamOptions::new(FramePolicy::Latest));
    let job = Job::new(&device)?;
    // Kernels are built before the camera starts.
    job.run_once(Lane::Default)?;
    stream.push(vec![0; FRAME.iter().product()])?;
    stream.wait_idle(None)?;

    let stop = AtomicBool::new(false);
    let products = std::thread::scope(|scope| {
        let job = scope.spawn(|| job.run_until(&stop));
        let start = Instant::now();
        for number in 1.. {
            let due = Duration::from_secs_f64(f64::from(number) / 60.0);
            if due.as_secs_f64() > span {
                break;
            }
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            stream.push(vec![number as u8; FRAME.iter().product()])?;
        }
        stream.wait_idle(None)?;
        stop.store(true, Ordering::Relaxed);
        job.join().unwrap_or(Ok(0))
    })?;

    let stats = stream.stats();
    println!("frames: {} in, {} out", stats.frames_in, stats.frames_out);
    println!(
        "dropped: {} stale, {} full, {} late; {} failed",
        stats.dropped_stale, stats.dropped_full, stats.dropped_late, stats.failed
    );
    for (name, times) in
        [("queue time", stats.queue_time), ("device time", stats.device_time), ("latency", stats.latency)]
    {
        println!("{name}: p50 {:.1?}, p99 {:.1?}", times.p50, times.p99);
    }
    let lanes = device.stats().queue.lanes;
    for lane in Lane::ALL {
        println!("{lane} lane: busy {:.2?}", lanes[lane.index()].busy);
    }
    println!("background: {products} matrix products");
    Ok(())
}

/// Matrix products, sixteen to a command.
struct Job<'a> {
    device: &'a Device,
    a: Buffer,
    product: Buffer,
}

impl Job<'_> {
    fn new(device: &Device) -> Result<Job<'_>, Error> {
        let a = Buffer::from_slice(device, &vec![0.5f32; SIDE * SIDE], [SIDE, SIDE])?;
        Ok(Job { device, a, product: Buffer::zeros(device, DType::F32, [SIDE, SIDE])? })
    }

    fn run_once(&self, lane: Lane) -> Result<(), Error> {
        let stage = || Stage::run_kernel("matmul", &[&self.a, &self.a], &self.product, ());
        self.device.submit_with((0..16).map(|_| stage()).collect::<Vec<_>>(), lane)?.wait(None)
    }

    fn run_until(&self, stop: &AtomicBool) -> Result<u32, Error> {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            self.run_once(Lane::Background)?;
            count += 16;
        }
        Ok(count)
    }
}
