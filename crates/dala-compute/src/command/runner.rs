//! Executes passes of stages on the engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dala_schedule::{CommandId, End, Executor, Pass, Piece, ResourceId, Schedulable};

use super::outcome::outcome;
use super::work::{Job, Prepared};
use crate::engine::{EngineError, Memory, Sequence, Synchronisation};
use crate::error::Error;
use crate::memory::MemoryPool;
use crate::plan::{Bound, Run};
use crate::trace::Recorder;

/// Executes passes of one device.
pub(crate) struct Runner {
    pool: Arc<MemoryPool>,
    recorder: Arc<Recorder>,
    /// When the device was last done with a pass.
    done: Mutex<Instant>,
    in_flight: AtomicUsize,
}

impl Runner {
    pub(crate) fn new(pool: Arc<MemoryPool>, recorder: Arc<Recorder>) -> Runner {
        Runner { pool, recorder, done: Mutex::new(Instant::now()), in_flight: AtomicUsize::new(0) }
    }
}

/// Why a command failed. Shared, because many may want to know.
type Cause = Arc<Error>;

/// A pass in flight.
pub(crate) struct Launched {
    batch: Batch,
    started: Instant,
    expected: Vec<Option<Duration>>,
    /// Whether no kernel was built for it: building takes longer than running.
    built_nothing: bool,
    /// Whether another pass was in flight.
    overlapped: bool,
    span: tracing::Span,
}

impl Executor for Runner {
    type Job = Job;
    type Error = Cause;
    type Launched = Launched;

    fn depth(&self) -> usize {
        if self.pool.engine.overlaps() { 2 } else { 1 }
    }

    fn launch(&self, pass: &Pass<Job>) -> Launched {
        let span = tracing::debug_span!("pass", lane = %pass.lane, pieces = pass.pieces.len());
        let entered = span.enter();
        let (started, compilations) = (Instant::now(), self.pool.engine.compilations());
        let expected = expected(pass);
        if self.recorder.is_on() {
            for piece in pass.pieces.iter().filter(|piece| piece.stages.start == 0) {
                if let Some(submitted) = piece.work.submitted {
                    self.recorder.waited(piece.command, pass.lane, submitted);
                }
            }
        }
        let mut batch = Batch::new(self.pool.clone(), pass.pieces.len());
        for (index, piece) in pass.pieces.iter().enumerate() {
            for stage in piece.stages.clone() {
                let place = (index, stage);
                if let Err(error) = batch.add(place, &piece.work.stages[stage]) {
                    batch.fail(place, error);
                    break;
                }
            }
        }
        batch.launch();
        batch.synchronise();
        let built_nothing = self.pool.engine.compilations() == compilations;
        let overlapped = self.in_flight.fetch_add(1, Ordering::Relaxed) > 0;
        drop(entered);
        Launched { batch, started, expected, built_nothing, overlapped, span }
    }

    fn finish(&self, pass: &Pass<Job>, launched: Launched) -> Vec<Result<(), Cause>> {
        let Launched { batch, started, expected, built_nothing, overlapped, span } = launched;
        let _span = span.entered();
        let overlapped = overlapped | (self.in_flight.fetch_sub(1, Ordering::Relaxed) > 1);
        let failures = batch.finish();
        let now = Instant::now();
        let busy_before = std::mem::replace(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner), now);
        if self.recorder.is_on() {
            self.record(pass, started.max(busy_before), now, !built_nothing);
        }
        if failures.iter().all(Option::is_none) && built_nothing {
            // The device was busy with the pass before it until that was done.
            learn(pass, &expected, now.saturating_duration_since(started.max(busy_before)), overlapped);
        }
        let result = |(piece, failure): (&Piece<Job>, Option<(usize, EngineError)>)| match failure {
            None => Ok(()),
            Some((stage, error)) => {
                let (stage, stages) = piece.work.users_stage(stage);
                Err(Arc::new(Error::from(error).in_stage(stage, stages)))
            }
        };
        pass.pieces.iter().zip(failures).map(result).collect()
    }

    fn readable(&self, work: &Job, resource: ResourceId) -> Result<(), Cause> {
        work.buffer_read(resource).map_or(Ok(()), |slot| slot.check_readable()).map_err(Arc::new)
    }

    fn ended(&self, command: CommandId, work: &Job, end: &End<Cause>) {
        let result = outcome(command, end).map_err(Arc::new);
        for slot in &work.written {
            slot.settle(command, &result);
        }
    }

    fn panicked(&self, message: &str) -> Cause {
        Arc::new(EngineError::internal(format!("a panic: {message}")).into())
    }
}

impl Runner {
    /// Records a pass: what each piece did, in its share of the time.
    fn record(&self, pass: &Pass<Job>, start: Instant, end: Instant, built: bool) {
        let cost = |piece: &Piece<Job>| -> Duration {
            piece.stages.clone().map(|stage| piece.work.cost(stage).unwrap_or(Duration::from_micros(1))).sum()
        };
        let whole: Duration = pass.pieces.iter().map(cost).sum();
        let (length, mut at) = (end.saturating_duration_since(start), start);
        for piece in &pass.pieces {
            let labels: Vec<String> = piece.stages.clone().map(|stage| piece.work.label(stage)).collect();
            let share =
                if whole.is_zero() { length } else { length.mul_f64(cost(piece).as_secs_f64() / whole.as_secs_f64()) };
            let mut details = vec![
                ("command".to_owned(), piece.command.to_string()),
                ("lane".to_owned(), pass.lane.to_string()),
                ("stages".to_owned(), format!("{} to {}", piece.stages.start, piece.stages.end)),
            ];
            if built {
                details.push(("kernels".to_owned(), "some were built".to_owned()));
            }
            self.recorder.worked(labels.join(", "), at, at + share, details);
            at += share;
        }
        self.recorder.memory(self.pool.account.live());
    }
}

