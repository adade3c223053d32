//! Files that are not as they should be, thousands of them: each is read, resolved, planned and, where values decide, run, or refused
//! with a typed error, soon and in little memory, and none stops the program.
//!
//! `DALA_MALFORMED_FILES` says how many, `DALA_MALFORMED_SEED` which. Files that fail are kept among the system's temporary files;
//! `DALA_MALFORMED_FILE` is one to try again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it says what it found, and fails by panicking"
)]

mod builder;
mod hostile;
#[path = "../../dala-fuzz/src/memory.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of another program")]
mod memory;
#[path = "../../dala-fuzz/src/random.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of another program")]
mod random;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use builder::Net;
use dala_compute::{Buffer, Device, DeviceOptions};
use dala_kernels::Registry;
use dala_model::proto::{StringStringEntryProto, TensorProto, element_type};
use dala_model::{Model, Session};
use dala_plan::DeviceFacts;
use dala_spec::{Data, Scalar};
use hostile::{OWN, Step, bomb, damage, drive, never_ends, scramble, seeds};
use prost::Message;
use random::Random;

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

/// What CI runs.
const FILES: usize = 1500;
/// Time on a processor for one file, until it is planned.
const TIME: Duration = Duration::from_secs(4);
/// Time on processors for one run on the device, which compiles kernels, with all threads of the process: nothing else runs in it.
const RUN_TIME: Duration = Duration::from_secs(60);
/// What one file may take.
const MEMORY: usize = 512 << 20;
/// What the device may take for one.
const DEVICE_MEMORY: u64 = 256 << 20;
/// What a thread that runs native code for Elixir has at least.
const STACK: usize = 320 << 10;
/// One that takes longer hangs.
const HANGS: u64 = 300;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How long this thread has been on a processor, where the system says, and otherwise by the clock.
fn processor_time(start: Instant) -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let time = text.split_whitespace().next().and_then(|time| time.parse().ok()).map(Duration::from_nanos);
    time.unwrap_or_else(|| start.elapsed())
}

/// How long this process has been on processors, where the system says, and otherwise by the clock.
fn processors_time(start: Instant) -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the program's name, which may hold spaces; in hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let time = <[u64; 2]>::try_from(ticks).map(|[user, system]| Duration::from_millis(10 * (user + system)));
    time.unwrap_or_else(|_| start.elapsed())
}

/// A file of some kind.
fn make(random: &mut Random, seeds: &[dala_model::proto::ModelProto]) -> (&'static str, Vec<u8>) {
    let (mut kind, mut model) = match random.below(10) {
        0 => bomb(random),
        1..=3 => ("damaged", random.pick(&seeds[..OWN])),
        _ => ("damaged", random.pick(seeds)),
    };
    if kind == "damaged" || random.chance(25) {
        let times = random.pick(&[1, 1, 1, 2, 4]);
        (0..times).for_each(|_| damage(&mut model, seeds, random));
    }
    let mut bytes = model.encode_to_vec();
    if random.chance(15) {
        kind = "scrambled";
        scramble(&mut bytes, random);
    }
    (kind, bytes)
}

/// Everything that is tried with one file.
struct Trial {
    registry: Registry,
    device: Device,
    facts: [DeviceFacts; 1],
}

impl Trial {
    fn new() -> Trial {
        let device = Device::open_with("cpu", DeviceOptions::default().memory_budget(DEVICE_MEMORY)).unwrap();
        Trial { registry: Registry::built_in(), device, facts: [DeviceFacts::of_a_cpu()] }
    }

    /// What a file comes to, in a word, and the model if values decide what it does.
    fn file(&self, bytes: Vec<u8>) -> (String, Option<Model>) {
        let (mut past, mut code) = ("", String::new());
        let model = drive(Model::read(bytes), &self.registry, &self.facts, &mut |step| match step {
            Step::Past(stage) => past = stage,
            Step::Refused(own, _) => own.clone_into(&mut code),
            Step::Count(_) => {}
        });
        let decided = model.filter(|model| model.decided_by_values().is_some());
        (if past.is_empty() { code } else { past.to_owned() }, decided)
    }

    /// Runs a model with small numbers; gives how that ended.
    fn run(&self, model: &Model) -> String {
        let mut inputs = Vec::new();
        for ty in hostile::types(model.inputs(), model.smallest_batch(), 2) {
            if ty.shape.len() > 1 << 16 {
                return "an input too large to try".to_owned();
            }
            let numbers = (0..ty.shape.len()).map(|place| Scalar::from_i64(ty.dtype, place as i64 % 3));
            match Buffer::from_bytes(
                &self.device,
                &Data::collect(ty.dtype, numbers).to_bytes(),
                ty.dtype,
                ty.shape.clone(),
            ) {
                Ok(buffer) => inputs.push(buffer),
                Err(error) => return error.code().to_owned(),
            }
        }
        let session = Session::new(&self.device, model);
        let ran = session.run(&inputs.iter().collect::<Vec<_>>());
        let ran = ran.and_then(|outputs| Ok(outputs.iter().try_for_each(|output| output.read_data().map(drop))?));
        match ran {
            Ok(()) => "ran".to_owned(),
            Err(error) => {
                assert!(error.to_string().len() < 4000, "a long message");
                error.code().to_owned()
            }
        }
    }
}

