//! Rows of tables, for readers and for programs.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use crate::settings::Settings;
use crate::simulation::callers::How;
use crate::simulation::figures::{Figures, PART, percentile};
use crate::simulation::{SECOND, Scenario};

/// The columns of every table.
const COLUMNS: [&str; 18] = [
    "what",
    "nodes",
    "callers",
    "load %",
    "how",
    "asked",
    "answered",
    "in time/s",
    "refused %",
    "repeated %",
    "came again %",
    "in doubt",
    "lost",
    "doubled",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "note",
];

/// The columns of a time line.
const LINE: &str = "what,nodes,how,second,in time/s,refused/s,p50 ms,p99 ms";

pub(crate) struct Rows {
    pub(crate) settings: Settings,
    line: Option<File>,
}

fn problem(error: std::io::Error) -> String {
    format!("the time line cannot be written: {error}")
}

impl Rows {
    pub(crate) fn new(settings: Settings) -> Result<Rows, String> {
        let mut line = settings.line.as_ref().map(File::create).transpose().map_err(problem)?;
        if let Some(file) = &mut line {
            writeln!(file, "{LINE}").map_err(problem)?;
        }
        Ok(Rows { settings, line })
    }

    /// How many nodes there are, one after the other.
    pub(crate) fn sizes(&self, usual: &[usize]) -> Vec<usize> {
        let own = &self.settings.nodes;
        if own.is_empty() { usual } else { own }.to_vec()
    }

    /// How much is asked, one after the other, of what all devices can do.
    pub(crate) fn loads(&self, usual: &[f64]) -> Vec<f64> {
        let own = &self.settings.load;
        if own.is_empty() { usual.to_vec() } else { own.iter().map(|percent| percent / 100.0).collect() }
    }

    /// The ways to choose that are compared.
    pub(crate) fn ways(&self) -> &[How] {
        if self.settings.how.is_empty() { &How::ALL } else { &self.settings.how }
    }

    /// Every size with every way.
    pub(crate) fn sizes_and_ways(&self, usual: &[usize]) -> Vec<(usize, How)> {
        self.sizes(usual).into_iter().flat_map(|nodes| self.ways().iter().map(move |how| (nodes, *how))).collect()
    }

    /// Rows for programs have one head for all tables, and those of the agreement their own.
    pub(crate) fn head_of_all(&self) {
        if self.settings.csv && self.settings.names != ["agree"] {
            println!("{}", COLUMNS.join(","));
        }
    }

    pub(crate) fn head(&self, name: &str) {
        if !self.settings.csv && name != "agree" {
            println!("\n{name}\n\n| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        }
    }

    fn print(&self, cells: &[String]) {
        match self.settings.csv {
            true => println!("{}", cells.join(",")),
            false => println!("| {} |", cells.join(" | ")),
        }
    }

    /// Runs a scenario, and prints what became of it.
    pub(crate) fn add(&self, what: &str, scenario: Scenario, note: impl Fn(&Figures) -> String) {
        let scenario = self.settings.apply(scenario);
        let started = Instant::now();
        let figures = scenario.run();
        let wall = started.elapsed().as_secs_f64();
        if let Err(error) = self.write_line(what, &scenario, &figures) {
            eprintln!("{}", problem(error));
        }
        let note = note(&figures);
        self.print(&[
            what.to_owned(),
            scenario.nodes.to_string(),
            scenario.callers.to_string(),
            format!("{:.0}", scenario.load * 100.0),
            scenario.how.name().to_owned(),
            figures.asked.to_string(),
            figures.answered.to_string(),
            format!("{:.0}", figures.goodput()),
            format!("{:.2}", figures.percent(figures.refused)),
            format!("{:.2}", figures.percent(figures.repeated)),
            format!("{:.1}", figures.percent(figures.returned)),
            figures.in_doubt.to_string(),
            figures.lost.to_string(),
            figures.doubled.to_string(),
            format!("{:.1}", figures.percentile(500)),
            format!("{:.1}", figures.percentile(990)),
            format!("{:.1}", figures.percentile(999)),
            if note.is_empty() { format!("{} events in {wall:.1} s", figures.events) } else { note },
        ]);
    }

    /// A row for each part of the time that a scenario has, if somebody wants them.
    fn write_line(&self, what: &str, scenario: &Scenario, figures: &Figures) -> std::io::Result<()> {
        let Some(mut file) = self.line.as_ref() else { return Ok(()) };
        let part_seconds = PART as f64 / SECOND as f64;
        for (number, part) in figures.line.iter().enumerate() {
            writeln!(
                file,
                "{what},{},{},{:.1},{:.0},{:.0},{:.1},{:.1}",
                scenario.nodes,
                scenario.how.name(),
                number as f64 * part_seconds,
                f64::from(part.in_time) / part_seconds,
                f64::from(part.refused) / part_seconds,
                percentile(&part.took, 500),
                percentile(&part.took, 990),
            )?;
        }
        Ok(())
    }

    pub(crate) fn head_of_agreement(&self) {
        println!("nodes,load,asked,answered,refused,p50_ms,p99_ms,per_second");
    }

    /// Runs a scenario, and prints it as a real cluster is measured.
    pub(crate) fn add_to_agreement(&self, scenario: Scenario) {
        let scenario = self.settings.apply(scenario);
        let figures = scenario.run();
        println!(
            "{},{:.0},{},{},{},{:.1},{:.1},{:.1}",
            scenario.nodes,
            scenario.load * 100.0,
            figures.asked,
            figures.answered,
            figures.refused,
            figures.percentile(500),
            figures.percentile(990),
            figures.answered as f64 / figures.seconds,
        );
    }
}
