//! Commands, lanes and streams on real devices.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use dala_compute::{
    Buffer, Command, CommandId, CommandState, DType, Definition, Device, DeviceOptions, FramePolicy, Lane, Power,
    Pushed, Readback, Stage, Stream, StreamOptions, SubmitOptions, Thermal, WhenFull, WhileSuspended,
};

use crate::support::{Random, device_names, devices};

/// Only so that nothing hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// A test that keeps a device busy has one of these: what gives memory to read into knows nothing but what is static.
static GATES: [Mutex<()>; 3] = [const { Mutex::new(()) }; 3];

/// A stage that does not end while somebody holds the gate.
fn behind<const GATE: usize>(x: &Buffer) -> Stage {
    fn memory<const GATE: usize>(_bytes: usize) -> Vec<u8> {
        drop(GATES[GATE].lock());
        Vec::new()
    }
    Stage::read_buffer(x, &Readback::reusing(memory::<GATE>))
}

/// Waits for what takes time and nothing else.
#[track_caller]
fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "it takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One step on numbered buffers, on the device and on the host.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, usize, usize),
    Mul(usize, usize, usize),
    Scale(usize, usize, i32),
    Copy(usize, usize),
    Write(usize, i32),
    Barrier,
}

impl Step {
    fn random(random: &mut Random, buffers: usize) -> Step {
        let mut buffer = || random.below(buffers);
        let (a, b, to) = (buffer(), buffer(), buffer());
        match random.below(12) {
            0..4 => Step::Add(a, b, to),
            4..6 => Step::Mul(a, b, to),
            6..9 => Step::Scale(a, to, random.below(9) as i32 - 4),
            9 => Step::Copy(a, to),
            10 => Step::Write(to, random.below(100) as i32),
            _ => Step::Barrier,
        }
    }

    fn stage(self, buffers: &[Buffer]) -> Stage {
        let run = |kernel: &str, a: usize, b: usize, to: usize| {
            Stage::run_kernel(kernel, &[&buffers[a], &buffers[b]], &buffers[to], ())
        };
        match self {
            Step::Add(a, b, to) => run("elementwise_add", a, b, to),
            Step::Mul(a, b, to) => run("elementwise_mul", a, b, to),
            Step::Scale(from, to, by) => {
                Stage::run_kernel("scalar_mul", &[&buffers[from]], &buffers[to], [("scalar", i64::from(by))])
            }
            Step::Copy(from, to) => Stage::copy_buffer(&buffers[from], &buffers[to]),
            Step::Write(to, value) => {
                let bytes: Vec<u8> = value.to_le_bytes().repeat(buffers[to].len());
                Stage::write_buffer(&buffers[to], bytes)
            }
            Step::Barrier => Stage::barrier(),
        }
    }

    fn apply(self, host: &mut [Vec<i32>]) {
        let zip = |host: &mut [Vec<i32>], a: usize, b: usize, to: usize, f: fn(i32, i32) -> i32| {
            host[to] = host[a].iter().zip(&host[b]).map(|(a, b)| f(*a, *b)).collect();
        };
        match self {
            Step::Add(a, b, to) => zip(host, a, b, to, i32::wrapping_add),
            Step::Mul(a, b, to) => zip(host, a, b, to, i32::wrapping_mul),
            Step::Scale(from, to, by) => host[to] = host[from].iter().map(|x| x.wrapping_mul(by)).collect(),
            Step::Copy(from, to) => host[to] = host[from].clone(),
            Step::Write(to, value) => host[to].fill(value),
            Step::Barrier => {}
        }
    }
}