/// What many files came to.
#[derive(Default)]
struct Tally {
    codes: BTreeMap<String, usize>,
    runs: BTreeMap<String, usize>,
    slowest: (Duration, String),
    slowest_run: (Duration, String),
    largest: (usize, String),
    failures: Vec<String>,
}

impl Tally {
    fn file(&mut self, trial: &Trial, what: &str, bytes: Vec<u8>, runs: bool) {
        let kept = kept(&bytes);
        let start = Instant::now();
        let before = processor_time(start);
        let (result, memory) = memory::peak(|| catch_unwind(AssertUnwindSafe(|| trial.file(bytes))));
        let time = processor_time(start).saturating_sub(before);
        let failures = self.failures.len();
        let mut fail_after = Vec::new();
        match result {
            Err(panic) => fail_after.push(said(&*panic)),
            Ok((code, decided)) => {
                *self.codes.entry(code).or_default() += 1;
                if let (Some(model), true) = (decided, runs) {
                    let start = Instant::now();
                    let before = processors_time(start);
                    let (ran, memory) = memory::peak(|| catch_unwind(AssertUnwindSafe(|| trial.run(&model))));
                    match ran {
                        Err(panic) => fail_after.push(format!("while it runs: {}", said(&*panic))),
                        Ok(code) => *self.runs.entry(code).or_default() += 1,
                    }
                    let time = processors_time(start).saturating_sub(before);
                    if time > RUN_TIME || memory > MEMORY {
                        fail_after.push(format!("a run takes {time:?} and {} MiB", memory >> 20));
                    }
                    self.slowest_run = self.slowest_run.clone().max((time, what.to_owned()));
                    self.largest = self.largest.clone().max((memory, format!("{what}, running")));
                }
            }
        }
        if time > TIME {
            fail_after.push(format!("takes {time:?}"));
        }
        if memory > MEMORY {
            fail_after.push(format!("takes {} MiB", memory >> 20));
        }
        self.slowest = self.slowest.clone().max((time, what.to_owned()));
        self.largest = self.largest.clone().max((memory, what.to_owned()));
        for why in fail_after {
            let failure = format!("{what}: {why}: {}", kept.display());
            eprintln!("{failure}");
            self.failures.push(failure);
        }
        if self.failures.len() == failures {
            let _ = std::fs::remove_file(kept);
        }
    }

    fn show(&self) {
        println!("{} files", self.codes.values().sum::<usize>());
        println!(
            "slowest {:?} ({}), slowest run {:?} ({})",
            self.slowest.0, self.slowest.1, self.slowest_run.0, self.slowest_run.1
        );
        println!("most memory {} MiB ({})", self.largest.0 >> 20, self.largest.1);
        self.codes.iter().for_each(|(code, count)| println!("{count:6} {code}"));
        self.runs.iter().for_each(|(code, count)| println!("{count:6} run: {code}"));
        assert!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or_default())
}

