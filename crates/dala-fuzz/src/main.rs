//! `fuzz TARGET… --seconds N`: hostile input for everything that reads what others wrote.
#![expect(clippy::print_stdout, reason = "it is what the program is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dala_fuzz::{Progress, Target, memory, session, targets, watch};

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

/// What a thread that runs native code for Elixir has at least: a scheduler for long work, as the BEAM starts it.
const STACK: usize = 320 << 10;

/// Few inputs take long only on a machine that stands still.
const SHORT_LIMIT: Duration = Duration::from_secs(180);

/// Gives targets inputs that were made to break them. Exits with 1 if one did.
#[derive(Parser)]
struct Arguments {
    /// What is tried; all, one after the other, if none is named.
    targets: Vec<String>,
    /// How long each is tried.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Gives each a number of inputs of its own instead, some ten seconds' worth: the same ones on every machine, for checks that must
    /// end as they did before.
    #[arg(long, conflicts_with = "seconds")]
    short: bool,
    /// Which inputs are made: one that fails is made again with the same seed.
    #[arg(long)]
    seed: Option<u64>,
    /// A folder of inputs to start from, with a folder for each target; those with a new outcome are added.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Where inputs that fail are put; a folder among the system's temporary files, if none is named.
    #[arg(long)]
    failures: Option<PathBuf>,
    /// Runs one input from a file, and lets it fail as it does.
    #[arg(long, conflicts_with = "corpus")]
    input: Option<PathBuf>,
    /// Runs a session in this process, which notes its inputs here.
    #[arg(long, hide = true)]
    state: Option<PathBuf>,
    /// Lists the targets.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        targets::NAMES.iter().for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let all: Vec<String> = targets::NAMES.iter().map(|name| (*name).to_owned()).collect();
    let names = if arguments.targets.is_empty() { &all } else { &arguments.targets };
    for name in names {
        if !targets::NAMES.contains(&name.as_str()) {
            bail!("there is no target called `{name}`: {}", targets::NAMES.join(", "));
        }
    }
    let mut failed = false;
    for name in names {
        failed |= match (&arguments.input, &arguments.state) {
            (Some(input), _) => replay(name, input)?,
            (None, Some(state)) => run(name, &arguments, state)?,
            (None, None) => watched(name, &arguments)?,
        };
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// On a thread with as little stack as readers may count on.
fn with_target<T: Send>(name: &str, work: impl FnOnce(&mut dyn Target) -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let work = || targets::by_name(name).map(|mut target| work(&mut *target));
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
        let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.with_context(|| format!("there is no target called `{name}`"))
    })
}

fn replay(name: &str, path: &Path) -> Result<bool> {
    let input = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    with_target(name, |target| {
        let mut progress = Progress::new(target.stages());
        let ((), bytes) = memory::peak(|| target.run(&input, &mut progress));
        let past = &target.stages()[..progress.reached()];
        println!("{name}: {} bytes, past [{}], {} KiB", input.len(), past.join(", "), bytes >> 10);
    })?;
    Ok(false)
}

fn seed_of(arguments: &Arguments) -> u64 {
    // Another one each second, and short enough to be typed.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    arguments.seed.unwrap_or(now.as_secs())
}

fn failures_of(arguments: &Arguments) -> PathBuf {
    arguments.failures.clone().unwrap_or_else(|| std::env::temp_dir().join("dala-fuzz-failures"))
}

/// How long each target is tried.
fn time_of(arguments: &Arguments) -> Duration {
    if arguments.short { SHORT_LIMIT } else { Duration::from_secs_f64(arguments.seconds) }
}

fn run(name: &str, arguments: &Arguments, state: &Path) -> Result<bool> {
    let options = |target: &dyn Target| session::Options {
        time: time_of(arguments),
        inputs: arguments.short.then(|| target.short()),
        seed: seed_of(arguments),
        corpus: arguments.corpus.as_ref().map(|folder| folder.join(name)),
        failures: failures_of(arguments),
        state: Some(state.to_owned()),
        first_failure: false,
    };
    let report = with_target(name, |target| {
        let options = options(target);
        session::run(target, &options)
    })??;
    println!("{report}");
    let useless = report.accepted() == 0 && report.inputs > 10_000;
    if useless {
        println!("  FAILED: nothing was accepted, so that nothing was tried");
    }
    Ok(useless || !report.failures.is_empty())
}

fn watched(name: &str, arguments: &Arguments) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let failures = failures_of(arguments);
    let watched =
        watch::Watched { target: name, time: time_of(arguments), seed: seed_of(arguments), failures: &failures };
    let command = |seconds: f64, seed: u64, state: &Path| {
        let mut command = Command::new(&program);
        command.arg(name).args(["--seed", &seed.to_string()]);
        match arguments.short {
            true => command.arg("--short"),
            false => command.args(["--seconds", &seconds.to_string()]),
        };
        command.arg("--failures").arg(&failures).arg("--state").arg(state);
        if let Some(corpus) = &arguments.corpus {
            command.arg("--corpus").arg(corpus);
        }
        command
    };
    let seen = watch::watch(&watched, command)?;
    seen.ends.iter().for_each(|failure| println!("{name}\n{failure}"));
    Ok(seen.failed || !seen.ends.is_empty())
}
