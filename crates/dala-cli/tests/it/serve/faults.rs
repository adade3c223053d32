//! Things go wrong under load. Every request comes to one end all the same: none is lost, none is answered twice.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::load::{Connection, Load, Tally, get};
use super::{Folder, Serving, is_long, rows};

/// Only so that nothing hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Ends callers when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs callers until `meanwhile` is over.
fn beside(load: &Load<'_>, meanwhile: impl FnOnce()) -> Tally {
    let stop = AtomicBool::new(false);
    let load = Load { stop: &stop, time: Duration::from_secs(3600), ..load.clone() };
    let tally = scope(|scope| {
        let running = scope.spawn(|| load.run());
        let stops = Stops(&stop);
        meanwhile();
        drop(stops);
        running.join().unwrap()
    });
    tally.is_whole();
    tally
}

/// A number among the server's metrics.
fn metric(server: &Serving, name: &str) -> Option<u64> {
    let (_, metrics) = get(server.http, "GET", "/metrics");
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Waits for what takes time and nothing else.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn callers(server: &Serving) -> Load<'static> {
    Load::new(server.http, 12, Duration::ZERO)
}

/// Nothing waits any more, and a new request is answered.
fn is_idle(server: &Serving) {
    let begun = Instant::now();
    let is_empty = || {
        let (_, metrics) = get(server.http, "GET", "/metrics");
        let zero = |name: &str| metrics.lines().any(|line| line.starts_with(name) && line.ends_with(" 0"));
        zero("dala_queued_items") && zero("dala_running_items")
    };
    while !is_empty() {
        assert!(begun.elapsed() < LIMIT, "something waits for ever");
        sleep(Duration::from_millis(5));
    }
    let one = Load { rate: Some(100.0), ..Load::new(server.http, 1, Duration::from_millis(100)) }.run();
    assert!(one.answered > 0 && one.refusals() == 0, "{one}");
}

#[test]
fn a_device_that_is_lost_again_and_again() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let mut server = Serving::start(&folder, &[&model]);
    let times = if is_long() { 200 } else { 8 };
    let load = callers(&server);
    let lost = |server: &Serving| metric(server, "dala_device_lost_total{device=\"cpu\"}").unwrap_or(0);
    let tally = beside(&load, || {
        for number in 0..times {
            server.tell("slow 2ms\nlost");
            until("a loss is not noticed", || lost(&server) > number);
            sleep(Duration::from_millis(100));
        }
    });
    println!("the device lost {times} times: {tally}");
    assert!(tally.answered > tally.refusals(), "{tally}");
    assert!(tally.refused.keys().all(|code| code == "device_lost"), "{tally}");
    assert_eq!(lost(&server), times);

    // While it cannot be opened, requests are refused and not kept.
    server.tell("gone");
    let http = server.http;
    let is_ready = || get(http, "GET", "/v2/health/ready").0 == 200;
    let load = |time| Load { rate: Some(50.0), ..Load::new(http, 8, time) }.run();
    // The first find out; then it is known.
    until("nobody finds out", || {
        let tally = load(Duration::from_millis(50));
        tally.is_whole();
        assert!(tally.refused.keys().all(|code| ["device_lost", "not_ready"].contains(&&**code)), "{tally}");
        !is_ready()
    });
    let tally = load(Duration::from_secs(1));
    println!("no device for a second: {tally}");
    tally.is_whole();
    assert!(tally.answered == 0 && tally.refused["not_ready"] == tally.asked, "{tally}");
    server.tell("");
    // It is tried four times in a second.
    until("it is not opened again", is_ready);
    is_idle(&server);
}

#[test]
fn callers_that_are_killed() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let mut server = Serving::start(&folder, &[&model, "--connections", "4096", "--batch", "1,2,4"]);
    // Most wait until they are gone, also where it takes a second to ask.
    server.tell("slow 100ms");
    let count = if is_long() { 1000 } else { 200 };
    let load = Load { connections: 4, ..callers(&server) };
    let killed = Load::new(server.http, 1, Duration::ZERO);
    // What is wrong is wrong every time: callers that stay until they are answered, as all take their time, are so only now and then.
    for left in (0..5).rev() {
        let (run, answered) = killed_beside(&server, &load, &killed, count);
        // Those who were gone before their run were not run.
        if run < answered + count / 2 {
            return;
        }
        assert!(left > 0, "{run} items were run for {answered} answers");
    }
}