/// A hundred commands on twenty buffers, from eight threads, in random lanes. Threads take turns to submit, so that the
/// order is known; what happens to the commands after that is up to the device.
fn random_program(device: &Device, seed: u64) {
    const BUFFERS: usize = 20;
    let mut random = Random(seed);
    let len = [1, 7, 257, 4000][random.below(4)];
    let mut host: Vec<Vec<i32>> =
        (0..BUFFERS).map(|_| (0..len).map(|_| random.below(2000) as i32 - 1000).collect()).collect();
    let buffers: Vec<Buffer> = host.iter().map(|data| Buffer::from_slice(device, data, [len]).unwrap()).collect();
    let log = Mutex::new((Vec::new(), random));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (log, buffers) = (&log, &buffers);
            scope.spawn(move || {
                loop {
                    let mut turn = log.lock().unwrap();
                    let (steps, random) = &mut *turn;
                    if steps.len() >= 100 {
                        return;
                    }
                    let own: Vec<Step> = (0..1 + random.below(4)).map(|_| Step::random(random, BUFFERS)).collect();
                    let stages: Vec<Stage> = own.iter().map(|step| step.stage(buffers)).collect();
                    let command = device.submit_with(stages, Lane::ALL[random.below(3)]).unwrap();
                    steps.push(own);
                    let waits = random.below(10) == 0;
                    drop(turn);
                    if waits || thread == 0 {
                        command.wait(LIMIT).unwrap();
                    }
                }
            });
        }
    });
    let (steps, _) = log.into_inner().unwrap();
    steps.iter().flatten().for_each(|step| step.apply(&mut host));
    for (index, (buffer, expected)) in buffers.iter().zip(&host).enumerate() {
        assert_eq!(&buffer.read::<i32>().unwrap(), expected, "{device:?}, program {seed}, buffer {index}: {steps:?}");
    }
}

/// `DALA_PROGRAMS=500` for the long run.
#[test]
fn random_programs_equal_sequential_ones() {
    let count = std::env::var("DALA_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(20);
    for device in devices() {
        let before = device.stats().queue.totals;
        (0..count).for_each(|seed| random_program(&device, seed));
        let after = device.stats().queue.totals;
        println!(
            "{device:?}: {count} programs, {} commands in {} passes",
            after.completed - before.completed,
            after.passes - before.passes
        );
    }
}

/// Stages that together take at least so long, and a buffer they all use.
fn long_work(device: &Device, span: Duration) -> (Vec<Stage>, Buffer) {
    long_work_of(device, 1 << 18, span)
}

fn long_work_of(device: &Device, elements: usize, span: Duration) -> (Vec<Stage>, Buffer) {
    let _ = device.define("heavy", "sin(sin(sin(sin(x))))", Definition::inputs(["x"]));
    let x = Buffer::from_slice(device, &vec![0.5f32; elements], [elements]).unwrap();
    let run = || device.run("heavy", &[&x], &x, ()).unwrap();
    run();
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    // The best of some: other tests run at the same time.
    let best = (0..8).map(time).min().unwrap();
    let count = (span.as_secs_f64() / best.as_secs_f64()).ceil() as usize + 1;
    ((0..count).map(|_| Stage::run_kernel("heavy", &[&x], &x, ())).collect(), x)
}

#[test]
fn long_commands_are_seen_pending() {
    for device in devices() {
        // Large stages: what submitting costs goes by their number.
        let (mut stages, x) = long_work_of(&device, 1 << 21, Duration::from_millis(400));
        let y = Buffer::zeros(&device, DType::F32, [4]).unwrap();
        // The best of some, for its work: the machine has other things to do, and is not always equally fast.
        let mut best = (f64::INFINITY, Duration::MAX, Duration::ZERO);
        for _ in 0..6 {
            let list = [vec![behind::<0>(&y)], stages.clone()].concat();
            // It does not end before it was looked at.
            let gate = GATES[0].lock().unwrap();
            let start = Instant::now();
            let command = device.submit(list).unwrap();
            let submitted = start.elapsed();
            let dependent = device.submit(Stage::copy_buffer(&x, &x)).unwrap();
            assert_eq!(dependent.poll(), CommandState::Pending);
            assert!(!command.poll().is_final());
            let error = command.wait(Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.code(), "wait_timeout");
            let start = Instant::now();
            drop(gate);
            command.wait(LIMIT).unwrap();
            let took = start.elapsed();
            assert_eq!(command.poll(), CommandState::Completed);
            dependent.wait(LIMIT).unwrap();
            let share = submitted.as_secs_f64() / took.as_secs_f64();
            if share < best.0 {
                best = (share, submitted, took);
            }
            if share < 0.01 {
                break;
            }
            if took < Duration::from_millis(200) {
                // Timed while something else kept the machine busy.
                stages.extend(stages.clone());
            }
        }
        let (share, submitted, took) = best;
        println!("{device:?}: {} stages of {took:?} submitted in {submitted:?}, pending meanwhile", stages.len());
        assert!(share < 0.01, "{submitted:?} to submit what takes {took:?}");
    }
}

/// A thread that asks while another waits is not kept waiting.
#[test]
fn submitting_does_not_wait_behind_a_wait() {
    for device in devices() {
        let (mut stages, _x) = long_work(&device, Duration::from_millis(300));
        let [y, z] = [0; 2].map(|_| Buffer::zeros(&device, DType::F32, [4]).unwrap());
        let small = || Stage::run_kernel("relu", &[&y], &y, ());
        device.submit(small()).unwrap().wait(LIMIT).unwrap();
        stages.insert(0, behind::<1>(&z));
        let (ended, ends) = mpsc::channel();
        let tell = |command: &Command, name: &'static str| {
            let ended = ended.clone();
            command.on_complete(move |result| ended.send((name, result.is_ok())).unwrap());
        };
        let best = std::thread::scope(|scope| {
            // The device is busy until everything is submitted.
            let gate = GATES[1].lock().unwrap();
            let command = device.submit_with(stages, Lane::Background).unwrap();
            tell(&command, "background");
            let waiter = command.clone();
            scope.spawn(move || waiter.wait(None).unwrap());
            until(|| command.poll() == CommandState::Running);
            std::thread::sleep(Duration::from_millis(10));
            // A thread of its own, so that it can be seen to hang.
            let submits = scope.spawn(|| {
                let mut best = Duration::MAX;
                for _ in 0..50 {
                    let start = Instant::now();
                    let command = device.submit_with(small(), Lane::Interactive).unwrap();
                    best = best.min(start.elapsed());
                    tell(&command, "interactive");
                }
                best
            });
            until(|| submits.is_finished());
            drop(gate);
            submits.join().unwrap()
        });
        let order: Vec<(&str, bool)> = (0..51).map(|_| ends.recv_timeout(LIMIT).unwrap()).collect();
        assert!(order[..50].iter().all(|end| *end == ("interactive", true)), "they came first: {order:?}");
        assert_eq!(order[50], ("background", true));
        assert!(best < Duration::from_millis(1), "{best:?}");
    }
}

