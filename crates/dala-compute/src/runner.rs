//! Executes passes of stages on the engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dala_plan::Place;
use dala_schedule::{CommandId, End, Executor, Pass, Piece, ResourceId, Work};
use dala_spec::Scalar;
use smallvec::SmallVec;

use crate::Error;
use crate::command::outcome;
use crate::engine::{EngineError, Kept, Launch, Memory, Synchronisation};
use crate::job::{Job, Planned, Prepared};
use crate::plan::CallPlan;
use crate::pool::{Allocation, Pool};
use crate::recorder::Recorder;
use crate::replay::{Bound, Run};

/// Executes passes of one device.
pub(crate) struct Runner {
    pool: Arc<Pool>,
    recorder: Arc<Recorder>,
    /// When the device was last done with a pass.
    done: Mutex<Instant>,
    in_flight: AtomicUsize,
}

impl Runner {
    pub(crate) fn new(pool: Arc<Pool>, recorder: Arc<Recorder>) -> Runner {
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
}

impl Executor for Runner {
    type Work = Job;
    type Error = Cause;
    type Launched = Launched;

    fn depth(&self) -> usize {
        if self.pool.engine.overlaps() { 2 } else { 1 }
    }

    fn launch(&self, pass: &Pass<Job>) -> Launched {
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
        Launched { batch, started, expected, built_nothing, overlapped }
    }

    fn finish(&self, pass: &Pass<Job>, launched: Launched) -> Vec<Result<(), Cause>> {
        let Launched { batch, started, expected, built_nothing, overlapped } = launched;
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
    /// Takes a pass down: what each piece did, in its share of the time.
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

/// The launches of a pass, in order.
struct Batch {
    pool: Arc<Pool>,
    launches: Vec<Launch>,
    /// Whose each launch is.
    owners: Vec<At>,
    outputs: Vec<Memory>,
    /// Whose each output is.
    writers: Vec<At>,
    waiting: Option<Box<dyn Synchronisation>>,
    /// Scratch memory, until the device is done with it.
    held: Vec<Allocation>,
    /// What plans hold, until the device is done with it.
    bound: Vec<Arc<Bound>>,
    /// The first failure of each piece, with its stage.
    failures: Vec<Option<(usize, EngineError)>>,
}

impl Batch {
    fn new(pool: Arc<Pool>, pieces: usize) -> Batch {
        Batch {
            pool,
            launches: Vec::new(),
            owners: Vec::new(),
            outputs: Vec::new(),
            writers: Vec::new(),
            waiting: None,
            held: Vec::new(),
            bound: Vec::new(),
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
            Prepared::Launch(planned) => self.add_plan(at, planned),
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

    fn add_plan(&mut self, at: At, planned: &Planned) -> Result<(), EngineError> {
        let pool = self.pool.clone();
        let memory = |allocation: &Allocation| pool.memory(allocation).cloned();
        let mut inputs = planned.inputs.iter().map(|input| memory(input)).collect::<Result<SmallVec<[_; 4]>, _>>()?;
        let output = memory(&planned.output)?;
        if let Some(copy_plan) = &planned.copy {
            // Elements would be read after they were overwritten: read from a copy.
            let copy = pool.allocate(output.capacity as usize)?;
            let copied = memory(&copy)?;
            self.push(at, copy_plan, std::slice::from_ref(&output), &copied, &[], &[])?;
            for input in inputs.iter_mut().filter(|input| input.is(&output)) {
                *input = copied.clone();
            }
            self.held.push(copy);
        }
        let transients = planned.plan.transients.iter().map(|bytes| pool.allocate(*bytes));
        let transients = transients.collect::<Result<Vec<_>, _>>()?;
        self.push(at, &planned.plan, &inputs, &output, &transients, &planned.params)?;
        self.held.extend(transients);
        self.outputs.push(output);
        self.writers.push(at);
        Ok(())
    }

    fn add_segment(&mut self, at: At, run: &Run, index: usize) -> Result<(), EngineError> {
        let (pool, segment) = (self.pool.clone(), &run.segments[index]);
        let bound = run.plan.bound(&pool, &run.memory, || self.settle())?;
        // What was collected so far comes first.
        self.launch();
        let (outputs, recording) = bound.cut(&pool, segment);
        let results = match recording {
            Some(recording) => vec![pool.engine.replay(&*recording)],
            None => pool.engine.launch(bound.launches(segment)),
        };
        self.writers.extend(outputs.iter().map(|_| at));
        self.outputs.extend(outputs.iter().cloned());
        self.bound.push(bound);
        results.into_iter().collect()
    }

    fn push(
        &mut self,
        at: At,
        plan: &CallPlan,
        inputs: &[Memory],
        output: &Memory,
        transients: &[Allocation],
        params: &[Vec<Scalar>],
    ) -> Result<(), EngineError> {
        if plan.needs_upload() {
            self.settle();
        }
        let constants = plan.constants(&self.pool)?;
        let memory = |place: &Place| {
            let missing = || EngineError::internal(format!("a fault of this library: {place:?} is not there"));
            match *place {
                Place::Input(index) => inputs.get(index).cloned().ok_or_else(missing),
                Place::Output => Ok(output.clone()),
                Place::Transient(index) => self.pool.memory(transients.get(index).ok_or_else(missing)?).cloned(),
                Place::Constant(index) => self.pool.memory(constants.get(index).ok_or_else(missing)?).cloned(),
            }
        };
        for (index, step) in plan.steps.iter().enumerate() {
            let reads = step.reads.iter().map(memory).collect::<Result<SmallVec<[_; 4]>, EngineError>>()?;
            let outputs = step.writes.iter().map(memory).collect::<Result<SmallVec<[_; 2]>, EngineError>>()?;
            let alias = |output: &Memory| reads.iter().position(|read| read.is(output));
            let aliases = outputs.iter().map(alias).collect();
            self.launches.push(Launch {
                task: step.task.clone(),
                geometry: step.geometry,
                reads,
                outputs,
                aliases,
                params: match params {
                    // Plans of our own, such as copies.
                    [] => Vec::new(),
                    _ => {
                        params.get(index).cloned().ok_or_else(|| EngineError::internal("a step without its values"))?
                    }
                },
                kept: Kept::OfStep(step.kept.clone()),
            });
            self.owners.push(at);
        }
        Ok(())
    }

    /// Hands everything so far to the engine.
    fn launch(&mut self) {
        if self.launches.is_empty() {
            return;
        }
        let results = self.pool.engine.launch(&self.launches);
        for (at, result) in std::mem::take(&mut self.owners).into_iter().zip(results) {
            if let Err(error) = result {
                self.fail(at, error);
            }
        }
        self.launches.clear();
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
        match stage {
            Prepared::Launch(planned) => planned.plan.learn(*expected, share),
            Prepared::Segment(run, index) => run.plan.compiled.learn(&run.segments[*index], *expected, share),
            _ => {}
        }
    }
}