/// Kills so many callers beside others; gives how many items were run meanwhile, and how many of the others were answered.
fn killed_beside(server: &Serving, load: &Load<'_>, killed: &Load<'_>, count: u64) -> (u64, u64) {
    let before = items_run(server);
    let tally = beside(load, || {
        let begun = Instant::now();
        for round in 0..count / 100 {
            let asked = |number: u64| {
                let mut connection = Connection::open(server.http).unwrap();
                connection.stream.write_all(&killed.request(1_000_000 + round * 100 + number)).unwrap();
                connection
            };
            let open: Vec<Connection> = (0..100).map(asked).collect();
            // Some are with the device by then, most wait.
            sleep(Duration::from_millis(15));
            drop(open);
            sleep(Duration::from_millis(60));
        }
        println!("{count} callers were killed within {:.1} s", begun.elapsed().as_secs_f64());
    });
    println!("beside {count} callers that were killed: {tally}");
    assert_eq!(tally.refusals(), 0, "{tally}");
    is_idle(server);
    let run = items_run(server) - before;
    println!("{run} items were run for {} answers", tally.answered);
    (run, tally.answered)
}

fn items_run(server: &Serving) -> u64 {
    let (_, statistics) = get(server.http, "GET", "/v2/models/net/stats");
    let statistics: serde_json::Value = serde_json::from_str(&statistics).unwrap();
    statistics["model_stats"][0]["inference_count"].as_u64().unwrap()
}

#[test]
fn a_poisoned_input_fails_alone() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let mut server = Serving::start(&folder, &[&model]);
    server.tell("slow 2ms");
    let load = Load { poison_every: 50, ..callers(&server) };
    let tally = beside(&load, || {
        sleep(Duration::from_secs(if is_long() { 60 } else { 2 }));
        let failed = || metric(&server, "dala_requests_total{model=\"net\",outcome=\"failed\"}");
        until("nothing fails", || failed() > Some(2));
    });
    println!("every 50th input is poisoned: {tally}");
    assert_eq!(tally.refused.into_iter().collect::<Vec<_>>(), [("failed".to_owned(), tally.poisoned)]);
    assert!(tally.poisoned > 2);
    is_idle(&server);
}

#[test]
fn memory_that_runs_out() {
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let mut server = Serving::start(&folder, &[&model]);
    let load = callers(&server);
    let tally = beside(&load, || {
        for _ in 0..5 {
            server.tell("full");
            sleep(Duration::from_millis(100));
            server.tell("");
            sleep(Duration::from_millis(100));
        }
    });
    println!("no memory for half of the time: {tally}");
    assert!(tally.answered > 0 && tally.refused.keys().all(|code| code == "failed"), "{tally}");
    is_idle(&server);
}

#[test]
fn models_that_are_swapped() {
    let folder = Folder::new();
    let models = folder.path("models");
    std::fs::create_dir(&models).unwrap();
    let [negative, absolute] = ["Neg", "Abs"].map(|operator| rows(&folder, &format!("{operator}.onnx"), operator));
    let file = format!("{models}/net.onnx");
    std::fs::copy(&negative, &file).unwrap();
    let server = Serving::start(&folder, &["--models", &models, "--allow-load"]);
    let (by_asking, by_looking) = if is_long() { (90, 10) } else { (6, 1) };
    let versions = |asked: &str| {
        let (_, about) = get(server.http, "GET", "/v2/models/net");
        let about: serde_json::Value = serde_json::from_str(&about).unwrap();
        about["versions"][0].as_str().unwrap_or_else(|| panic!("{asked}: {about}")).parse::<u64>().unwrap()
    };
    let load = callers(&server);
    let swap = |number: usize| {
        let from = if number.is_multiple_of(2) { &absolute } else { &negative };
        std::fs::copy(from, format!("{models}/.next")).unwrap();
        std::fs::rename(format!("{models}/.next"), &file).unwrap();
    };
    let tally = beside(&load, || {
        for number in 0..by_looking {
            let (before, begun) = (versions("before"), Instant::now());
            swap(number);
            while versions("after") == before {
                assert!(begun.elapsed() < LIMIT, "the folder is not followed");
                sleep(Duration::from_millis(20));
            }
        }
        for number in 0..by_asking {
            swap(number + by_looking);
            let (status, said) = get(server.http, "POST", "/v2/repository/models/net/load");
            assert_eq!(status, 200, "{said}");
        }
        // What cannot be read leaves what was there.
        std::fs::write(format!("{models}/.next"), b"no model").unwrap();
        std::fs::rename(format!("{models}/.next"), &file).unwrap();
        let (status, said) = get(server.http, "POST", "/v2/repository/models/net/load");
        assert_eq!(status, 503, "{said}");
    });
    println!("swapped {} times: {tally}", by_asking + by_looking);
    assert_eq!(tally.refusals() + tally.untaken, 0, "{tally}");
    assert!(versions("at the end") > (by_asking + by_looking) as u64, "every swap was a version");
}

