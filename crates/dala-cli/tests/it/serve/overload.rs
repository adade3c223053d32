//! More requests than the device bears: what can be answered in time is, the rest is told at once.

use std::thread::scope;
use std::time::Duration;

use super::super::models::model_file;
use super::load::{Load, Tally};
use super::{Folder, Serving, is_long, rows};

/// How late an answer or a refusal may come after its deadline: a turn of a machine that has nothing else to do. The short form runs
/// beside anything, and asks for so much more than can be done that without refusals answers would be later than this.
fn grace() -> Duration {
    Duration::from_millis(if is_long() { 50 } else { 2000 })
}

fn seconds(short: f64, long: f64) -> Duration {
    Duration::from_secs_f64(if is_long() { long } else { short })
}

/// A request for MobileNetV2: a picture of one grey.
fn picture() -> Vec<u8> {
    const BYTES: usize = 3 * 224 * 224 * 4;
    let input = format!(
        r#"{{"name":"input","datatype":"FP32","shape":[1,3,224,224],"parameters":{{"binary_data_size":{BYTES}}}}}"#
    );
    let json = format!(r#"{{"inputs":[{input}],"outputs":[{{"name":"output","parameters":{{"binary_data":true}}}}]}}"#);
    [json.as_bytes(), &0.5f32.to_le_bytes().repeat(BYTES / 4)].concat()
}

#[test]
fn more_than_it_bears() {
    let folder = Folder::new();
    let (model, body) = match is_long() {
        true => (format!("net={}", model_file("mobilenet_v2.onnx")), Some(picture())),
        false => (rows(&folder, "net.onnx", "Neg"), None),
    };
    let mut server = Serving::start(&folder, &[&model, "--batch", if is_long() { "1,2,4,8" } else { "1" }]);
    if !is_long() {
        // Runs of a known time, whatever the machine.
        server.tell("slow 10ms");
    }
    let load = |connections, rate, lane, deadline, time| {
        let body = body.as_deref();
        Load { rate, lane, deadline, body, ..Load::new(server.http, connections, time) }
    };
    // What is wrong is wrong every time. The short form runs beside anything: one try of some shows that all is well.
    for left in (0..if is_long() { 1 } else { 5 }).rev() {
        let problems = overloaded(&server, &load);
        println!("{problems:?}");
        if problems.is_empty() {
            return;
        }
        assert!(left > 0, "{}", problems.join("\n"));
    }
}

/// What is wrong with how a server behaves that is asked for more than it bears; `load` has connections, a rate, a lane, a deadline and a time.
fn overloaded<'a>(
    server: &Serving,
    load: &(impl Fn(usize, Option<f64>, &'static str, Option<Duration>, Duration) -> Load<'a> + Sync),
) -> Vec<String> {
    let full = load(24, None, "default", None, seconds(2.0, 30.0)).run();
    println!("as many as it bears: {full}");
    let bears = full.per_second();
    let alone = load(16, Some(bears * 0.2), "interactive", None, seconds(2.0, 30.0)).run();
    println!("interactive alone: {alone}");
    let before = server.memory();
    let (mut interactive, mut bulk) = (Tally::default(), Tally::default());
    let mut memory = Vec::new();
    let minutes = std::env::var("DALA_TRIAL_MINUTES").ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(10);
    let (rounds, time) = if is_long() { (minutes, Duration::from_secs(60)) } else { (1, Duration::from_secs(4)) };
    for _ in 0..rounds {
        let quick = load(16, Some(bears * 0.2), "interactive", Some(seconds(2.0, 0.5)), time);
        // With the others a fifth more than it bears, or twice as much more.
        let slow =
            load(240, Some(bears * if is_long() { 1.0 } else { 3.0 }), "background", Some(seconds(0.4, 1.0)), time);
        scope(|scope| {
            let quick = scope.spawn(|| quick.run());
            bulk.add(slow.run());
            interactive.add(quick.join().unwrap());
        });
        memory.push(server.memory());
    }
    for tally in [&mut interactive, &mut bulk] {
        tally.took = time * rounds;
    }
    println!("interactive: {interactive}\nbulk: {bulk}\nmemory: {before} before, then {memory:?}");
    [&interactive, &bulk].into_iter().for_each(Tally::is_whole);
    let good = interactive.per_second() + bulk.per_second();
    let (p99, unloaded) = (interactive.within(0.99), alone.within(0.99));
    let times = p99.as_secs_f64() / unloaded.as_secs_f64();
    println!("answered in time: {good:.1} of {bears:.1} a second; interactive {times:.2} of unloaded");
    let last = memory.last().copied().unwrap_or(before);
    // Where nothing but the device takes time nearly all is reached. A model on the cores that also carry requests loses more: what
    // takes a core from one of the device's threads makes the others wait.
    let enough = bears * if is_long() { 0.7 } else { 0.5 };
    let overdue = interactive.overdue.max(bulk.overdue);
    let all = [
        (overdue <= grace(), format!("told {overdue:?} after a deadline")),
        (good > enough, format!("{good} of {bears} answered in time")),
        (bulk.refusals() > 0, format!("nothing was refused: {bulk}")),
        (interactive.refusals() * 100 <= interactive.asked, format!("what is urgent was refused: {interactive}")),
        (!is_long() || times <= 3.0, format!("what is urgent took {times} of unloaded")),
        (last < memory.first().copied().unwrap_or(before) + (16 << 20), format!("memory grows: {memory:?}")),
    ];
    all.into_iter().filter(|(holds, _)| !holds).map(|(_, problem)| problem).collect()
}
