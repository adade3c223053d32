//! Faults on purpose, for people who try servers and clusters: a device that is lost, slow, out of memory or wrong when they say
//! so, from outside of the process.
//!
//! The environment variable `DALA_FAULTS` names a file, which is read again whenever it is written. Each line is a fault that is
//! there as long as the line is:
//!
//! - `lost`: the device is lost at the next run, once for each time that the file is written; a device that is opened after it works.
//! - `gone`: the device is lost, and none can be opened.
//! - `slow 20ms`: the device takes so much longer for everything that it is handed.
//! - `pace 2KB/s`: it writes no more than so much in a second. With `slow` it is any device whose times are known, without the processor's work.
//! - `full`: there is no memory for anything new.
//! - `wrong`: what is read back is not what was computed.
//!
//! Also, whatever the file says: a run that reads an input with the bytes [`POISON`] in it fails.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use dala_plan::DeviceFacts;
use dala_spec::Data;

use super::error::EngineError;
use super::interface::{Engine, Synchronisation};
#[cfg(feature = "graphics")]
use super::interop::{Graphics, Place};
use super::launch::{Launch, Memory, Sequence};
#[cfg(test)]
use super::tests;

/// An input that holds these bytes makes the run fail that reads it.
const POISON: [u8; 16] = *b"POISONPOISONPOIS";

/// Whether an adapter can be opened; if not, why.
pub(super) fn openable() -> Result<(), String> {
    if told().is_some_and(|told| told.now().gone) { Err("it is gone, as asked".to_owned()) } else { Ok(()) }
}

/// Wraps an engine, if faults were asked for.
pub(super) fn wrapped(inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
    let Some(told) = told() else { return inner };
    Arc::new(FaultyEngine { inner, told, lost: AtomicBool::new(false), poisoned: Mutex::default() })
}

fn lost() -> EngineError {
    EngineError::DeviceLost { message: "as asked".to_owned() }
}

/// What the file says, for all devices of the process.
struct Told {
    file: PathBuf,
    read: Mutex<(Option<Stamp>, Faults)>,
}

type Stamp = (SystemTime, u64);

#[derive(Clone, Copy, Default)]
struct Faults {
    lost: bool,
    gone: bool,
    full: bool,
    wrong: bool,
    slow: Duration,
    /// Seconds for each byte that is written.
    pace: f64,
}

fn told() -> Option<&'static Told> {
    static TOLD: OnceLock<Option<Told>> = OnceLock::new();
    let open = || std::env::var_os("DALA_FAULTS").map(|file| Told { file: file.into(), read: Mutex::default() });
    TOLD.get_or_init(open).as_ref()
}

impl Told {
    fn read(&self) -> MutexGuard<'_, (Option<Stamp>, Faults)> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at by one at a time: what is newer would be taken for another if it were looked at first.
        let stamp = self.file.metadata().and_then(|data| Ok((data.modified()?, data.len()))).ok();
        if read.0 != stamp {
            let text = std::fs::read_to_string(&self.file).unwrap_or_default();
            *read = (stamp, Faults::parse(&text));
        }
        read
    }

    fn now(&self) -> Faults {
        self.read().1
    }

    /// Whether the device is to be lost now; whoever asks first is told.
    fn loses(&self) -> bool {
        std::mem::take(&mut self.read().1.lost)
    }
}

impl Faults {
    /// Lines that are no fault are remarks.
    fn parse(text: &str) -> Faults {
        let mut faults = Faults::default();
        for line in text.lines() {
            match line.trim() {
                "lost" => faults.lost = true,
                "gone" => faults.gone = true,
                "full" => faults.full = true,
                "wrong" => faults.wrong = true,
                other => {
                    let number = |name, unit| {
                        let number = other.strip_prefix(name)?.trim().strip_suffix(unit)?.parse::<f64>().ok()?;
                        Some(number).filter(|number| (0.001..1e9).contains(number))
                    };
                    faults.slow +=
                        number("slow ", "ms").map_or(Duration::ZERO, |time| Duration::from_secs_f64(time / 1e3));
                    faults.pace += number("pace ", "KB/s").map_or(0.0, |rate| 1e-3 / rate);
                }
            }
        }
        faults
    }
}

impl Faults {
    /// What these take longer than on a device without faults.
    fn time_for(&self, sequences: &[Arc<Sequence>]) -> Duration {
        if self.pace == 0.0 {
            return self.slow;
        }
        let launches = sequences.iter().flat_map(|sequence| sequence.launches());
        let written: u64 = launches.flat_map(|launch| &launch.outputs).map(|output| output.capacity).sum();
        self.slow + Duration::from_secs_f64((written as f64 * self.pace).min(3600.0))
    }
}

struct FaultyEngine {
    inner: Arc<dyn Engine>,
    told: &'static Told,
    lost: AtomicBool,
    /// Memory that holds a poisoned input.
    poisoned: Mutex<Vec<Weak<dyn std::any::Any + Send + Sync>>>,
}