/// The file on disk, should this process end with it.
fn kept(bytes: &[u8]) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("dala-malformed-{}-{number}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// On a thread with little stack, watched by another that ends the process if a file takes for ever.
fn watched(work: impl FnOnce(&AtomicU64) + Send + 'static) {
    let count = Arc::new(AtomicU64::new(0));
    let own = count.clone();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || work(&own)).unwrap();
    let (mut last, mut since) = (0, Instant::now());
    while !thread.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
        let now = count.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed().as_secs() > HANGS {
            eprintln!("file {now} hangs: see the last dala-malformed file in {}", std::env::temp_dir().display());
            std::process::abort();
        }
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn thousands_of_malformed_files() {
    watched(|count| {
        if let Some(path) = std::env::var_os("DALA_MALFORMED_FILE") {
            let mut tally = Tally::default();
            tally.file(&Trial::new(), "file", std::fs::read(path).unwrap(), true);
            return tally.show();
        }
        let (files, seed) =
            (from_environment("DALA_MALFORMED_FILES", FILES as u64), from_environment("DALA_MALFORMED_SEED", 1));
        let (trial, seeds, mut tally) = (Trial::new(), seeds(), Tally::default());
        // Those that are whole can be read, but for a few cases of operators that are refused.
        let unread: Vec<String> = seeds
            .iter()
            .filter_map(|seed| Model::read(seed.encode_to_vec()).err())
            .map(|error| error.to_string())
            .collect();
        assert!(unread.len() * 10 < seeds.len(), "{} of {}: {}", unread.len(), seeds.len(), unread.join("\n"));
        let mut random = Random::new(seed);
        // Runs take longer than everything else.
        let each = if files > FILES as u64 { 1 } else { 4 };
        for number in 0..files {
            count.store(number + 1, Ordering::Relaxed);
            let (kind, bytes) = make(&mut random, &seeds);
            tally.file(&trial, &format!("{kind} {number}"), bytes, random.below(each) == 0);
        }
        if files > FILES as u64 {
            tally.file(&trial, "a loop that never ends", never_ends(), true);
            assert!(tally.runs.contains_key("too_large"), "it ended");
        }
        tally.show();
        for code in
            ["truncated", "malformed", "cyclic", "undefined_value", "duplicate_value", "bad_attribute", "too_large"]
        {
            assert!(tally.codes.contains_key(code), "no file gave {code}");
        }
    });
    folders();
}

/// A model whose weight is in another file, as these entries say.
fn outside(entries: &[(&str, &str)]) -> Net {
    let entry =
        |(key, value): &(&str, &str)| StringStringEntryProto { key: (*key).to_owned(), value: (*value).to_owned() };
    let weight = TensorProto {
        dims: vec![4],
        data_type: element_type::FLOAT,
        data_location: 1,
        external_data: entries.iter().map(entry).collect(),
        ..TensorProto::default()
    };
    Net::new(13).x(&[-1, 4]).tensor("w", weight).node("Add", &["x", "w"], "y", vec![]).output("y")
}

/// Weights in other files: only whole files in the model's folder are read, and no more than they have.
fn folders() {
    let top = std::env::temp_dir().join(format!("dala-malformed-folder-{}", std::process::id()));
    let folder = top.join("model");
    std::fs::create_dir_all(folder.join("parts")).unwrap();
    std::fs::create_dir_all(top.join("elsewhere")).unwrap();
    for path in ["model/weights", "model/parts/weights", "elsewhere/weights", "secret"] {
        std::fs::write(top.join(path), [0u8; 64]).unwrap();
    }
    std::fs::write(folder.join("short"), [0u8; 3]).unwrap();
    std::fs::write(folder.join("empty"), []).unwrap();
    let read = |net: Net| -> Result<Model, String> {
        let path = folder.join("net.onnx");
        std::fs::write(&path, net.bytes()).unwrap();
        Model::open(&path).map_err(|error| error.code().to_owned())
    };
    let mut refused = vec![
        "../secret",
        "parts/../../secret",
        "/etc/passwd",
        "/dev/zero",
        "parts",
        "parts/",
        "",
        ".",
        "..",
        "nothing",
        "short",
        "empty",
        "we\0ights",
        "weights\0",
        "WEIGHTS",
        "parts\\weights",
        "..\\secret",
        "weights ",
        "\u{ff57}eights",
        "~/weights",
        "file:///etc/passwd",
        "C:\\weights",
        "net.onnx/weights",
        "/proc/self/mem",
    ];
    let long = "a/".repeat(5000);
    refused.push(&long);
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(top.join("secret"), folder.join("link")).unwrap();
        symlink(top.join("elsewhere"), folder.join("linked")).unwrap();
        symlink(folder.join("round"), folder.join("round")).unwrap();
        symlink("/dev/zero", folder.join("zero")).unwrap();
        symlink(folder.join("weights"), folder.join("same")).unwrap();
        refused.extend(["link", "linked/weights", "round", "zero"]);
        let pipe = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
        if pipe.is_ok_and(|status| status.success()) {
            refused.push("pipe");
        }
        assert!(read(outside(&[("location", "same")])).is_ok());
    }
    for location in refused {
        let result = read(outside(&[("location", location)]));
        assert!(matches!(result.as_ref().map_err(String::as_str), Err("external_data" | "io")), "{location:?}");
    }
    for location in ["weights", "./weights", "parts/weights"] {
        assert!(read(outside(&[("location", location)])).is_ok(), "{location}");
    }
    let number = [
        ("offset", "-1"),
        ("offset", "49"),
        ("offset", "18446744073709551615"),
        ("offset", "18446744073709551616"),
        ("offset", "x"),
        ("offset", ""),
        ("length", "-16"),
        ("length", "15"),
        ("length", "17"),
        ("length", "18446744073709551615"),
        ("length", "0x10"),
    ];
    for entry in number {
        let result = read(outside(&[("location", "weights"), entry]));
        assert_eq!(result.map(|_| ()), Err("external_data".to_owned()), "{entry:?}");
    }
    // What is not aligned is read as what is.
    assert!(read(outside(&[("location", "weights"), ("offset", "3"), ("length", "16")])).is_ok());
    assert_eq!(read(outside(&[])).map(|_| ()), Err("external_data".to_owned()));
    assert_eq!(
        Model::read(outside(&[("location", "weights")]).bytes()).map(|_| ()).map_err(|error| error.code()),
        Err("external_data")
    );
    // A small file is no reason for much memory, however often it is read.
    let mut often = outside(&[("location", "weights")]);
    let weight = often.graph().initializer[0].clone();
    let again = (0..100).map(|number| TensorProto { name: format!("w{number}"), ..weight.clone() });
    often.graph().initializer.extend(again);
    assert_eq!(read(often).map(|_| ()), Err("external_data".to_owned()));
    endless_file(&folder);
    std::fs::remove_dir_all(top).unwrap();
}

/// What is no file, in place of a model.
fn endless_file(folder: &Path) {
    for path in [folder, &folder.join("parts"), &folder.join("nothing")] {
        assert_eq!(Model::open(path).map(|_| ()).map_err(|error| error.code()), Err("io"), "{}", path.display());
    }
}
