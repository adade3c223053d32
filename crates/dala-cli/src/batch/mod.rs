//! Many pictures through one pipeline: reading, computing and writing overlap.
//!
//! Threads that decode hand pictures to threads that each keep one of them on the device, and those to threads that
//! encode. A picture takes a place before it is read and gives it back when it is written, so that only so many are in
//! memory, however fast one side is.

mod files;
mod progress;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use dala_compute::{Buffer, Device, TensorType};
use dala_image::{Dropped, RawLayout};

use crate::args::INPUT;
use crate::args::Progress;
use crate::output::{self, Outcome};
use crate::picture::{self, HostPicture};
use crate::source::{OUTPUT, Ready, Source, summary};

pub(crate) use files::{Job, expand, in_folder, is_batch, jobs, prepare_folder};

/// Pictures that are on the device at once: one computes while another comes or goes.
const ON_DEVICE: usize = 2;
/// Plans that are kept, each with the buffers for pictures of one size.
const KEPT_PLANS: usize = 8;

/// A pipeline, and what is done by it.
pub(crate) struct Batch<'a> {
    pub(crate) source: &'a Source,
    pub(crate) device: &'a Device,
    /// The buffers that are written.
    pub(crate) results: &'a [&'a str],
    pub(crate) jobs: &'a [Job],
    /// How pictures lie that do not say it.
    pub(crate) raw: Option<RawLayout>,
}

/// What became of a batch.
pub(crate) struct Done {
    pub(crate) seconds: f64,
    /// Pictures by number, and what was wrong with them.
    pub(crate) failures: Vec<(usize, String)>,
    /// Why colour profiles got lost, and how many.
    dropped: BTreeMap<Dropped, usize>,
    /// What one of the plans comes to.
    pub(crate) plan: Option<String>,
    /// Of all threads together.
    times: Times,
}

/// How long each kind of work took, in nanoseconds.
#[derive(Default)]
struct Times {
    decode: AtomicU64,
    device: AtomicU64,
    encode: AtomicU64,
}

/// A picture on its way, by the number of its job.
struct Passing<T>(usize, T);

/// What the threads share.
#[derive(Default)]
struct Shared {
    times: Times,
    failures: Mutex<Vec<(usize, String)>>,
    dropped: Mutex<BTreeMap<Dropped, usize>>,
    plans: Mutex<VecDeque<(TensorType, Ready)>>,
    plan: Mutex<Option<String>>,
}

