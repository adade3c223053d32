//! Faults of an engine at every position: none hangs, none leaks, none passes for a success.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::engine::fake::{self, FakeEngine, Fault, How, Operation};
use crate::{
    Buffer, Command, CommandState, DType, Device, DeviceOptions, Error, FramePolicy, Lane, Stage, Stream,
    StreamOptions, SubmitOptions, WhenFull, WhileSuspended,
};

/// Only so that nothing hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `test` in a thread of its own, and fails if it does not end.
fn bounded(what: &str, test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        // Done, or panicked: then joining says so.
        _ => thread.join().unwrap_or_else(|_| panic!("{what} failed")),
    }
}

/// All memory comes back, at the latest when the queue's thread has let go of its last frame.
fn expect_no_memory(engine: &FakeEngine, what: &str) {
    let until = Instant::now() + LIMIT;
    while engine.alive.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(engine.alive.load(Ordering::SeqCst), 0, "{what} leaks");
}

/// A buffer and what it holds if the commands that write it completed.
struct Written {
    buffer: Buffer,
    expected: Vec<f32>,
    command: Option<Command>,
}

impl Written {
    fn check(&self, fault: &str) {
        let completed = self.command.as_ref().is_none_or(|command| command.poll() == CommandState::Completed);
        match self.buffer.read::<f32>() {
            Ok(values) => {
                assert!(completed, "{fault}: {:?} did not complete, and its output is readable", self.command);
                assert_eq!(values, self.expected, "{fault}: a wrong success");
            }
            // The read itself may be what fails.
            Err(error) => assert!(!completed || error.code() != "poisoned", "{fault}: {error}"),
        }
    }
}