#[test]
fn ids_are_found_and_forgotten() {
    for device in devices() {
        let x = Buffer::zeros(&device, DType::F32, [4]).unwrap();
        let command = device.submit(Stage::run_kernel("relu", &[&x], &x, ())).unwrap();
        let again = device.command(command.id()).unwrap();
        again.wait(LIMIT).unwrap();
        assert_eq!(device.command(command.id()).unwrap().poll(), CommandState::Completed);
        let error = device.command(CommandId(u64::MAX)).unwrap_err();
        assert_eq!(error.code(), "unknown_command");
    }
}

#[test]
fn nothing_late_is_launched() {
    for device in devices() {
        let x = Buffer::zeros(&device, DType::F32, [4]).unwrap();
        let y = Buffer::from_slice(&device, &[1.0f32], [1]).unwrap();
        let launches = device.stats().launches;
        // Busy, so that nobody is told that it is late before all of them are submitted.
        let gate = GATES[2].lock().unwrap();
        let long = device.submit(behind::<2>(&x)).unwrap();
        until(|| long.poll() == CommandState::Running);
        let limit = Duration::from_millis(5);
        let soon = SubmitOptions::new().lane(Lane::Background).deadline(limit);
        let late = device.submit_with(Stage::run_kernel("scalar_add", &[&y], &y, [("scalar", 1)]), soon).unwrap();
        let dependent = device.submit_with(Stage::run_kernel("relu", &[&y], &y, ()), Lane::Background).unwrap();
        std::thread::sleep(limit);
        drop(gate);
        long.wait(LIMIT).unwrap();
        assert_eq!(late.wait(LIMIT).unwrap_err().code(), "deadline_exceeded");
        let error = dependent.wait(LIMIT).unwrap_err();
        assert_eq!(error.code(), "dependency_failed");
        assert!(error.to_string().ends_with("had not started by its deadline"), "{error}");
        assert_eq!(device.stats().launches, launches, "they cost no device time");
        assert_eq!(y.read::<f32>().unwrap_err().code(), "poisoned");
        y.write(&[2.0f32]).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [2.0]);
        assert_eq!(device.stats().queue.totals.deadline_exceeded, 1);
    }
}