impl Batch<'_> {
    /// Does all jobs. `done` is called for each that ended, well or not.
    pub(crate) fn run(&self, done: &(dyn Fn() + Sync)) -> Result<Done> {
        let start = Instant::now();
        let given = self.source.upload(self.device)?;
        let shared = Shared::default();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(self.jobs.len().max(1));
        let next = AtomicUsize::new(0);
        let (take, places) = sync_channel::<()>(threads + ON_DEVICE + 1);
        let places = Mutex::new(places);
        let end = |job: usize, result: Result<()>| {
            if let Err(error) = result {
                lock(&shared.failures).push((job, format!("{error:#}")));
            }
            // Whoever waits for a place has it now.
            let _ = lock(&places).recv();
            done();
        };
        let (decoded, to_compute) = channel::<Passing<HostPicture>>();
        let (computed, to_encode) = channel::<Passing<Vec<HostPicture>>>();
        let (to_compute, to_encode) = (Mutex::new(to_compute), Mutex::new(to_encode));
        thread::scope(|scope| {
            for _ in 0..threads {
                let (take, decoded) = (take.clone(), decoded.clone());
                scope.spawn(|| self.decode(&next, take, decoded, &shared, &end));
                scope.spawn(|| self.encode(&to_encode, &shared, &end));
            }
            for _ in 0..ON_DEVICE {
                let computed = computed.clone();
                scope.spawn(|| self.compute(&given, &to_compute, computed, &shared, &end));
            }
            // Each kind of thread ends when the kind before it has.
            drop((take, decoded, computed));
        });
        let mut failures = std::mem::take(&mut *lock(&shared.failures));
        failures.sort_unstable();
        let plan = lock(&shared.plan).take();
        let dropped = std::mem::take(&mut *lock(&shared.dropped));
        Ok(Done { seconds: start.elapsed().as_secs_f64(), failures, dropped, plan, times: shared.times })
    }

    fn decode(
        &self,
        next: &AtomicUsize,
        take: std::sync::mpsc::SyncSender<()>,
        decoded: Sender<Passing<HostPicture>>,
        shared: &Shared,
        end: &impl Fn(usize, Result<()>),
    ) {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(number) else { return };
            if take.send(()).is_err() {
                return;
            }
            let read = || {
                let picture = picture::read(&job.input, self.raw)?;
                self.source.check_declared(INPUT, &job.input, &picture)?;
                Ok(picture)
            };
            match timed(&shared.times.decode, read) {
                Ok(picture) => drop(decoded.send(Passing(number, picture))),
                Err(error) => end(number, Err(error)),
            }
        }
    }

    fn compute(
        &self,
        given: &[(String, Buffer)],
        pictures: &Mutex<Receiver<Passing<HostPicture>>>,
        computed: Sender<Passing<Vec<HostPicture>>>,
        shared: &Shared,
        end: &impl Fn(usize, Result<()>),
    ) {
        while let Some(Passing(number, picture)) = receive(pictures) {
            let Some(job) = self.jobs.get(number) else { continue };
            match timed(&shared.times.device, || self.compute_one(given, job, &picture, shared)) {
                Ok(results) => drop(computed.send(Passing(number, results))),
                Err(error) => end(number, Err(error)),
            }
        }
    }

    fn compute_one(
        &self,
        given: &[(String, Buffer)],
        job: &Job,
        picture: &HostPicture,
        shared: &Shared,
    ) -> Result<Vec<HostPicture>> {
        let ty = picture.ty();
        let kept = {
            let mut plans = lock(&shared.plans);
            let at = plans.iter().position(|(own, _)| *own == ty);
            at.and_then(|at| plans.remove(at))
        };
        let ready = match kept {
            Some((_, ready)) => ready,
            None => self.prepare(given, job, &ty, shared)?,
        };
        if let Some((_, input)) = ready.inputs.iter().find(|(name, _)| name == INPUT) {
            picture.write_to(input)?;
        }
        ready.plan.run()?;
        let download = |buffer| picture::download(buffer, picture.profile.clone());
        let results = ready.results.iter().map(download).collect::<Result<_>>()?;
        let mut plans = lock(&shared.plans);
        plans.push_front((ty, ready));
        plans.truncate(KEPT_PLANS);
        Ok(results)
    }

    /// A plan for pictures of one size, with buffers of its own.
    fn prepare(&self, given: &[(String, Buffer)], job: &Job, ty: &TensorType, shared: &Shared) -> Result<Ready> {
        let mut inputs = given.to_vec();
        inputs.push((INPUT.to_owned(), Buffer::reserve(self.device, ty.dtype, ty.shape.clone())?));
        let ready = self.source.compile(self.device, inputs, self.results)?;
        for ((name, file), buffer) in self.results.iter().zip(&job.outputs).zip(&ready.results) {
            picture::check(file, name, buffer)?;
        }
        lock(&shared.plan).get_or_insert_with(|| summary(&ready.plan));
        Ok(ready)
    }

    fn encode(
        &self,
        results: &Mutex<Receiver<Passing<Vec<HostPicture>>>>,
        shared: &Shared,
        end: &impl Fn(usize, Result<()>),
    ) {
        while let Some(Passing(number, pictures)) = receive(results) {
            let outputs = self.jobs.get(number).map(|job| job.outputs.as_slice()).unwrap_or_default();
            let write = || {
                outputs.iter().zip(pictures).try_for_each(|(file, picture)| {
                    if let Some(why) = picture::write(file, picture)? {
                        *lock(&shared.dropped).entry(why).or_default() += 1;
                    }
                    Ok(())
                })
            };
            end(number, timed(&shared.times.encode, write));
        }
    }

    /// Computes as many pictures out of a few, as `run` does, without reading and writing files. For measurements.
    pub(crate) fn filter(&self, pictures: &[HostPicture], count: usize) -> Result<()> {
        let (given, shared, next) = (self.source.upload(self.device)?, Shared::default(), AtomicUsize::new(0));
        let job = Job { input: INPUT.into(), outputs: vec![OUTPUT.into(); self.results.len()] };
        let work = || -> Result<()> {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && number < count
                && let Some(picture) = pictures.get(number % pictures.len().max(1))
            {
                self.compute_one(&given, &job, picture, &shared)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..ON_DEVICE).map(|_| scope.spawn(work)).collect();
            let mut ended = workers.into_iter().map(|worker| worker.join());
            ended.try_for_each(|result| result.unwrap_or_else(|panic| Err(panicked(&*panic))))
        })
    }

    /// Does all jobs with a bar, and says what became of them.
    pub(crate) fn run_and_tell(&self, from: &str, to: &str, show: Progress, out: &mut dyn Write) -> Result<Outcome> {
        let bar = progress::bar(self.jobs.len(), show);
        let done = self.run(&|| bar.inc(1))?;
        bar.finish_and_clear();
        done.tell(self.jobs, from, to, out)
    }
}

