//! What is counted.

use super::{MILLI, SECOND};

/// The length of a part of the time line.
pub(crate) const PART: u64 = 100 * MILLI;

/// What callers were told in a part of the time line, however early they asked.
#[derive(Clone, Default)]
pub(crate) struct Part {
    pub(crate) in_time: u32,
    pub(crate) refused: u32,
    /// Of all answers, in microseconds.
    pub(crate) took: Vec<u32>,
}

/// What became of the requests that were asked after the fleet was warm.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// Those that were answered before their deadline.
    pub(crate) in_time: u64,
    /// Those that were told at last that nobody answers.
    pub(crate) refused: u64,
    /// Of these, those that may have been run, and must not be run twice.
    pub(crate) in_doubt: u64,
    /// How often requests were sent again.
    pub(crate) repeated: u64,
    /// How often callers came again after they were refused.
    pub(crate) returned: u64,
    /// Requests that nobody was told anything about.
    pub(crate) lost: u64,
    /// Requests that were answered twice, or that were run twice and must not be.
    pub(crate) doubled: u64,
    /// Pure requests that were run twice.
    pub(crate) rerun: u64,
    /// Of those that were answered, in microseconds.
    pub(crate) took: Vec<u32>,
    /// What happened in each part of the time line, from the start.
    pub(crate) line: Vec<Part>,
    /// Runs of each node that were for something.
    pub(crate) nodes: Vec<u32>,
    pub(crate) seconds: f64,
    /// All that the simulation did.
    pub(crate) events: u64,
}

impl Figures {
    /// Answers in time in a second.
    pub(crate) fn goodput(&self) -> f64 {
        self.in_time as f64 / self.seconds
    }

    /// Milliseconds, after the times were put in order.
    pub(crate) fn percentile(&self, permille: usize) -> f64 {
        percentile(&self.took, permille)
    }

    /// The part of the time line that a moment is in.
    pub(crate) fn part(&mut self, now: u64) -> &mut Part {
        let part = (now / PART) as usize;
        if self.line.len() <= part {
            self.line.resize(part + 1, Part::default());
        }
        &mut self.line[part]
    }

    /// All times in order, as percentiles need them.
    pub(crate) fn sort(&mut self) {
        self.took.sort_unstable();
        self.line.iter_mut().for_each(|part| part.took.sort_unstable());
    }

    /// Seconds from a moment until answers come at this rate or better.
    pub(crate) fn seconds_until(&self, from: u64, rate: f64) -> f64 {
        let first = (from / PART) as usize;
        let parts = self.line.iter().skip(first);
        let part = PART as f64 / SECOND as f64;
        let below = parts.take_while(|count| f64::from(count.in_time) / part < rate).count();
        below as f64 * part
    }

    /// How much of its part of the work the first node did.
    pub(crate) fn of_first(&self) -> f64 {
        let all: u64 = self.nodes.iter().map(|count| u64::from(*count)).sum();
        let first = self.nodes.first().copied().unwrap_or(0);
        f64::from(first) * self.nodes.len() as f64 / all.max(1) as f64
    }

    pub(crate) fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.asked.max(1) as f64
    }
}

/// Milliseconds that so many of a thousand stay below, of microseconds in order.
pub(crate) fn percentile(took: &[u32], permille: usize) -> f64 {
    let place = (took.len() * permille / 1000).min(took.len().saturating_sub(1));
    took.get(place).map_or(0.0, |took| f64::from(*took) / 1e3)
}