#[test]
fn errors_name_the_stage() {
    for device in devices() {
        let x = Buffer::zeros(&device, DType::F32, [4]).unwrap();
        let short = Buffer::zeros(&device, DType::F32, [3]).unwrap();
        let good = || Stage::run_kernel("relu", &[&x], &x, ());
        let launches = device.stats().launches;
        let error = device.submit([good(), Stage::run_kernel("rleu", &[&x], &x, ())]).unwrap_err();
        assert_eq!(error.to_string(), "stage 1: no kernel is called `rleu`, did you mean `relu`?");
        assert_eq!(error.code(), "unknown_kernel");
        assert_eq!(device.submit([good(), Stage::copy_buffer(&x, &short)]).unwrap_err().code(), "size_mismatch");
        assert_eq!(device.stats().launches, launches, "nothing was launched");
        device.submit(Vec::new()).unwrap().wait(LIMIT).unwrap();
    }
}

/// Nothing leaks: memory comes back, at the latest when the queue has let go of its last command.
fn expect_live(device: &Device, bytes: u64) {
    let until = Instant::now() + LIMIT;
    while device.memory().unwrap().live > bytes && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(device.memory().unwrap().live, bytes, "nothing leaks");
}

/// Buffers may be freed or dropped while commands use them.
#[test]
fn freed_while_in_use() {
    for device in devices() {
        let live = device.memory().unwrap().live;
        let (stages, x) = long_work(&device, Duration::from_millis(30));
        // It does not end before it was looked at.
        device.suspend(WhileSuspended::Wait);
        let command = device.submit(stages).unwrap();
        x.free();
        assert_eq!(x.read::<f32>().unwrap_err().code(), "freed");
        assert!(device.memory().unwrap().live > live, "in use");
        device.resume();
        command.wait(LIMIT).unwrap();
        drop(command);
        expect_live(&device, live);
    }
}

/// Ten thousand commands, cancelled at random moments, beside commands that are not: those never notice.
#[test]
fn cancelling_ten_thousand_commands() {
    for device in devices() {
        let start = device.memory().unwrap().live;
        let source = Buffer::from_slice(&device, &[1i32; 64], [64]).unwrap();
        let [victim, kept] = [0; 2].map(|_| Buffer::zeros(&device, DType::S32, [64]).unwrap());
        let add = |to: &Buffer| Stage::run_kernel("elementwise_add", &[to, &source], to, ());
        let (send, victims) = mpsc::channel::<Command>();
        let mut random = Random(7);
        let mut done = HashMap::new();
        std::thread::scope(|scope| {
            let canceller = scope.spawn(move || {
                let mut random = Random(8);
                let mut cancelled = 0u32;
                let mut held = Vec::new();
                for command in victims {
                    held.push(command);
                    // Some at once, some when they run, some when they are over.
                    while !held.is_empty() && random.below(3) > 0 {
                        let command: Command = held.swap_remove(random.below(held.len()));
                        cancelled += u32::from(command.cancel());
                    }
                    if random.below(500) == 0 {
                        std::thread::sleep(Duration::from_millis(30));
                    }
                }
                held.iter().for_each(|command| cancelled += u32::from(command.cancel()));
                cancelled
            });
            let mut last = None;
            for _ in 0..10_000 {
                // Rewritten first: a cancelled command poisons what it should have written.
                let fresh = Stage::copy_buffer(&source, &victim);
                let stages: Vec<Stage> =
                    [fresh].into_iter().chain((0..random.below(3)).map(|_| add(&victim))).collect();
                let command = device.submit_with(stages, Lane::ALL[random.below(3)]).unwrap();
                send.send(command).unwrap();
                if random.below(10) == 0 {
                    last = Some(device.submit_with(add(&kept), Lane::ALL[random.below(3)]).unwrap());
                    *done.entry("kept").or_insert(0) += 1;
                }
            }
            drop(send);
            last.unwrap().wait(LIMIT).unwrap();
            println!("{device:?}: {} of 10,000 commands were cancelled", canceller.join().unwrap());
        });
        assert_eq!(kept.read::<i32>().unwrap(), vec![done["kept"]; 64]);
        victim.write(&[3i32; 64]).unwrap();
        assert_eq!(victim.read::<i32>().unwrap(), [3; 64]);
        drop((source, victim, kept));
        expect_live(&device, start);
    }
}

