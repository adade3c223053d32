//! What commands cost, and how long they wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dala_compute::{
    Buffer, DType, Definition, Device, DeviceOptions, Lane, Stage, SubmitOptions, WhenFull, WhileSuspended,
};

use super::bare::{Bare, Tuning};
use super::{compare, report, seconds};

/// Elements of a small kernel.
const SMALL: usize = 1024;

pub(crate) fn measure(name: &str) {
    let device = Device::open_with(name, DeviceOptions::new().queue_capacity(1 << 20)).unwrap();
    let small = Small::new(&device);
    let bare = Bare::new(name, SMALL);
    let tuning = if bare.cpu { Tuning(64, 2, 8) } else { Tuning(4, 64, 1) };
    compare(
        "one small run against a bare launch and checked synchronisation",
        2001,
        || small.run(),
        || bare.run(tuning),
    );
    compare(
        "1,000 small commands submitted and waited for, against 1,000 bare launches in one pass",
        41,
        || small.submit_many(1000),
        || bare.run_many(tuning, 1000),
    );
    let (mut ours, mut theirs): (Vec<f64>, Vec<f64>) =
        (0..41).map(|_| (small.queued(1000), seconds(|| bare.run_many(tuning, 1000)))).unzip();
    report("1,000 small commands that are queued already, against the same", &mut ours, &mut theirs);
    submissions(&small);
    latency(&device, &small);
}

/// A small kernel on buffers of its own.
struct Small<'a> {
    device: &'a Device,
    a: Buffer,
    b: Buffer,
    out: Buffer,
}

impl Small<'_> {
    fn new(device: &Device) -> Small<'_> {
        let [a, b] = [0; 2].map(|_| Buffer::from_slice(device, &[1.5f32; SMALL], [SMALL]).unwrap());
        Small { device, a, b, out: Buffer::zeros(device, DType::F32, [SMALL]).unwrap() }
    }

    fn run(&self) {
        self.device.run("elementwise_add", &[&self.a, &self.b], &self.out, ()).unwrap();
    }

    fn stage(&self) -> Stage {
        Stage::run_kernel("elementwise_add", &[&self.a, &self.b], &self.out, ())
    }

    fn submit_many(&self, count: usize) {
        let mut last = None;
        for _ in 0..count {
            last = Some(self.device.submit(self.stage()).unwrap());
        }
        if let Some(command) = last {
            command.wait(None).unwrap();
        }
    }

    /// Submits while the device is suspended; the time counts from when it is not.
    fn queued(&self, count: usize) -> f64 {
        self.device.suspend(WhileSuspended::Wait);
        let commands: Vec<_> = (0..count).map(|_| self.device.submit(self.stage()).unwrap()).collect();
        seconds(|| {
            self.device.resume();
            commands[count - 1].wait(None).unwrap();
        })
    }
}

fn submissions(small: &Small) {
    const COUNT: usize = 200_000;
    for suspended in [false, true] {
        if suspended {
            small.device.suspend(WhileSuspended::Wait);
        }
        let start = Instant::now();
        let mut last = None;
        for _ in 0..COUNT {
            last = Some(small.device.submit_with(small.stage(), Lane::Background).unwrap());
        }
        let rate = COUNT as f64 / start.elapsed().as_secs_f64();
        let state = if suspended { "a suspended" } else { "a working" };
        println!("  {rate:.0} submissions a second from one thread, to {state} device");
        small.device.resume();
        if let Some(command) = last {
            command.wait(None).unwrap();
        }
    }
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * percent / 100).min(samples.len() - 1)] * 1e3
}

/// How long an interactive command takes, on an idle device and beside a background lane that is never empty.
fn latency(device: &Device, small: &Small) {
    let _ = device.define("heavy", "sin(sin(sin(sin(x))))", Definition::inputs(["x"]));
    let mut len = 1 << 14;
    let heavy = loop {
        let heavy = Buffer::from_slice(device, &vec![0.5f32; len], [len]).unwrap();
        device.run("heavy", &[&heavy], &heavy, ()).unwrap();
        if seconds(|| device.run("heavy", &[&heavy], &heavy, ()).unwrap()) > 4e-3 {
            break heavy;
        }
        len *= 2;
    };
    let stage = || Stage::run_kernel("heavy", &[&heavy], &heavy, ());
    const SAMPLES: usize = 600;
    // Not in step with the background.
    let pause = |index: usize| Duration::from_micros(1500 + (index * 7919 % 1000) as u64);
    let interactive = |samples: usize| -> Vec<f64> {
        let sample = |index| {
            std::thread::sleep(pause(index));
            seconds(|| device.submit_with(small.stage(), Lane::Interactive).unwrap().wait(None).unwrap())
        };
        (0..samples).map(sample).collect()
    };
    let mut stages: Vec<f64> =
        (0..SAMPLES).map(|_| seconds(|| device.run("heavy", &[&heavy], &heavy, ()).unwrap())).collect();
    let mut idle = interactive(SAMPLES);
    let stop = AtomicBool::new(false);
    let mut loaded = std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = SubmitOptions::new().lane(Lane::Background).when_full(WhenFull::Wait);
            while !stop.load(Ordering::Relaxed) {
                let commands: Vec<_> = (0..32)
                    .map(|_| device.submit_with([stage(), stage(), stage(), stage()], options).unwrap())
                    .collect();
                // Never empty: the next are queued while the last of these wait.
                commands[16].wait(None).unwrap();
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        let samples = interactive(SAMPLES);
        stop.store(true, Ordering::Relaxed);
        samples
    });
    let (p50, p99) = (percentile(&mut loaded, 50), percentile(&mut loaded, 99));
    let (idle, stage) = (percentile(&mut idle, 99), percentile(&mut stages, 99));
    println!(
        "  interactive command with the background lane saturated: p50 {p50:.2} ms, p99 {p99:.2} ms; \
         idle p99 {idle:.2} ms + one background stage p99 {stage:.2} ms = {:.2} ms, ratio {:.2}",
        idle + stage,
        p99 / (idle + stage)
    );
    // What is left in the background is not to run beside the next measurement.
    drop(heavy.read::<f32>().unwrap());
}
