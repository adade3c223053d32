//! Gives a target inputs for some time.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{Failure, Mutator, Progress, Random, Report, Target, memory};

/// An input may take so long.
const TIME: Duration = Duration::from_secs(4);
/// And hold so many bytes at once.
const MEMORY: usize = 512 << 20;
/// Inputs that are kept to make others from, and their bytes.
const KEPT: usize = 4096;
const KEPT_BYTES: usize = 64 << 20;
/// An input that fails is made smaller for so long.
const SHRINKING: Duration = Duration::from_secs(3);

/// How a session goes.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it takes at most.
    pub time: Duration,
    /// How many inputs there are at most, beside those to start from.
    pub inputs: Option<usize>,
    /// Which inputs are made.
    pub seed: u64,
    /// A folder of inputs to start from; those with a new outcome are added to it.
    pub corpus: Option<PathBuf>,
    /// Where inputs that fail are put.
    pub failures: PathBuf,
    /// Where the input at hand is noted, for whoever watches this process.
    pub state: Option<PathBuf>,
    /// Whether the first failure is enough.
    pub first_failure: bool,
}

/// Gives a target inputs until there were enough, or the time is over.
///
/// # Errors
///
/// A folder or file of the options cannot be read or written.
pub fn run(target: &mut dyn Target, options: &Options) -> Result<Report> {
    let mut session = Session::new(target, options)?;
    let mut random = Random::new(options.seed);
    for input in session.first_inputs()? {
        session.try_input(input)?;
    }
    let enough = |report: &Report| options.first_failure && !report.failures.is_empty();
    for _ in 0..options.inputs.unwrap_or(usize::MAX) {
        if session.start.elapsed() >= options.time || enough(&session.report) {
            break;
        }
        let input = session.next_input(&mut random);
        session.try_input(input)?;
    }
    session.report.time = session.start.elapsed();
    session.report.outcomes = session.outcomes.len();
    Ok(session.report)
}

struct Session<'a> {
    target: &'a mut dyn Target,
    options: &'a Options,
    mutator: Mutator,
    start: Instant,
    corpus: Vec<Vec<u8>>,
    corpus_bytes: usize,
    outcomes: HashSet<u64>,
    state: Option<File>,
    report: Report,
}

impl<'a> Session<'a> {
    fn new(target: &'a mut dyn Target, options: &'a Options) -> Result<Session<'a>> {
        listen_to_panics();
        let create = |path: &PathBuf| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let stages = target.stages().iter().map(|stage| (*stage, 0)).collect();
        Ok(Session {
            mutator: Mutator::new(&target.words()),
            start: Instant::now(),
            corpus: Vec::new(),
            corpus_bytes: 0,
            outcomes: HashSet::new(),
            state: options.state.as_ref().map(create).transpose()?,
            report: Report { target: target.name(), past: stages, ..Report::default() },
            target,
            options,
        })
    }

    /// The target's own seeds, and those of the folder.
    fn first_inputs(&self) -> Result<Vec<Vec<u8>>> {
        let mut inputs = self.target.seeds();
        if let Some(folder) = &self.options.corpus {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
            files.sort();
            for file in files.iter().filter(|file| file.is_file()) {
                inputs.push(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
            }
        }
        Ok(inputs)
    }

    fn next_input(&self, random: &mut Random) -> Vec<u8> {
        let generated = if random.chance(65) { self.target.generate(random) } else { None };
        // Most of what is generated stays whole, or little of it would get far.
        if let Some(input) = generated.clone().filter(|_| random.chance(80)) {
            return input;
        }
        let any = |random: &mut Random| match self.corpus.len() {
            0 => Vec::new(),
            len => self.corpus[random.below(len)].clone(),
        };
        let mut input = generated.unwrap_or_else(|| any(random));
        self.mutator.mutate(&mut input, &any(random), random);
        self.target.mend(&mut input, random);
        input
    }

    fn try_input(&mut self, input: Vec<u8>) -> Result<()> {
        if let Some(state) = &mut self.state {
            note(state, self.report.inputs, &input)?;
        }
        let ran = self.once(&input);
        self.report.inputs += 1;
        for (place, (_, count)) in self.report.past.iter_mut().enumerate() {
            *count += usize::from(place < ran.progress.reached());
        }
        self.report.slowest = self.report.slowest.max(ran.time);
        self.report.largest = self.report.largest.max(ran.memory);
        if let Some(what) = ran.panic {
            return self.failed(what, input, true);
        }
        let stage = match self.target.stages().get(ran.progress.reached()) {
            Some(stage) => format!("on the way to `{stage}`"),
            None => "in all".to_owned(),
        };
        if ran.memory > MEMORY {
            let what = format!("takes over {} MiB {stage}", MEMORY >> 20);
            return self.failed(what, input, false);
        }
        // Once more, by the time of this thread: other programs take time too.
        if ran.time > TIME && self.computing(&input) > TIME {
            let what = format!("takes over {} s {stage}", TIME.as_secs());
            return self.failed(what, input, false);
        }
        if self.outcomes.insert(ran.progress.outcome()) {
            self.keep(input)?;
        }
        Ok(())
    }

    /// Keeps an input to make others from.
    fn keep(&mut self, input: Vec<u8>) -> Result<()> {
        if let Some(folder) = &self.options.corpus {
            let path = folder.join(name_of(&input));
            fs::write(&path, &input).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.corpus.len() < KEPT && self.corpus_bytes + input.len() <= KEPT_BYTES {
            self.corpus_bytes += input.len();
            self.corpus.push(input);
        }
        Ok(())
    }

    fn once(&mut self, input: &[u8]) -> Ran {
        let mut progress = Progress::new(self.target.stages());
        let start = Instant::now();
        let work = || {
            CAUGHT.with(|caught| *caught.borrow_mut() = Some(String::new()));
            catch_unwind(AssertUnwindSafe(|| self.target.run(input, &mut progress)))
        };
        let (result, memory) = memory::peak(work);
        let time = start.elapsed();
        let panic = CAUGHT.with(|caught| caught.borrow_mut().take()).filter(|_| result.is_err());
        Ran { progress, time, memory, panic }
    }

    /// How long a processor works for an input.
    fn computing(&mut self, input: &[u8]) -> Duration {
        let before = processor_time();
        let wall = self.once(input).time;
        match (before, processor_time()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => wall,
        }
    }

    fn failed(&mut self, what: String, input: Vec<u8>, shrinks: bool) -> Result<()> {
        if let Some(known) = self.report.failures.iter_mut().find(|failure| failure.what == what) {
            known.count += 1;
            return Ok(());
        }
        let input = if shrinks { self.shrunk(&what, input) } else { input };
        let path = save(&self.options.failures, self.target.name(), &input)?;
        self.report.failures.push(Failure { what, input: path, seed: self.options.seed, count: 1 });
        Ok(())
    }

    /// The same failure from fewer bytes: parts are left out as long as it stays.
    fn shrunk(&mut self, what: &str, mut input: Vec<u8>) -> Vec<u8> {
        let start = Instant::now();
        let mut part = input.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < input.len() {
                if start.elapsed() > SHRINKING {
                    return input;
                }
                let mut shorter = input.clone();
                shorter.drain(at..(at + part).min(input.len()));
                match self.once(&shorter).panic {
                    Some(same) if same == what => input = shorter,
                    _ => at += part,
                }
            }
            part /= 2;
        }
        input
    }
}

