//! What is given hostile input.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::Random;

/// Something that reads what others wrote.
pub trait Target {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// How far an input may come, in order; it is accepted if it comes past the last.
    fn stages(&self) -> &'static [&'static str];

    /// Inputs to start from.
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// What the language of its inputs is made of.
    fn words(&self) -> Vec<&'static str>;

    /// How many inputs it reads in some ten seconds.
    fn short(&self) -> usize;

    /// A new input that goes far; none if bytes that are mutated go far enough.
    fn generate(&self, _random: &mut Random) -> Option<Vec<u8>> {
        None
    }

    /// Puts right what every mutation breaks, such as checksums.
    fn mend(&self, _bytes: &mut Vec<u8>, _random: &mut Random) {}

    /// Reads an input, and says on the way how far it came. A panic is a failure, whatever the input is.
    fn run(&mut self, input: &[u8], progress: &mut Progress);
}

/// How far an input came, and what it came to.
#[derive(Clone, Debug)]
pub struct Progress {
    stages: &'static [&'static str],
    /// How many stages it came past.
    reached: usize,
    outcome: DefaultHasher,
}

impl Progress {
    /// Nothing reached yet of these stages.
    pub fn new(stages: &'static [&'static str]) -> Progress {
        Progress { stages, reached: 0, outcome: DefaultHasher::new() }
    }

    /// The input came past this stage.
    pub fn past(&mut self, stage: &str) {
        match self.stages.iter().position(|own| *own == stage) {
            Some(place) => self.reached = self.reached.max(place + 1),
            None => unreachable!("there is no stage {stage}"),
        }
    }

    /// Something by which outcomes differ: inputs with a new one are kept.
    pub fn note(&mut self, what: impl Hash) {
        what.hash(&mut self.outcome);
    }

    /// The kind of a message: all of it but numbers and what is quoted, which are the input's own.
    pub fn note_message(&mut self, message: &str) {
        let mut quoted = false;
        for c in message.lines().next().unwrap_or_default().chars() {
            quoted ^= c == '`';
            if !quoted && !c.is_ascii_digit() {
                c.hash(&mut self.outcome);
            }
        }
    }

    /// How many stages it came past.
    pub fn reached(&self) -> usize {
        self.reached
    }

    /// Whether it came past all of them.
    pub fn is_accepted(&self) -> bool {
        self.reached == self.stages.len()
    }

    /// The same for inputs that came to the same.
    pub fn outcome(&self) -> u64 {
        let mut outcome = self.outcome.clone();
        self.reached.hash(&mut outcome);
        outcome.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_differ_by_stage_and_by_kind_of_message() {
        let outcome = |stage: Option<&str>, message: &str| {
            let mut progress = Progress::new(&["read", "run"]);
            if let Some(stage) = stage {
                progress.past(stage);
            }
            progress.note_message(message);
            progress.outcome()
        };
        assert_eq!(outcome(None, "`a` is 3"), outcome(None, "`bc` is 17\nand more"));
        assert_ne!(outcome(None, "`a` is 3"), outcome(None, "`a` was 3"));
        assert_ne!(outcome(None, "x"), outcome(Some("read"), "x"));
    }
}
