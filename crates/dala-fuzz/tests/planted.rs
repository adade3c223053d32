//! Bugs that were put there on purpose: each is found within 20 seconds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it saw")]

use std::time::Duration;

use dala_fuzz::{Progress, Random, Report, Target, memory, session, targets};
use dala_plan::PipelineText;
use dala_spec::{Expr, Scope};

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

/// A target with a fault in what it tries.
struct Planted {
    target: Box<dyn Target>,
    fault: fn(&[u8], &mut Progress),
}

impl Target for Planted {
    fn name(&self) -> &'static str {
        self.target.name()
    }

    fn stages(&self) -> &'static [&'static str] {
        self.target.stages()
    }

    fn short(&self) -> usize {
        self.target.short()
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.target.seeds()
    }

    fn words(&self) -> Vec<&'static str> {
        self.target.words()
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        self.target.generate(random)
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        self.target.run(input, progress);
        (self.fault)(input, progress);
    }
}

fn found(target: &str, fault: fn(&[u8], &mut Progress)) -> Report {
    // Memory is counted for the whole process.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("dala-fuzz-planted-{}-{target}", std::process::id()));
    let options = session::Options {
        time: Duration::from_secs(300),
        seed: 1,
        corpus: None,
        failures: folder.clone(),
        state: None,
        inputs: None,
        first_failure: true,
    };
    let mut planted = Planted { target: targets::by_name(target).unwrap(), fault };
    let report = session::run(&mut planted, &options).unwrap();
    println!("{report}");
    assert_eq!(report.failures.len(), 1, "{target} found nothing");
    // What was saved fails again.
    let input = std::fs::read(&report.failures[0].input).unwrap();
    let again = session::Options { time: Duration::ZERO, corpus: Some(folder.clone()), ..options };
    assert!(!input.is_empty() && session::run(&mut planted, &again).unwrap().failures.len() == 1);
    std::fs::remove_dir_all(&folder).unwrap();
    report
}

/// A printer that forgets the brackets on the right of a minus: `x - (y - 1)`.
fn forgets_brackets(input: &[u8], _: &mut Progress) {
    let text = String::from_utf8_lossy(input);
    let Some((_, text)) = text.split_once('\n') else { return };
    let scope = Scope::new(["x", "y", "table"], ["gain", "count", "on"]);
    let Ok(expr) = Expr::parse(text, &scope) else { return };
    let printed = expr.to_string();
    let Some(at) = printed.find("- (x - ") else { return };
    let close = printed[at..].find(')').unwrap_or_default();
    let broken = [&printed[..at + 2], &printed[at + 3..at + close], &printed[at + close + 1..]].concat();
    let again = Expr::parse(&broken, &scope).map(|expr| expr.to_string());
    assert_eq!(again.unwrap_or_default(), printed, "printed otherwise the second time");
}

/// A reader of chains that takes a list for one of at most two numbers.
fn expects_two_numbers(input: &[u8], _: &mut Progress) {
    let Ok(text) = PipelineText::from_chain(&String::from_utf8_lossy(input)) else { return };
    let toml = text.to_toml();
    let Some((_, list)) = toml.split_once("axes = [") else { return };
    let numbers: Vec<&str> = list.split(']').next().unwrap_or_default().split(", ").collect();
    let mut two = [""; 2];
    numbers.iter().enumerate().for_each(|(place, number)| two[place] = number);
}

/// A planner that takes memory for what a model claims to be.
fn takes_what_is_claimed(input: &[u8], progress: &mut Progress) {
    if progress.reached() >= 2 && input.windows(5).any(|part| part == b"MatMu") && input.len() % 61 == 3 {
        std::hint::black_box(vec![1u8; 600 << 20]);
    }
}

#[test]
fn a_printer_that_forgets_brackets_is_found() {
    let report = found("expression", forgets_brackets);
    assert!(report.failures[0].what.contains("printed otherwise"), "{}", report.failures[0].what);
}

#[test]
fn a_list_that_is_too_long_is_found() {
    let report = found("chain", expects_two_numbers);
    assert!(report.failures[0].what.contains("index out of bounds"), "{}", report.failures[0].what);
}

// Memory is counted for the whole process: no other test may take any meanwhile.
#[test]
fn zzz_memory_that_is_taken_is_found() {
    let report = found("model", takes_what_is_claimed);
    assert!(report.failures[0].what.contains("512 MiB"), "{}", report.failures[0].what);
}

#[cfg(unix)]
#[test]
fn a_process_that_ends_is_found_with_its_input() {
    use dala_fuzz::watch::{Watched, watch};
    let folder = std::env::temp_dir().join(format!("dala-fuzz-planted-{}-ends", std::process::id()));
    let watched = Watched { target: "ends", time: Duration::from_millis(1), seed: 1, failures: &folder };
    let seen = watch(&watched, |_, _, state| {
        // As a session notes it: the number, the length, the input.
        let script = r#"printf '\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0bad' > "$0"; kill -ABRT $$"#;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).arg(state);
        command
    });
    let ends = seen.unwrap().ends;
    assert_eq!(ends.len(), 1);
    assert!(ends[0].what.contains("ends the process"), "{}", ends[0].what);
    assert_eq!(std::fs::read(&ends[0].input).unwrap(), b"bad");
    std::fs::remove_dir_all(&folder).unwrap();
}
