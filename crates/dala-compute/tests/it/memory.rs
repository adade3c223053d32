//! Memory stays flat, and many buffers cost no more than few.

use std::time::{Duration, Instant};

use dala_compute::{Buffer, DType, Device, Lane, Stage};

use crate::support::{alone, devices};

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn ten_thousand_cycles_leave_nothing() {
    let Ok(name) = std::env::var("DALA_TEST_CYCLES") else {
        return alone("memory::ten_thousand_cycles_leave_nothing", "DALA_TEST_CYCLES", "memory on");
    };
    let device = Device::open(&name).unwrap();
    let data = vec![1.0f32; 40_000];
    let mut after_warm_up = 0;
    for cycle in 0..10_000usize {
        // Small ones share chunks, large ones do not; every hundredth is large. Few lengths, because the cache of plans
        // grows with each new one up to its bound.
        let len = if cycle % 100 == 0 { 40_000 } else { 1 + cycle % 41 * 73 };
        let x = Buffer::from_slice(&device, &data[..len], [len]).unwrap();
        let y = Buffer::zeros(&device, DType::F32, [len]).unwrap();
        device.run("elementwise_add", &[&x, &x], &y, ()).unwrap();
        assert_eq!(y.read::<f32>().unwrap()[len - 1], 2.0);
        x.free();
        if cycle == 1000 {
            after_warm_up = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(after_warm_up);
    let memory = device.memory().unwrap();
    println!(
        "memory on {name}: live {} bytes, peak {}, cached {}, process grew by {grown} bytes in 9,000 cycles",
        memory.live, memory.peak, memory.cached
    );
    assert_eq!(memory.live, 0);
    assert!(grown < 2 << 20, "the process grew by {grown} bytes");
    device.trim().unwrap();
    let cached = device.memory().unwrap().cached;
    assert!(cached <= memory.cached && cached < 1 << 20, "{cached} bytes are cached after trim");
}

/// `DALA_COMMANDS=100000` for the long run.
#[test]
fn many_commands_leave_nothing() {
    let Ok(name) = std::env::var("DALA_TEST_COMMANDS") else {
        return alone("memory::many_commands_leave_nothing", "DALA_TEST_COMMANDS", "memory on");
    };
    let count = std::env::var("DALA_COMMANDS").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000usize);
    let device = Device::open(&name).unwrap();
    let buffers: Vec<Buffer> = (0..8).map(|_| Buffer::zeros(&device, DType::F32, [64]).unwrap()).collect();
    let mut after_warm_up = 0;
    for number in 0..count {
        // The last 65,536 are remembered; the rest of the room is for the queue.
        if number == count / 5 * 4 {
            after_warm_up = resident_bytes();
        }
        let (from, to) = (&buffers[number % 8], &buffers[number * 5 % 8]);
        let stage = Stage::run_kernel("scalar_add", &[from], to, [("scalar", 1)]);
        let command = device.submit_with(stage, Lane::ALL[number % 3]).unwrap();
        // Each lane is emptied now and then: commands that wait take memory, and on a busy machine thousands would.
        if number % 250 >= 247 {
            command.wait(None).unwrap();
        }
    }
    buffers.iter().for_each(|buffer| drop(buffer.read::<f32>().unwrap()));
    let grown = resident_bytes().saturating_sub(after_warm_up);
    let totals = device.stats().queue.totals;
    println!(
        "memory on {name}: {} commands completed in {} passes, the process grew by {grown} bytes in the last fifth",
        totals.completed, totals.passes
    );
    // A command that is remembered takes some 200 bytes.
    assert!(grown < (2 << 20) + count as u64 / 5 * 300, "the process grew by {grown} bytes");
    drop(buffers);
    assert_eq!(device.memory().unwrap().live, 0);
}

/// Devices that are opened and dropped again and again give their memory back.
#[test]
fn dropped_devices_leave_nothing() {
    let Ok(name) = std::env::var("DALA_TEST_DROPPED") else {
        return alone("memory::dropped_devices_leave_nothing", "DALA_TEST_DROPPED", "memory on");
    };
    let mut after_warm_up = 0;
    for round in 0..60 {
        let device = Device::open(&name).unwrap();
        let buffer = Buffer::from_slice(&device, &vec![round as f32; 4 << 20], [4 << 20]).unwrap();
        device.run("scalar_add", &[&buffer], &buffer, [("scalar", 1)]).unwrap();
        if round == 9 {
            after_warm_up = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(after_warm_up);
    println!("memory on {name}: 50 devices with 16 MiB each were dropped, the process grew by {grown} bytes");
    // All of them together had 800 MiB; a driver may hold on to the last few.
    assert!(grown < 400 << 20, "the process grew by {grown} bytes");
}

fn fill(device: &Device, count: u32) -> Vec<Buffer> {
    (0..count).map(|index| Buffer::from_slice(device, &[index], [1]).unwrap()).collect()
}

fn allocation_time(device: &Device) -> Duration {
    let start = Instant::now();
    let buffer = Buffer::from_slice(device, &[1.0f32; 64], [64]).unwrap();
    let time = start.elapsed();
    drop(buffer);
    time
}

/// Two devices of one kind, measured in turn, because other tests run at the same time.
#[test]
fn a_hundred_thousand_buffers() {
    let Ok(name) = std::env::var("DALA_TEST_MANY") else {
        return alone("memory::a_hundred_thousand_buffers", "DALA_TEST_MANY", "memory on");
    };
    let [few, many] = [0; 2].map(|_| Device::open(&name).unwrap());
    let (live_few, live_many) = (fill(&few, 1_000), fill(&many, 100_000));
    let measure = || {
        let (mut a, mut b): (Vec<Duration>, Vec<Duration>) =
            (0..400).map(|_| (allocation_time(&few), allocation_time(&many))).unzip();
        a.sort();
        b.sort();
        (a[200], b[200], b[200].as_secs_f64() / a[200].as_secs_f64())
    };
    // A busy machine may slow one side down for a while; what takes longer always does.
    let mut measured = measure();
    for _ in 0..4 {
        if measured.2 >= 2.0 {
            measured = measure();
        }
    }
    let (few_time, many_time, ratio) = measured;
    println!(
        "memory on {name}: one buffer made in {few_time:?} at 1,000 alive, {many_time:?} at 100,000 (ratio {ratio:.2})"
    );
    assert!(ratio < 2.0, "{few_time:?} became {many_time:?}");
    for index in [0, 1, 999, 50_000, 99_999] {
        assert_eq!(live_many[index].read::<u32>().unwrap(), [index as u32]);
    }
    drop((live_few, live_many));
    assert_eq!(many.memory().unwrap().live, 0);
}

#[test]
fn counters_follow_buffers() {
    for device in devices() {
        let start = device.memory().unwrap();
        assert_eq!((start.live, start.peak), (0, 0));
        let a = Buffer::zeros(&device, DType::F32, [1 << 18]).unwrap();
        let b = Buffer::zeros(&device, DType::F32, [1 << 18]).unwrap();
        assert_eq!(device.memory().unwrap().live, 2 << 20);
        let clone = a.clone();
        drop(a);
        assert_eq!(device.memory().unwrap().live, 2 << 20, "a clone is alive");
        clone.free();
        drop(b);
        let end = device.memory().unwrap();
        assert_eq!((end.live, end.peak), (0, 2 << 20));
        assert!(end.cached >= 2 << 20, "{end:?}");
        device.trim().unwrap();
        assert!(device.memory().unwrap().cached < end.cached);
    }
}