impl FaultyEngine {
    /// What fails now, unless the device is lost.
    fn faults(&self) -> Result<Faults, EngineError> {
        let faults = self.told.now();
        if faults.gone {
            self.lost.store(true, Ordering::SeqCst);
        }
        if self.lost.load(Ordering::SeqCst) { Err(lost()) } else { Ok(faults) }
    }

    fn mark(&self, memory: &Memory, poisoned: bool) {
        let mut marked = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        marked.retain(|other| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, &memory.inner)));
        if poisoned {
            marked.push(Arc::downgrade(&memory.inner));
        }
    }

    fn is_poisoned(&self, memory: &Memory) -> bool {
        let marked = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        marked.iter().any(|other| std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(&memory.inner)))
    }

    /// Whether these launches come to their end.
    fn check(&self, launches: &[Arc<Launch>]) -> Result<(), EngineError> {
        let reads = |launch: &Arc<Launch>| launch.reads.iter().any(|read| self.is_poisoned(read));
        if launches.iter().any(reads) {
            return Err(EngineError::internal("a poisoned input, as asked"));
        }
        if !self.poisoned.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            // What is written over is not poisoned any more.
            launches.iter().flat_map(|launch| &launch.outputs).for_each(|output| self.mark(output, false));
        }
        Ok(())
    }
}

fn has_poison(data: &[u8]) -> bool {
    data.windows(POISON.len()).step_by(4).any(|window| window == POISON)
}

/// A wait that ends with the same answer for all.
struct Failed(EngineError, usize);

impl Synchronisation for Failed {
    fn wait(self: Box<Self>) -> Vec<Result<(), EngineError>> {
        vec![Err(self.0); self.1]
    }
}

impl Engine for FaultyEngine {
    fn facts(&self) -> &DeviceFacts {
        self.inner.facts()
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, EngineError> {
        if self.faults()?.full {
            return Err(EngineError::OutOfMemory { wanted: bytes, budget: 0, live: 0 });
        }
        self.inner.allocate(bytes)
    }

    fn adopt(&self, data: &Arc<Data>) -> Option<Memory> {
        self.faults().ok().filter(|faults| !faults.full)?;
        let memory = self.inner.adopt(data)?;
        self.mark(&memory, has_poison(&data.to_bytes()));
        Some(memory)
    }

    fn upload(&self, memory: &Memory, data: &[u8]) -> Result<(), EngineError> {
        self.faults()?;
        self.mark(memory, has_poison(data));
        self.inner.upload(memory, data)
    }

    fn download(&self, memory: &Memory, into: &mut [u8]) -> Result<(), EngineError> {
        let faults = self.faults()?;
        self.inner.download(memory, into)?;
        if faults.wrong {
            into.iter_mut().take(1).for_each(|byte| *byte ^= 1);
        }
        Ok(())
    }

    fn run(&self, sequences: &[Arc<Sequence>]) -> Vec<Result<(), EngineError>> {
        if self.told.loses() {
            self.lost.store(true, Ordering::SeqCst);
        }
        match self.faults() {
            Ok(faults) => std::thread::sleep(faults.time_for(sequences)),
            Err(error) => return vec![Err(error); sequences.len()],
        }
        let one = |sequence: &Arc<Sequence>| {
            self.check(sequence.launches())?;
            self.inner
                .run(std::slice::from_ref(sequence))
                .pop()
                .unwrap_or_else(|| Err(EngineError::internal("no answer")))
        };
        sequences.iter().map(one).collect()
    }

    fn profile(&self, launch: &Arc<Launch>) -> Result<Duration, EngineError> {
        self.faults()?;
        self.check(std::slice::from_ref(launch))?;
        self.inner.profile(launch)
    }

    fn foresee(&self, launches: &[Arc<Launch>]) {
        self.inner.foresee(launches);
    }

    fn build(&self, launches: &[Arc<Launch>]) -> Vec<Result<(), EngineError>> {
        self.inner.build(launches)
    }

    fn synchronise(&self, outputs: Vec<Memory>) -> Box<dyn Synchronisation> {
        match self.faults() {
            Ok(_) => self.inner.synchronise(outputs),
            Err(error) => Box::new(Failed(error, outputs.len())),
        }
    }

    fn overlaps(&self) -> bool {
        self.inner.overlaps()
    }

    #[cfg(feature = "graphics")]
    fn graphics(&self) -> Option<&Graphics> {
        self.inner.graphics()
    }

    #[cfg(feature = "graphics")]
    fn place(&self, memory: &Memory, act: &mut dyn FnMut(Place<'_>)) -> Result<(), EngineError> {
        self.faults()?;
        self.inner.place(memory, act)
    }

    fn reserved_bytes(&self) -> Result<u64, EngineError> {
        self.inner.reserved_bytes()
    }

    fn trim(&self) -> Result<(), EngineError> {
        self.inner.trim()
    }

    fn compilations(&self) -> u64 {
        self.inner.compilations()
    }

    fn found(&self) -> u64 {
        self.inner.found()
    }

    fn launches(&self) -> u64 {
        self.inner.launches()
    }

    #[cfg(test)]
    fn launch_faulty(&self, output: &Memory, fault: tests::Fault) -> Result<(), EngineError> {
        self.inner.launch_faulty(output, fault)
    }
}
