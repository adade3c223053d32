//! Devices that nobody uses, and devices beside other work.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dala_compute::{Buffer, DType, Device, DeviceOptions};

use crate::support::{alone, alone_on};

/// Processor time so far of a thread, by its folder; none if it has ended.
fn time_of(task: &Path) -> Option<Duration> {
    let stat = std::fs::read_to_string(task.join("schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Processor time so far of all threads of this process but the one that asks, which works for it.
fn processor_time() -> Duration {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let others = tasks.filter_map(|task| task.ok().filter(|task| own.file_name() != Some(&task.file_name())));
    others.filter_map(|task| time_of(&task.path())).sum()
}

/// How often a quota has made this process's control groups stand still so far, as far as the system tells.
fn standstills() -> u64 {
    let of_line = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            some if some.split(',').any(|one| one == "cpu") => "/sys/fs/cgroup/cpu",
            _ => return None,
        };
        // Any group that it is in may have a quota.
        let of_group = |group: &Path| {
            let stat = std::fs::read_to_string(format!("{root}{}/cpu.stat", group.display())).ok()?;
            stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok())
        };
        Some(Path::new(group).ancestors().filter_map(of_group).sum::<u64>())
    };
    std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default().lines().filter_map(of_line).sum()
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
    let used_in = |span: Duration| {
        let before = processor_time();
        std::thread::sleep(span);
        // A thread that has ended is not counted any more.
        processor_time().saturating_sub(before)
    };
    // What they look out for at first takes longer on a busy machine.
    let end = Instant::now() + Duration::from_secs(30);
    while used_in(Duration::from_millis(200)) > Duration::from_micros(100) && Instant::now() < end {}
    const SPAN: Duration = Duration::from_secs(3);
    // At most 10 ms in a minute. Where this machine stood still before, a first span may hold some of the beginning.
    const MOST: Duration = SPAN.checked_div(6000).unwrap();
    let mut used = Duration::MAX;
    for _ in 0..5 {
        used = used.min(used_in(SPAN));
        println!("idle on {name}: {used:?} of processor time in {SPAN:?}");
        if used < MOST {
            break;
        }
    }
    assert!(used < MOST, "{name} used {used:?} in {SPAN:?}");
    assert_eq!(y.read::<f32>().unwrap(), [1.0; 1000]);
}

/// Ended when they are dropped, whatever happens.
struct Loops(Vec<Child>);

impl Loops {
    /// Loops that stand still.
    fn niced(count: usize) -> Loops {
        let start = || Command::new("nice").args(["-n", "19", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        let loops = Loops((0..count).map(|_| start()).collect());
        // Only once they have begun they can be let go on.
        let end = Instant::now() + Duration::from_secs(60);
        let begun =
            |child: &Child| time_of(Path::new(&format!("/proc/{}", child.id()))) > Some(Duration::from_millis(10));
        while !loops.0.iter().all(begun) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        loops.signal("STOP");
        loops
    }

    fn signal(&self, signal: &str) {
        let ids: String = self.0.iter().map(|child| format!(" {}", child.id())).collect();
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal}{ids}")]).status().unwrap().success());
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
    let round = || {
        let (before, start) = (standstills(), Instant::now());
        for call in 0..100 {
            // Another value each time, so that launches are described anew and threads wait for each other.
            device.run("scalar_mul", &[&x], &y, [("scalar", f64::from(call))]).unwrap();
            y.read::<f32>().unwrap();
        }
        let took = start.elapsed();
        // The loops use up a quota that is for the test as well.
        (standstills() == before).then_some(took)
    };
    let loops = Loops::niced(2 * std::thread::available_parallelism().map_or(2, usize::from));
    let holds = |quiet: Duration, loaded: Duration| loaded < quiet * 4 + Duration::from_millis(20);
    // The best of several rounds, in turn: other tests are busy too, now and then, and not of the lowest priority.
    let mut best: [Option<Duration>; 2] = [None; 2];
    for number in 0..24 {
        for (best, loops_run) in best.iter_mut().zip([false, true]) {
            if loops_run {
                loops.signal("CONT");
                std::thread::sleep(Duration::from_millis(10));
            }
            *best = [*best, round()].into_iter().flatten().min();
            if loops_run {
                loops.signal("STOP");
            }
        }
        if number >= 7 && matches!(best, [Some(quiet), Some(loaded)] if holds(quiet, loaded)) {
            break;
        }
    }
    drop(loops);
    let [Some(quiet), Some(loaded)] = best else {
        return println!("beside loops of the lowest priority: not compared, because a quota held every round up");
    };
    println!("beside loops of the lowest priority: {loaded:?} for 100 calls, quiet {quiet:?}");
    assert!(holds(quiet, loaded), "{loaded:?} beside loops, {quiet:?} without");
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