/// Every way to work on a device. Whatever fails is an error to somebody.
fn everything(device: &Device, fault: &str) -> Result<(), Error> {
    let x = Buffer::from_slice(device, &[1.0f32, 2.0, 3.0], [3])?;
    let [a, b, c, d, e] = [0; 5].map(|_| Buffer::zeros(device, DType::F32, [3]));
    let (a, b, c, d, e) = (a?, b?, c?, d?, e?);
    let mul = |from: &Buffer, to: &Buffer, by: f32| Stage::run_kernel("scalar_mul", &[from], to, [("scalar", by)]);

    device.submit(Stage::barrier())?.wait(LIMIT)?;
    let first = device.submit_with([mul(&x, &a, 2.0), mul(&a, &b, 3.0), Stage::barrier()], Lane::Background)?;
    let second = device.submit_with([mul(&b, &c, 10.0), Stage::copy_buffer(&c, &d)], Lane::Interactive);
    let bytes: Vec<u8> = [5.0f32; 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let third = device.submit([Stage::write_buffer(&e, bytes), mul(&e, &e, 2.0)])?;
    let cancelled = device.submit_with(mul(&x, &x, 2.0), Lane::Background)?;
    cancelled.cancel();
    let (called, calls) = mpsc::channel();
    first.on_complete(move |result| called.send(result.is_ok()).unwrap());
    let second = match second {
        Ok(command) => Some(command),
        // The first has failed by now.
        Err(error) => {
            assert_eq!(error.code(), "poisoned", "{fault}: {error}");
            None
        }
    };
    for command in [Some(&first), second.as_ref(), Some(&third), Some(&cancelled)].into_iter().flatten() {
        let result = command.wait(LIMIT);
        assert!(command.poll().is_final(), "{fault}: {command:?} is not answered: {result:?}");
        assert_eq!(result.is_ok(), command.poll() == CommandState::Completed, "{fault}");
    }
    assert_eq!(calls.recv_timeout(LIMIT), Ok(first.poll() == CommandState::Completed), "{fault}");
    if let Some(second) = &second
        && first.poll() != CommandState::Completed
    {
        assert_eq!(second.wait(None).unwrap_err().code(), "dependency_failed", "{fault}");
    }
    let doubled = if cancelled.poll() == CommandState::Completed { 2.0 } else { 1.0 };
    let of = |values: [f32; 3]| values.to_vec();
    let written = |buffer: &Buffer, expected: [f32; 3], command: Option<&Command>| Written {
        buffer: buffer.clone(),
        expected: of(expected),
        command: command.cloned(),
    };
    let mut all = vec![
        written(&a, [2.0, 4.0, 6.0], Some(&first)),
        written(&b, [6.0, 12.0, 18.0], Some(&first)),
        written(&e, [10.0; 3], Some(&third)),
        written(&x, [1.0, 2.0, 3.0].map(|value: f32| value * doubled), Some(&cancelled)),
    ];
    if second.is_some() {
        all.push(written(&c, [60.0, 120.0, 180.0], second.as_ref()));
        all.push(written(&d, [60.0, 120.0, 180.0], second.as_ref()));
    }
    all.iter().for_each(|written| written.check(fault));

    stream(device, fault)?;

    // What failed is healed by writing.
    x.write(&[4.0f32; 3])?;
    device.run("elementwise_add", &[&x, &x], &a, ())?;
    a.copy_to(&b)?;
    assert_eq!(b.read::<f32>()?, [8.0; 3], "{fault}");
    Ok(())
}

fn stream(device: &Device, fault: &str) -> Result<(), Error> {
    let (input, output) = (Buffer::zeros(device, DType::F32, [1])?, Buffer::zeros(device, DType::F32, [1])?);
    let stages = {
        let (input, output) = (input.clone(), output.clone());
        move |frame: &f32| {
            let write = Stage::write_buffer(&input, frame.to_le_bytes().as_slice());
            vec![write, Stage::run_kernel("scalar_add", &[&input], &output, [("scalar", 1)])]
        }
    };
    let stream = Stream::new(device, stages, StreamOptions::new(FramePolicy::Block));
    for frame in 0..4 {
        let _ = stream.push(frame as f32);
    }
    stream.wait_idle(LIMIT).unwrap_or_else(|error| panic!("{fault}: {error}"));
    let stats = stream.stats();
    assert_eq!((stats.frames_in, stats.frames_out + stats.failed), (4, 4), "{fault}: {stats:?}");
    if stats.failed == 0 {
        match output.read::<f32>() {
            Ok(values) => assert_eq!(values, [4.0], "{fault}"),
            Err(error) => assert_ne!(error.code(), "poisoned", "{fault}"),
        }
    }
    Ok(())
}

#[test]
fn every_fault_at_every_position() {
    std::panic::set_hook(Box::new({
        let previous = std::panic::take_hook();
        move |info| {
            // Those that are asked for.
            if info.payload().downcast_ref::<&str>() != Some(&"as asked") {
                previous(info);
            }
        }
    }));
    let engine = Arc::new(FakeEngine::new(None));
    everything(&fake::device(&engine, DeviceOptions::new()), "no fault").unwrap();
    expect_no_memory(&engine, "no fault");
    let (mut tried, mut seen) = (0, 0);
    for operation in Operation::ALL {
        // How often differs from run to run with the order of things: some more, to be sure.
        for number in 0..engine.count(operation) + 2 {
            for how in How::ALL {
                let fault = Fault { operation, number, how };
                let engine = Arc::new(FakeEngine::new(Some(fault)));
                let own = engine.clone();
                bounded(&format!("{fault:?}"), move || {
                    let device = fake::device(&own, DeviceOptions::new());
                    if let Err(error) = everything(&device, &format!("{fault:?}")) {
                        let expected = ["internal", "device_lost", "poisoned"];
                        assert!(expected.contains(&error.code()), "{fault:?}: {error}");
                    }
                    if how != How::LosesTheDevice {
                        // Once the fault is behind it, everything works.
                        let mut last = Ok(());
                        for _ in 0..8 {
                            last = everything(&device, &format!("after {fault:?}"));
                        }
                        last.unwrap_or_else(|error| panic!("after {fault:?}: {error}"));
                    }
                });
                tried += 1;
                seen += usize::from(engine.count(operation) > number);
                expect_no_memory(&engine, &format!("{fault:?}"));
            }
        }
    }
    println!("{tried} faults, {seen} of them came to pass");
    assert!(seen * 10 > tried * 8, "{seen} of {tried} faults came to pass");
}

/// Waits until a command is launched.
fn wait_until_launched(command: &Command) {
    while command.poll() == CommandState::Pending {
        std::thread::yield_now();
    }
}

/// A device that is dropped with work on it answers everyone.
#[test]
fn dropped_with_work_pending() {
    bounded("dropping a device", || {
        let engine = Arc::new(FakeEngine::new(None));
        let device = fake::device(&engine, DeviceOptions::new());
        let x = Buffer::from_slice(&device, &[1.0f32], [1]).unwrap();
        let (called, calls) = mpsc::channel();
        let submit = || {
            let command = device.submit(Stage::run_kernel("relu", &[&x], &x, ())).unwrap();
            let called = called.clone();
            command.on_complete(move |result| called.send(result.is_ok()).unwrap());
            command
        };
        // The first is on the device, and the others wait for it.
        let gate = engine.gate.lock().unwrap();
        let first = submit();
        wait_until_launched(&first);
        (1..20).for_each(|_| drop(submit()));
        // It waits for the first.
        let dropping = std::thread::spawn(move || drop((device, x, first)));
        let results: Vec<bool> = (1..20).map(|_| calls.recv_timeout(LIMIT).unwrap()).collect();
        assert_eq!(results, [false; 19], "they were cancelled");
        drop(gate);
        assert_eq!(calls.recv_timeout(LIMIT), Ok(true), "what is launched completes");
        dropping.join().unwrap();
        drop(called);
        assert!(calls.recv().is_err(), "each was called once");
        expect_no_memory(&engine, "dropping");
    });
}

/// A command that came later and ended before still decides what is in a buffer.
#[test]
fn the_last_command_decides_what_is_readable() {
    bounded("cancelling behind work", || {
        let engine = Arc::new(FakeEngine::new(None));
        let device = fake::device(&engine, DeviceOptions::new());
        let x = Buffer::from_slice(&device, &[1.0f32], [1]).unwrap();
        let y = Buffer::from_slice(&device, &[2.0f32], [1]).unwrap();
        // The first ends last.
        let gate = engine.gate.lock().unwrap();
        let first = device.submit(Stage::run_kernel("scalar_mul", &[&x], &x, [("scalar", 3)])).unwrap();
        wait_until_launched(&first);
        let second = device.submit([Stage::copy_buffer(&y, &x), Stage::copy_buffer(&y, &x)]).unwrap();
        assert!(second.cancel());
        // It reads what the second should have written, whatever the first leaves there.
        let error = device.submit(Stage::run_kernel("relu", &[&x], &y, ())).unwrap_err();
        assert_eq!(error.code(), "poisoned");
        drop(gate);
        first.wait(LIMIT).unwrap();
        assert_eq!(x.read::<f32>().unwrap_err().code(), "poisoned");
        y.copy_to(&x).unwrap();
        assert_eq!(x.read::<f32>().unwrap(), [2.0]);
    });
}

#[test]
fn a_full_lane() {
    bounded("a full lane", || {
        let engine = Arc::new(FakeEngine::new(None));
        let device = fake::device(&engine, DeviceOptions::new().queue_capacity(3));
        let x = Buffer::from_slice(&device, &[1.0f32], [1]).unwrap();
        let double = || Stage::run_kernel("scalar_mul", &[&x], &x, [("scalar", 2)]);
        device.suspend(WhileSuspended::Wait);
        let commands: Vec<Command> = (0..3).map(|_| device.submit(double()).unwrap()).collect();
        let refuse = SubmitOptions::new().when_full(WhenFull::Refuse);
        let error = device.submit_with(double(), refuse).unwrap_err();
        assert_eq!(error.to_string(), "the default lane is full: 3 commands are waiting");
        assert_eq!(error.code(), "overloaded");
        let late = SubmitOptions::new().deadline(Duration::from_millis(5));
        assert_eq!(device.submit_with(double(), late).unwrap_err().code(), "deadline_exceeded");
        // The first makes room; the others needed its result.
        let newest = device.submit_with(double(), refuse.when_full(WhenFull::DropOldest));
        assert_eq!(newest.unwrap_err().code(), "poisoned");
        let ends: Vec<&str> = commands.iter().map(|command| command.wait(LIMIT).unwrap_err().code()).collect();
        assert_eq!(ends, ["dropped", "dependency_failed", "dependency_failed"]);
        device.resume();
        assert_eq!(x.read::<f32>().unwrap_err().code(), "poisoned");
        assert_eq!(device.stats().queue.totals.dropped, 1);
    });
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// `DALA_COMMANDS=1000000` for the long run.
#[test]
fn memory_stays_flat_over_many_commands() {
    const ALONE: &str = "DALA_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // In a process of its own: other tests of this one take and give memory at the same time.
        let own = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::memory_stays_flat_over_many_commands", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        println!("{}", String::from_utf8_lossy(&own.stdout));
        assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
        return;
    }
    let count = std::env::var("DALA_COMMANDS").ok().and_then(|count| count.parse().ok()).unwrap_or(200_000usize);
    let engine = Arc::new(FakeEngine::new(None));
    let device = fake::device(&engine, DeviceOptions::new());
    let buffers: Vec<Buffer> = (0..8).map(|_| Buffer::zeros(&device, DType::F32, [1]).unwrap()).collect();
    let mut after_warm_up = 0;
    for number in 0..count {
        let (from, to) = (&buffers[number % 8], &buffers[(number * 5 + 1) % 8]);
        let options = SubmitOptions::new().lane(Lane::ALL[number % 3]).deadline(Duration::from_secs(3600));
        let command =
            device.submit_with(Stage::run_kernel("scalar_add", &[from], to, [("scalar", 1)]), options).unwrap();
        if number % 7 == 0 {
            command.cancel();
            // Poisoned buffers would refuse everything after.
            to.write(&[0.0f32]).unwrap();
            from.write(&[0.0f32]).unwrap();
        }
        // The last 65,536 are remembered.
        if number == count.min(100_000) - 1 {
            after_warm_up = resident();
        }
    }
    buffers.iter().for_each(|buffer| drop(buffer.read::<f32>()));
    let grown = resident().saturating_sub(after_warm_up);
    let totals = device.stats().queue.totals;
    println!("{count} commands: grew by {grown} bytes after the first 100,000; {totals:?}");
    assert!(grown < 4 << 20, "grew by {grown} bytes");
}
