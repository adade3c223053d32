//! Devices that nobody uses, and devices beside other work.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dala_compute::{Buffer, DType, Device, DeviceOptions};

use crate::support::{alone, alone_on};

/// Processor time so far of all threads of this process but the one that asks, which works for it.
fn processor_time() -> Duration {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let nanos = tasks.filter_map(|task| {
        let task = task.ok()?;
        if own.file_name() == Some(&task.file_name()) {
            return None;
        }
        // A thread may end meanwhile.
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

#[test]
fn idle_devices_use_no_processor_time() {
    let Ok(name) = std::env::var("DALA_TEST_IDLE") else {
        return alone("steadiness::idle_devices_use_no_processor_time", "DALA_TEST_IDLE", "idle on");
    };
    let device = Device::open(&name).unwrap();
    let x = Buffer::from_slice(&device, &[1.0f32; 1000], [1000]).unwrap();
    let y = Buffer::zeros(&device, DType::F32, [1000]).unwrap();
    device.run("relu", &[&x], &y, ()).unwrap();
    device.submit(dala_compute::Stage::run_kernel("relu", &[&x], &y, ())).unwrap().wait(None).unwrap();
    // What they look out for at first.
    std::thread::sleep(Duration::from_millis(200));
    const SPAN: Duration = Duration::from_secs(3);
    let before = processor_time();
    std::thread::sleep(SPAN);
    let used = processor_time() - before;
    println!("idle on {name}: {used:?} of processor time in {SPAN:?}");
    // At most 10 ms in a minute.
    assert!(used < SPAN / 6000, "{name} used {used:?} in {SPAN:?}");
    assert_eq!(y.read::<f32>().unwrap(), [1.0; 1000]);
}

/// Ended when they are dropped, whatever happens.
struct Loops(Vec<Child>);

impl Loops {
    fn niced(count: usize) -> Loops {
        let start = || Command::new("nice").args(["-n", "19", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        Loops((0..count).map(|_| start()).collect())
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Beside loops of the lowest priority a waiting thread that sleeps is run at once, and one that yields waits for whole time
/// slices of them: 0.1 ms or 10 ms and more for a call.
#[test]
fn loops_of_the_lowest_priority_hardly_matter() {
    let Ok(name) = std::env::var("DALA_TEST_LOOPS") else {
        // Other devices are drivers of other people.
        return alone_on(
            &["cpu"],
            "steadiness::loops_of_the_lowest_priority_hardly_matter",
            "DALA_TEST_LOOPS",
            "beside",
        );
    };
    let device = Device::open(&name).unwrap();
    let x = Buffer::from_slice(&device, &[1.0f32; 65_536], [65_536]).unwrap();
    let y = Buffer::zeros(&device, DType::F32, [65_536]).unwrap();
    // The best of several rounds: other tests are busy too, and not of the lowest priority.
    let round = || {
        let start = Instant::now();
        for call in 0..100 {
            // Another value each time, so that launches are described anew and threads wait for each other.
            device.run("scalar_mul", &[&x], &y, [("scalar", f64::from(call))]).unwrap();
            y.read::<f32>().unwrap();
        }
        start.elapsed()
    };
    let best = || (0..8).map(|_| round()).min().unwrap();
    let quiet = best();
    let loops = Loops::niced(2 * std::thread::available_parallelism().map_or(2, usize::from));
    std::thread::sleep(Duration::from_millis(100));
    let loaded = best();
    drop(loops);
    println!("beside loops of the lowest priority: {loaded:?} for 100 calls, quiet {quiet:?}");
    assert!(loaded < quiet * 4 + Duration::from_millis(20), "{loaded:?} beside loops, {quiet:?} without");
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let data: Vec<f32> = (0..300_000).map(|i| (i as f32 * 0.37).sin()).collect();
    let mut results: Vec<Vec<f32>> = Vec::new();
    for threads in [1, 2, 3, 8] {
        let device = Device::open_with("cpu", DeviceOptions::new().threads(threads)).unwrap();
        let x = Buffer::from_slice(&device, &data, [500, 600]).unwrap();
        let y = Buffer::zeros(&device, DType::F32, [500, 600]).unwrap();
        device.run("softmax", &[&x], &y, ()).unwrap();
        device.run("box_blur", &[&y], &y, [("radius", 2)]).unwrap();
        results.push(y.read().unwrap());
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(results[0].iter().all(|value| *value > 0.0));
}

/// Devices share their helpers: several threads at once, each with a device of its own, and each gets its own results.
#[test]
fn devices_run_side_by_side() {
    std::thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let device = Device::open("cpu").unwrap();
                let x = Buffer::from_slice(&device, &vec![number as f32; 1 << 18], [1 << 18]).unwrap();
                let y = Buffer::zeros(&device, DType::F32, [1 << 18]).unwrap();
                for round in 0..40 {
                    device.run("scalar_add", &[&x], &y, [("scalar", f64::from(round))]).unwrap();
                    let sum = (number + round) as f32;
                    assert!(y.read::<f32>().unwrap().iter().all(|value| *value == sum));
                }
            });
        }
    });
}