struct Wakes {
    task: usize,
    queue: mpsc::Sender<usize>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let _ = self.queue.send(self.task);
    }
}

/// Ten thousand tasks wait for commands; every one is woken.
#[test]
fn ten_thousand_tasks_are_woken() {
    for name in device_names() {
        let device = Device::open_with(&name, DeviceOptions::new().queue_capacity(10_000)).unwrap();
        let x = Buffer::zeros(&device, DType::F32, [16]).unwrap();
        device.suspend(WhileSuspended::Wait);
        let commands: Vec<Command> =
            (0..5_000).map(|_| device.submit(Stage::run_kernel("relu", &[&x], &x, ())).unwrap()).collect();
        // Half of them wait for a command of their own, half for one that others wait for too.
        let task = |index: usize| {
            let command = commands[if index < 5_000 { index } else { index % 50 * 100 }].clone();
            Box::pin(async move { command.await.is_ok() })
        };
        let mut tasks: Vec<Option<Pin<Box<dyn Future<Output = bool>>>>> =
            (0..10_000).map(|index| Some(task(index) as Pin<Box<dyn Future<Output = bool>>>)).collect();
        let (queue, woken) = mpsc::channel();
        let poll = |task: usize, future: &mut Pin<Box<dyn Future<Output = bool>>>| {
            let waker = Waker::from(Arc::new(Wakes { task, queue: queue.clone() }));
            future.as_mut().poll(&mut Context::from_waker(&waker))
        };
        for (index, task) in tasks.iter_mut().enumerate() {
            assert_eq!(poll(index, task.as_mut().unwrap()), Poll::Pending);
        }
        device.resume();
        let mut left = tasks.len();
        while left > 0 {
            let index = woken.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{left} tasks were never woken"));
            if let Some(mut task) = tasks[index].take() {
                assert_eq!(poll(index, &mut task), Poll::Ready(true));
                left -= 1;
            }
        }
    }
}

#[test]
fn cancelled_commands_poison_buffers_of_every_type() {
    for device in devices() {
        let buffers = DType::ALL
            .map(|dtype| (Buffer::zeros(&device, dtype, [5]).unwrap(), Buffer::zeros(&device, dtype, [5]).unwrap()));
        device.suspend(WhileSuspended::Wait);
        let commands: Vec<Command> =
            buffers.iter().map(|(x, y)| device.submit(Stage::run_kernel("copy", &[x], y, ())).unwrap()).collect();
        assert!(commands.iter().all(Command::cancel));
        device.resume();
        for (x, y) in &buffers {
            assert_eq!(y.read_bytes().unwrap_err().code(), "poisoned", "{device:?} {}", y.dtype());
            x.copy_to(y).unwrap();
            assert_eq!(y.read_bytes().unwrap(), vec![0; y.size_bytes()], "{device:?} {}", y.dtype());
        }
    }
}

#[test]
fn a_suspended_device_is_not_touched() {
    for device in devices() {
        let x = Buffer::from_slice(&device, &[1.0f32; 8], [8]).unwrap();
        let double = || Stage::run_kernel("scalar_mul", &[&x], &x, [("scalar", 2)]);
        device.run("scalar_mul", &[&x], &x, [("scalar", 1)]).unwrap();
        device.suspend(WhileSuspended::Wait);
        let launches = device.stats().launches;
        let commands: Vec<Command> = (0..5).map(|_| device.submit(double()).unwrap()).collect();
        std::thread::sleep(Duration::from_millis(20));
        assert!(commands.iter().all(|command| command.poll() == CommandState::Pending));
        assert_eq!(device.stats().launches, launches);
        assert_eq!(device.stats().queue.governor.suspended, Some(WhileSuspended::Wait));
        device.memory_pressure().unwrap();
        device.resume();
        commands.iter().for_each(|command| command.wait(LIMIT).unwrap());
        assert_eq!(x.read::<f32>().unwrap(), [32.0; 8]);

        device.suspend(WhileSuspended::Wait);
        let command = device.submit(double()).unwrap();
        device.suspend(WhileSuspended::Fail);
        assert_eq!(command.wait(LIMIT).unwrap_err().code(), "suspended");
        assert_eq!(device.submit(double()).unwrap_err().code(), "suspended");
        assert_eq!(device.run("relu", &[&x], &x, ()).unwrap_err().code(), "suspended");
        assert_eq!(x.read::<f32>().unwrap_err().code(), "suspended");
        device.resume();
        assert_eq!(x.read::<f32>().unwrap_err().code(), "poisoned");
        x.write(&[1.0f32; 8]).unwrap();
        device.memory_pressure().unwrap();
        assert_eq!(device.stats().memory_pressures, 2);
    }
}

