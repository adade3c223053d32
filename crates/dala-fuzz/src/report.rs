//! What a session found, for people to judge.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A kind of failure: inputs that fail in the same place are one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What happened, and where: the same for inputs that fail alike.
    pub what: String,
    /// The first input that did, made smaller where that could be done.
    pub input: PathBuf,
    /// The seed of the session.
    pub seed: u64,
    /// How many inputs did.
    pub count: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { what, input, seed, count } = self;
        write!(f, "  FAILED ({count} times, seed {seed}): {what}\n    input: {}", input.display())
    }
}

/// What became of the inputs of a session.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The target.
    pub target: &'static str,
    /// How long it took.
    pub time: Duration,
    /// How many inputs there were.
    pub inputs: usize,
    /// How many came past each stage.
    pub past: Vec<(&'static str, usize)>,
    /// How many different outcomes there were.
    pub outcomes: usize,
    /// The longest that an input took.
    pub slowest: Duration,
    /// The most memory that an input took, in bytes.
    pub largest: usize,
    /// Failures, one of each kind.
    pub failures: Vec<Failure>,
}

impl Report {
    /// How many inputs came past the last stage.
    pub fn accepted(&self) -> usize {
        self.past.last().map_or(0, |(_, count)| *count)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64().max(1e-9);
        let percent = |count: usize| 100.0 * count as f64 / self.inputs.max(1) as f64;
        writeln!(
            f,
            "{:11} {} inputs in {seconds:.1} s, {:.0} per second, {:.1} % accepted, {} outcomes, slowest {} ms, largest {} KiB, {} failed",
            self.target,
            self.inputs,
            self.inputs as f64 / seconds,
            percent(self.accepted()),
            self.outcomes,
            self.slowest.as_millis(),
            self.largest >> 10,
            self.failures.iter().map(|failure| failure.count).sum::<usize>(),
        )?;
        let past = |(stage, count): &(&str, usize)| format!("{stage} {count} ({:.1} %)", percent(*count));
        write!(f, "            past {}", self.past.iter().map(past).collect::<Vec<_>>().join(", "))?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n{failure}"))
    }
}