/// A piece of a pass, and a stage of its command.
type At = (usize, usize);

/// What a pass launches, in order.
struct Batch {
    pool: Arc<MemoryPool>,
    sequences: Vec<Arc<Sequence>>,
    /// Whose each of them is.
    owners: Vec<At>,
    outputs: Vec<Memory>,
    /// Whose each output is.
    writers: Vec<At>,
    waiting: Option<Box<dyn Synchronisation>>,
    /// Memory that is used, until the device is done with it.
    held: Vec<Arc<Bound>>,
    /// The first failure of each piece, with its stage.
    failures: Vec<Option<(usize, EngineError)>>,
}

impl Batch {
    fn new(pool: Arc<MemoryPool>, pieces: usize) -> Batch {
        Batch {
            pool,
            sequences: Vec::new(),
            owners: Vec::new(),
            outputs: Vec::new(),
            writers: Vec::new(),
            waiting: None,
            held: Vec::new(),
            failures: vec![None; pieces],
        }
    }

    /// Remembers the failure of a piece that comes first in its command, whenever it was noticed.
    fn fail(&mut self, (piece, stage): At, error: EngineError) {
        let failure = &mut self.failures[piece];
        if failure.as_ref().is_none_or(|(earlier, _)| stage < *earlier) {
            *failure = Some((stage, error));
        }
    }

    fn add(&mut self, at: At, stage: &Prepared) -> Result<(), EngineError> {
        match stage {
            Prepared::Segment(run, index) => self.add_segment(at, run, *index),
            Prepared::Upload { to, data } => {
                self.settle();
                self.pool.upload(to, data.as_ref())
            }
            Prepared::Download { from, bytes, into } => {
                self.settle();
                if self.failures[at.0].is_some() {
                    // What there is to read is not what was to be written, and the piece has failed anyway.
                    return Ok(());
                }
                let mut data = into.memory(*bytes);
                self.pool.download(from, &mut data)?;
                into.put(data);
                Ok(())
            }
            Prepared::Nothing => Ok(()),
            Prepared::ByCaller => Err(EngineError::internal("a stage without its caller")),
            #[cfg(test)]
            Prepared::Faulty { output, fault } => {
                self.settle();
                let output = self.pool.memory(output)?;
                self.outputs.push(output.clone());
                self.writers.push(at);
                self.pool.engine.launch_faulty(output, *fault)
            }
        }
    }

    fn add_segment(&mut self, at: At, run: &Run, index: usize) -> Result<(), EngineError> {
        let pool = self.pool.clone();
        let bound = run.bound(&pool, || self.settle())?;
        self.held.push(bound.clone());
        self.sequences.push(bound.sequence(&run.segments[index]));
        self.owners.push(at);
        Ok(())
    }

    /// Hands everything so far to the engine.
    fn launch(&mut self) {
        if self.sequences.is_empty() {
            return;
        }
        let sequences = std::mem::take(&mut self.sequences);
        let owners = std::mem::take(&mut self.owners);
        for (sequence, at) in sequences.iter().zip(&owners) {
            self.writers.extend(sequence.outputs.iter().map(|_| *at));
            self.outputs.extend(sequence.outputs.iter().cloned());
        }
        for (at, result) in owners.into_iter().zip(self.pool.engine.run(&sequences)) {
            if let Err(error) = result {
                self.fail(at, error);
            }
        }
    }

    /// Begins to wait for everything that was launched.
    fn synchronise(&mut self) {
        if !self.outputs.is_empty() {
            self.waiting = Some(self.pool.engine.synchronise(std::mem::take(&mut self.outputs)));
        }
    }

    /// Waits for everything so far. Copies synchronise by themselves, and would take the failures of others for theirs.
    fn settle(&mut self) {
        self.launch();
        self.synchronise();
        if let Some(waiting) = self.waiting.take() {
            for (at, answer) in std::mem::take(&mut self.writers).into_iter().zip(waiting.wait()) {
                if let Err(error) = answer {
                    self.fail(at, error);
                }
            }
        }
    }

    /// Waits until the device is done, and gives the first failure of each piece.
    fn finish(mut self) -> Vec<Option<(usize, EngineError)>> {
        self.settle();
        self.failures
    }
}

/// What is known of each stage of a pass.
fn expected(pass: &Pass<Job>) -> Vec<Option<Duration>> {
    pass.pieces.iter().flat_map(|piece| piece.stages.clone().map(|stage| piece.work.cost(stage))).collect()
}

/// Learns from a pass: each stage took its share of the time.
fn learn(pass: &Pass<Job>, expected: &[Option<Duration>], elapsed: Duration, overlapped: bool) {
    let stages = pass.pieces.iter().flat_map(|piece| piece.work.stages[piece.stages.clone()].iter());
    if stages.clone().any(|stage| matches!(stage, Prepared::Upload { .. } | Prepared::Download { .. })) {
        // Nobody knows what of the time was the copy's.
        return;
    }
    let sum: Duration = expected.iter().flatten().sum();
    for (stage, expected) in stages.zip(expected) {
        let share = match expected {
            Some(expected) if !sum.is_zero() => {
                let share = elapsed.mul_f64(expected.as_secs_f64() / sum.as_secs_f64());
                // The ends of passes that overlap may be noticed together: then one of them seems to take no time.
                if overlapped { share.max(*expected * 3 / 4) } else { share }
            }
            // It was alone.
            _ => elapsed,
        };
        if let Prepared::Segment(run, index) = stage {
            run.compiled.learn(&run.segments[*index], *expected, share);
        }
    }
}