struct Ran {
    progress: Progress,
    time: Duration,
    memory: usize,
    /// What a panic said, and where it was.
    panic: Option<String>,
}

/// How long this thread has been on a processor, where the system says.
fn processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Puts an input that fails into a folder.
///
/// # Errors
///
/// It cannot be written.
pub fn save(folder: &Path, target: &str, input: &[u8]) -> Result<PathBuf> {
    let path = folder.join(format!("{target}-{}", name_of(input)));
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(&path, input)
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The same name for the same input.
fn name_of(input: &[u8]) -> String {
    // FNV-1a: names stay the same with every version of Rust.
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The input at hand: how many came before it, its length, its bytes. Older, longer ones leave their ends behind it.
fn note(state: &mut File, count: usize, input: &[u8]) -> Result<()> {
    let mut bytes = Vec::with_capacity(16 + input.len());
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
    bytes.extend_from_slice(&(input.len() as u64).to_le_bytes());
    bytes.extend_from_slice(input);
    state.seek(SeekFrom::Start(0))?;
    Ok(state.write_all(&bytes)?)
}

/// How many inputs came before the one at hand, as noted in a file: inputs may be large, and are not read for this.
pub(crate) fn count(state: &Path) -> Option<u64> {
    let mut count = [0; 8];
    File::open(state).ok()?.read_exact(&mut count).ok()?;
    Some(u64::from_le_bytes(count))
}

/// The input at hand, as noted in a file.
pub(crate) fn noted(bytes: &[u8]) -> Option<&[u8]> {
    let (_count, rest) = bytes.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

thread_local! {
    /// While an input runs: what its panic says.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of inputs are written down instead of printed; all others are printed as before.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let mine = CAUGHT.with(|caught| match &mut *caught.borrow_mut() {
                Some(text) => {
                    let place = info.location().map_or_else(|| "?".to_owned(), ToString::to_string);
                    // The first line says which it is; the rest is often the input.
                    let message = info.payload_as_str().unwrap_or("a panic");
                    let digits = |c: char| c.is_ascii_digit();
                    let kind: String = message.lines().next().unwrap_or_default().replace(digits, "#");
                    *text = format!("panics at {place}: {}", kind.chars().take(160).collect::<String>());
                    true
                }
                None => false,
            });
            if !mine {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_back() {
        let path = std::env::temp_dir().join(format!("dala-fuzz-state-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        note(&mut file, 7, b"a longer input").unwrap();
        note(&mut file, 8, b"short").unwrap();
        assert_eq!((count(&path), noted(&fs::read(&path).unwrap())), (Some(8), Some(&b"short"[..])));
        fs::remove_file(&path).unwrap();
        assert_eq!(noted(b"too short"), None);
    }
}