/// The share of time that the background keeps the device busy follows heat and power.
#[test]
fn heat_and_power_slow_the_background_down() {
    for device in devices() {
        let (stages, _x) = long_work(&device, Duration::from_millis(60));
        // How long a lane takes for work and the rest after it, as a multiple of how long it keeps the device busy.
        let times_busy = |lane: Lane| {
            let busy = || device.stats().queue.lanes[lane.index()].busy;
            let (start, before) = (Instant::now(), busy());
            device.submit_with(stages.clone(), lane).unwrap().wait(LIMIT).unwrap();
            let busy = busy() - before;
            // What comes next in the lane starts when it has rested.
            device.submit_with(Stage::barrier(), lane).unwrap().wait(LIMIT).unwrap();
            start.elapsed().as_secs_f64() / busy.as_secs_f64()
        };
        // Whatever else the machine does makes it longer, never shorter.
        let least = |lane: Lane| (0..5).map(|_| times_busy(lane)).fold(f64::INFINITY, f64::min);
        let cool = least(Lane::Background);
        device.report_thermal(Thermal::Serious);
        assert_eq!(device.stats().queue.governor.duty_percent(Lane::Background), 15);
        let hot = times_busy(Lane::Background);
        let urgent = least(Lane::Interactive);
        device.report_thermal(Thermal::Nominal);
        device.set_power(Power::Low);
        assert_eq!(device.stats().queue.governor.duty_percent(Lane::Background), 30);
        let low = times_busy(Lane::Background);
        println!("{device:?}: background {cool:.2}, hot {hot:.2} (interactive {urgent:.2}), low power {low:.2}");
        // Rests are whole nanoseconds, rounded down.
        let rest = |duty: f64| 0.99 * (100.0 - duty) / duty;
        assert!(hot > rest(15.0), "{hot}");
        assert!(low > rest(30.0), "{low}");
        assert!(cool < 2.0 && urgent < 2.0, "{cool}, {urgent}");
    }
}