impl Done {
    fn tell(&self, jobs: &[Job], from: &str, to: &str, out: &mut dyn Write) -> Result<Outcome> {
        let (all, failed) = (jobs.len(), self.failures.len());
        let written = all - failed;
        let plan = self.plan.as_deref().map_or(String::new(), |plan| format!(": {plan}"));
        writeln!(out, "{from} -> {to}{plan}")?;
        let pictures = output::count(written, "picture", "pictures");
        let rate = written as f64 / self.seconds.max(1e-9);
        writeln!(out, "  {pictures} written, {failed} failed, {:.2} s, {rate:.1} images/s", self.seconds)?;
        let [decode, device, encode] = [&self.times.decode, &self.times.device, &self.times.encode]
            .map(|time| Duration::from_nanos(time.load(Ordering::Relaxed)).as_secs_f64());
        writeln!(out, "  decode {decode:.2} s, device {device:.2} s, encode {encode:.2} s, in threads that overlap")?;
        for (why, count) in &self.dropped {
            let files = output::count(*count, "file", "files");
            output::warn(&format!("the colour profile is left out of {files}: {why}"));
        }
        Ok(match self.reasons(jobs) {
            None => Outcome::Success,
            Some(reasons) => Outcome::Negative(reasons),
        })
    }

    /// What was wrong, picture by picture; said once if it was the same with all of them.
    fn reasons(&self, jobs: &[Job]) -> Option<String> {
        let ((_, first), all, failed) = (self.failures.first()?, jobs.len(), self.failures.len());
        if failed == all && all > 1 && self.failures.iter().all(|(_, reason)| reason == first) {
            return Some(format!("all {all} pictures failed: {first}"));
        }
        let name = |number: usize| jobs.get(number).map(|job| job.input.display().to_string()).unwrap_or_default();
        let line = |(number, reason): &(usize, String)| match (name(*number), reason.replace('\n', "\n  ")) {
            (name, reason) if reason.contains(&name) => format!("\n  {reason}"),
            (name, reason) => format!("\n  {name}: {reason}"),
        };
        let lines: String = self.failures.iter().map(line).collect();
        Some(format!("{failed} of {all} {} failed:{lines}", if all == 1 { "picture" } else { "pictures" }))
    }
}

/// Nothing is left half-done by a panic under these locks.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next of a queue that several threads take from; none when all that fill it have ended.
fn receive<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    lock(queue).recv().ok()
}

/// A panic over one picture, as of a decoder, is that picture's failure.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// Adds how long the work took.
fn timed<T>(total: &AtomicU64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = caught(work);
    total.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

fn panicked(panic: &(dyn Any + Send)) -> anyhow::Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    anyhow!("this is a bug of dala or of a library that it uses: {}", text.unwrap_or("panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(failures: &[(usize, &str)]) -> Done {
        let failures = failures.iter().map(|(number, reason)| (*number, (*reason).to_owned())).collect();
        Done { seconds: 2.0, failures, dropped: BTreeMap::new(), plan: None, times: Times::default() }
    }

    fn jobs(names: &[&str]) -> Vec<Job> {
        names.iter().map(|name| Job { input: name.into(), outputs: Vec::new() }).collect()
    }

    #[test]
    fn reasons_name_every_picture_or_are_said_once() {
        let jobs = jobs(&["a.png", "b.png"]);
        assert_eq!(done(&[]).reasons(&jobs), None);
        let reasons = done(&[(1, "cannot read b.png: no")]).reasons(&jobs);
        assert_eq!(reasons.as_deref(), Some("1 of 2 pictures failed:\n  cannot read b.png: no"));
        let reasons = done(&[(0, "too small"), (1, "too\nlarge")]).reasons(&jobs);
        assert_eq!(reasons.as_deref(), Some("2 of 2 pictures failed:\n  a.png: too small\n  b.png: too\n  large"));
        let reasons = done(&[(0, "no such kernel"), (1, "no such kernel")]).reasons(&jobs);
        assert_eq!(reasons.as_deref(), Some("all 2 pictures failed: no such kernel"));
    }

    #[test]
    fn a_panic_is_a_failure_of_its_picture() {
        let total = AtomicU64::new(0);
        let result: Result<()> = timed(&total, || std::panic::panic_any("out of blocks"));
        let expected = "this is a bug of dala or of a library that it uses: out of blocks";
        assert_eq!(result.unwrap_err().to_string(), expected);
        assert!(total.into_inner() > 0);
    }
}
