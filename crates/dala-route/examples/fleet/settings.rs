//! What is said on the command line.

use std::time::Duration;

use crate::simulation::callers::How;
use crate::simulation::{MILLI, Scenario};

/// Each is a word and a value, such as `--callers 16`.
#[derive(Default)]
pub(crate) struct Settings {
    /// The tables that are wanted; the usual ones if none is named.
    pub(crate) names: Vec<String>,
    /// `--csv`: rows for programs.
    pub(crate) csv: bool,
    /// `--line line.csv`: a file for rows of each tenth of a second.
    pub(crate) line: Option<String>,
    /// `--nodes 8,100`: instead of the sizes that a table has.
    pub(crate) nodes: Vec<usize>,
    /// `--load 80,120`: percent of what all devices can do, instead of the loads that a table has.
    pub(crate) load: Vec<f64>,
    /// `--how ours,random`: which ways to choose are compared; all if none is named.
    pub(crate) how: Vec<How>,
    /// `--callers 16`: nodes that ask, each with a router of its own.
    callers: Option<usize>,
    /// `--people 50`: those whom requests are of, and who have turns at every node.
    people: Option<u64>,
    /// `--closed 16`: of a closed loop, callers for each node.
    pub(crate) closed: usize,
    /// `--delay 0.15`: milliseconds that a message takes, one way.
    delay: Option<f64>,
    /// `--runs 1:8.9,2:17`: milliseconds that a run takes, by its size.
    runs: Option<Vec<(u32, f64)>>,
    /// `--longer 1`: milliseconds that every run takes longer than that. Loads are shares of what there would be without.
    longer: Option<f64>,
    /// `--spread 0`: how many percent longer or shorter a run may be.
    spread: Option<f64>,
    /// `--deadline 300`: milliseconds after which an answer is of no use.
    deadline: Option<f64>,
    /// `--pure 100`: of a hundred requests, how many may be run twice.
    pure: Option<u64>,
    /// `--warm 1`: for how many seconds requests come that do not count.
    warm: Option<f64>,
    /// `--seconds 60`: for how many seconds requests come after that.
    seconds: Option<f64>,
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no such number"))
}

fn way(text: &str) -> Result<How, String> {
    let found = How::ALL.into_iter().find(|how| how.name() == text);
    found.ok_or(format!("`{text}` is none of {}", How::ALL.map(How::name).join(", ")))
}

fn run(text: &str) -> Result<(u32, f64), String> {
    let (size, ms) = text.split_once(':').ok_or(format!("`{text}` is not like 8:64"))?;
    Ok((number(size)?, number(ms)?))
}

impl Settings {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Settings, String> {
        let mut settings = Settings { closed: 16, ..Settings::default() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--csv" => settings.csv = true,
                option if option.starts_with("--") => {
                    let value = words.next().ok_or(format!("{option} needs a value"))?;
                    settings.set(option, &value)?;
                }
                _ => settings.names.push(word),
            }
        }
        Ok(settings)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--line" => self.line = Some(value.to_owned()),
            "--nodes" => self.nodes = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--load" => self.load = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--how" => self.how = value.split(',').map(way).collect::<Result<_, _>>()?,
            "--callers" => self.callers = Some(number(value)?),
            "--people" => self.people = Some(number(value)?),
            "--closed" => self.closed = number(value)?,
            "--delay" => self.delay = Some(number(value)?),
            "--runs" => self.runs = Some(value.split(',').map(run).collect::<Result<_, _>>()?),
            "--longer" => self.longer = Some(number(value)?),
            "--spread" => self.spread = Some(number(value)?),
            "--deadline" => self.deadline = Some(number(value)?),
            "--pure" => self.pure = Some(number(value)?),
            "--warm" => self.warm = Some(number(value)?),
            "--seconds" => self.seconds = Some(number(value)?),
            _ => return Err(format!("there is no setting {option}")),
        }
        Ok(())
    }

    /// Whether a table is to be printed.
    pub(crate) fn wants(&self, name: &str, usual: bool) -> bool {
        if self.names.is_empty() { usual } else { self.names.iter().any(|own| own == name) }
    }

    /// A scenario as the settings have it.
    pub(crate) fn apply(&self, mut scenario: Scenario) -> Scenario {
        let nanos = |ms: f64| (ms * MILLI as f64) as u64;
        let table = &mut scenario.table;
        if let Some(runs) = &self.runs {
            table.runs = runs.clone().into();
        }
        table.longer = self.longer.unwrap_or(table.longer);
        table.spread = self.spread.map_or(table.spread, |percent| percent / 100.0);
        table.useful = self.deadline.map_or(table.useful, |ms| Duration::from_nanos(nanos(ms)));
        scenario.callers = self.callers.unwrap_or(scenario.callers).max(1);
        scenario.people = self.people.unwrap_or(scenario.people).max(1);
        scenario.latency = self.delay.map_or(scenario.latency, nanos);
        scenario.pure_percent = self.pure.unwrap_or(scenario.pure_percent);
        let counted = self.seconds.map_or(scenario.until - scenario.warm, |seconds| nanos(seconds * 1e3));
        scenario.warm = self.warm.map_or(scenario.warm, |seconds| nanos(seconds * 1e3));
        scenario.until = scenario.warm + counted;
        scenario
    }
}