#[test]
fn a_server_that_is_told_to_end() {
    for notice in ["1ms", "300ms"] {
        let folder = Folder::new();
        let model = rows(&folder, "net.onnx", "Neg");
        let mut server = Serving::start(&folder, &[&model, "--notice", notice]);
        server.tell("slow 5ms");
        let load = callers(&server);
        let mut words = String::new();
        let tally = beside(&load, || {
            let answered = "dala_requests_total{model=\"net\",outcome=\"ok\"}";
            until("nothing is answered", || metric(&server, answered).is_some_and(|count| count > 24));
            words = server.end();
        });
        println!("told to end, with {notice} of notice: {tally}");
        assert!(words.contains("every request was answered"), "{words}");
        assert!(tally.answered > 12 && tally.refused.keys().all(|code| code == "draining"), "{tally}");
    }
}

/// A file system of 256 KiB that is full.
struct FullDisk<'a>(&'a Folder);

impl FullDisk<'_> {
    fn mount(folder: &Folder) -> Option<FullDisk<'_>> {
        let at = folder.path("disk");
        std::fs::create_dir(&at).unwrap();
        let mounted =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none", &at]).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: this user may not mount a file system to fill it");
            return None;
        }
        Some(FullDisk(folder))
    }

    fn fill(&self) {
        // As much as there is room for.
        let _ = std::fs::write(self.0.path("disk/filler"), vec![1; 1 << 20]);
    }
}

impl Drop for FullDisk<'_> {
    fn drop(&mut self) {
        // A folder that stays does not make a test fail.
        let _ = std::process::Command::new("umount").args(["-l", &self.0.path("disk")]).status();
    }
}

#[test]
fn a_disk_that_is_full() {
    let folder = Folder::new();
    let Some(disk) = FullDisk::mount(&folder) else { return };
    let (models, file) = (folder.path("disk"), folder.path("disk/net.onnx"));
    let model = rows(&folder, "Neg.onnx", "Neg");
    std::fs::copy(&model, &file).unwrap();
    disk.fill();
    // Kernels that were compiled cannot be kept, and a model that is copied there arrives cut off.
    let cache = folder.path("disk/cache");
    let server = Serving::start_with(&folder, &["--models", &models, "--allow-load"], |command| {
        command.env("DALA_CACHE", &cache);
    });
    let load = callers(&server);
    let tally = beside(&load, || {
        let cut = std::fs::write(folder.path("disk/other.onnx"), std::fs::read(&model).unwrap());
        println!("another model on the full disk: {cut:?}");
        sleep(Duration::from_millis(1500));
        assert_ne!(get(server.http, "POST", "/v2/repository/models/other/load").0, 200);
    });
    println!("the disk is full: {tally}");
    assert_eq!(tally.refusals() + tally.untaken, 0, "{tally}");
    is_idle(&server);
}

#[test]
fn a_clock_that_jumps() {
    let library = ["x86_64", "aarch64"].map(|kind| format!("/usr/lib/{kind}-linux-gnu/faketime/libfaketimeMT.so.1"));
    let Some(library) = library.iter().find(|library| std::path::Path::new(library).exists()) else {
        println!("skipped: there is no libfaketime to make the clock jump");
        return;
    };
    let folder = Folder::new();
    let model = rows(&folder, "net.onnx", "Neg");
    let clock = folder.file("clock", "+0\n");
    let mut server = Serving::start_with(&folder, &[&model], |command| {
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock);
        // As clocks of real machines do: that of the day jumps, that of durations never does.
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    });
    server.tell("slow 2ms");
    let load = Load { deadline: Some(Duration::from_secs(60)), ..callers(&server) };
    let tally = beside(&load, || {
        for jump in ["+2d", "-3d", "+0", "-20y", "+8y", "+0"] {
            folder.file("clock", format!("{jump}\n"));
            sleep(Duration::from_millis(if is_long() { 5000 } else { 200 }));
        }
    });
    println!("the clock jumped 6 times: {tally}");
    assert_eq!(tally.refusals() + tally.untaken, 0, "{tally}");
    assert!(tally.within(0.99) < Duration::from_secs(30), "{tally}");
    is_idle(&server);
}