#[test]
fn streams_drop_what_they_are_told_to_drop() {
    for device in devices() {
        let (mut stages, x) = long_work(&device, Duration::from_millis(10));
        stages.insert(0, Stage::barrier());
        let latest = Stream::repeat(&device, stages.clone(), StreamOptions::new(FramePolicy::Latest).in_flight(1));
        // No frame ends before all are pushed.
        device.suspend(WhileSuspended::Wait);
        let pushed: Vec<Pushed> = (0..20).map(|_| latest.push(()).unwrap()).collect();
        assert_eq!(pushed[..2], [Pushed::Started, Pushed::Waiting]);
        assert_eq!(pushed[2..], [Pushed::Replaced; 18]);
        let busy = || device.stats().queue.lanes[Lane::Interactive.index()].busy;
        let before = busy();
        device.resume();
        latest.wait_idle(LIMIT).unwrap();
        let (stats, busy) = (latest.stats(), busy() - before);
        assert_eq!((stats.frames_in, stats.frames_out, stats.dropped_stale, stats.in_flight), (20, 2, 18, 0));
        assert!(stats.latency.p99 >= stats.device_time.p50, "{stats:?}");
        // The longer of two frames had the device for half of the time at least.
        assert!(busy > Duration::ZERO && stats.device_time.p50 * 2 >= busy, "{busy:?}, {stats:?}");

        let queue = Stream::repeat(&device, stages.clone(), StreamOptions::new(FramePolicy::Queue(3)).in_flight(2));
        device.suspend(WhileSuspended::Wait);
        let pushed: Vec<Pushed> = (0..9).map(|_| queue.push(()).unwrap()).collect();
        device.resume();
        assert_eq!(pushed[..2], [Pushed::Started; 2]);
        assert_eq!(pushed[2..5], [Pushed::Waiting; 3]);
        assert_eq!(pushed[5..], [Pushed::Dropped; 4]);
        queue.wait_idle(LIMIT).unwrap();
        let stats = queue.stats();
        assert_eq!((stats.frames_in, stats.frames_out, stats.dropped_full), (9, 5, 4), "{stats:?}");

        // Frames of their own, given back in order.
        let (back, given_back) = mpsc::channel();
        let scratch = x.clone();
        let block = Stream::with_callback(
            &device,
            move |frame: &i32| {
                let scale = [("scalar", i64::from(*frame))];
                vec![Stage::run_kernel("scalar_mul", &[&scratch], &scratch, scale)]
            },
            StreamOptions::new(FramePolicy::Block).lane(Lane::Default),
            move |frame, result| back.send((frame, result.is_ok())).unwrap(),
        );
        for frame in 0..30 {
            assert_eq!(block.push(frame).unwrap(), Pushed::Started);
        }
        let frames: Vec<(i32, bool)> = (0..30).map(|_| given_back.recv_timeout(LIMIT).unwrap()).collect();
        assert_eq!(frames, (0..30).map(|frame| (frame, true)).collect::<Vec<_>>());

        // Nothing starts within no time.
        let late = StreamOptions::new(FramePolicy::Queue(50)).deadline(Duration::ZERO);
        let late = Stream::repeat(&device, Stage::write_buffer(&x, vec![0; x.size_bytes()]), late);
        (0..5).for_each(|_| drop(late.push(())));
        late.wait_idle(LIMIT).unwrap();
        assert_eq!(late.stats().dropped_late, 5, "{:?}", late.stats());
    }
}

/// However busy the background is, an interactive command comes soon. How soon is measured by the example `figures`; here it is
/// counted what comes before it, which is the same however slow the machine is.
#[test]
fn the_background_does_not_hold_up_the_interactive_lane() {
    for device in devices() {
        let (stages, _x) = long_work(&device, Duration::from_millis(40));
        let y = Buffer::zeros(&device, DType::F32, [16]).unwrap();
        let small = || Stage::run_kernel("relu", &[&y], &y, ());
        device.submit(small()).unwrap().wait(LIMIT).unwrap();
        let options = SubmitOptions::new().lane(Lane::Background).when_full(WhenFull::Wait);
        // Sixteen commands more, of which the ninth is given: when it has ended, seven are left.
        let fill = || {
            let commands = (0..16).map(|_| device.submit_with(stages.clone(), options).unwrap());
            commands.collect::<Vec<Command>>().swap_remove(8)
        };
        let mut ninth = fill();
        let completed = || device.stats().queue.totals.completed;
        let (go_on, stop) = mpsc::channel::<()>();
        let (mut ends, mut waits): (Vec<u64>, Vec<Duration>) = std::thread::scope(|scope| {
            scope.spawn(move || {
                while stop.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    ninth.wait(LIMIT).unwrap();
                    ninth = fill();
                }
            });
            let waits = (0..40).map(|_| {
                std::thread::sleep(Duration::from_millis(3));
                let start = Instant::now();
                let command = device.submit_with(small(), Lane::Interactive).unwrap();
                let before = completed();
                command.wait(LIMIT).unwrap();
                (completed() - before, start.elapsed())
            });
            let waits = waits.unzip();
            // Also dropped if something here panics.
            drop(go_on);
            waits
        });
        ends.sort();
        waits.sort();
        println!(
            "{device:?}: interactive beside a full background lane: half within {:?}, at most {:?}",
            waits[20], waits[39]
        );
        // Itself and what was about to end; behind the whole queue it would be eight and more.
        assert!(ends[20] <= 3, "so many commands end until it has: {ends:?}");
    }
}
