//! Compiled stages over memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dala_plan::Place;
use dala_plan::plan::Constant;
use smallvec::SmallVec;

use super::compiled::{Compiled, Segment, Values};
use super::frame::Frame;
use crate::engine::{EngineError, Launch, Sequence};
use crate::memory::{Allocation, Holder, MemoryPool};

/// The launches of compiled stages over memory, with their scratch memory.
pub(crate) struct Bound {
    pub(crate) launches: Arc<[Arc<Launch>]>,
    /// What was handed to the engine together.
    sequences: Mutex<Sequences>,
    /// Whether it is run again and again.
    repeated: bool,
    pub(super) frame: Arc<Frame>,
}

/// How stages are bound.
pub(crate) enum Binds {
    /// For one run.
    Once,
    /// For runs over the same memory.
    Repeated,
    /// For a run after which others follow over other memory, with what one before left.
    Again(Option<Arc<Frame>>),
}

/// Segments, with what the engine runs for each.
type Sequences = SmallVec<[(Segment, Arc<Sequence>); 1]>;

impl Bound {
    /// Binds stages to the memory of their buffers. For the thread that drives the device; `settle` waits for what was launched,
    /// where data must be copied first.
    ///
    /// # Errors
    ///
    /// There is no memory, or the device fails.
    pub(crate) fn new(
        compiled: &Compiled,
        memory: &[Arc<Allocation>],
        values: &Values,
        binds: Binds,
        pool: &MemoryPool,
        settle: impl FnOnce(),
    ) -> Result<Bound, EngineError> {
        if compiled.constants.needs_upload() {
            settle();
        }
        let constants = compiled.constants.on_device(|constants| bring(constants, &compiled.preparation, pool))?;
        let (again, repeated) = (matches!(binds, Binds::Again(_)), matches!(binds, Binds::Repeated));
        let mut frame = match binds {
            Binds::Again(Some(frame)) => frame,
            _ => {
                let scratch = compiled.blueprint.scratch.iter().map(|bytes| pool.allocate(*bytes));
                Arc::new(Frame { launches: Vec::new(), scratch: scratch.collect::<Result<_, _>>()? })
            }
        };
        let of = |place: &Place| {
            let found = match *place {
                Place::Input(number) => memory.get(number).map(|memory| &**memory),
                Place::Transient(number) => frame.scratch.get(number),
                Place::Constant(number) => constants.get(number).map(|memory| &**memory),
                Place::Output | Place::Further(_) => None,
            };
            let missing = || EngineError::internal(format!("a fault of this library: {place:?} is not there"));
            pool.memory(found.ok_or_else(missing)?).cloned()
        };
        let mut launches = Vec::with_capacity(compiled.steps.len());
        let mut own = Vec::new();
        for (index, (step, planned)) in compiled.steps.iter().zip(&compiled.blueprint.steps).enumerate() {
            if let Some(Some(launch)) = frame.launches.get(index) {
                launches.push(launch.clone());
                continue;
            }
            let apart = !planned.reads.iter().chain(&planned.writes).any(|place| matches!(place, Place::Input(_)));
            let reads = planned.reads.iter().map(of).collect::<Result<_, _>>()?;
            let outputs = planned.writes.iter().map(of).collect::<Result<_, _>>()?;
            let params = match planned.params.is_empty() {
                true => Default::default(),
                false => values
                    .get(index)
                    .cloned()
                    .ok_or_else(|| EngineError::internal("a fault of this library: a launch without its values"))?,
            };
            let launch = Arc::new(Launch::new(&step.launched, reads, outputs, params, repeated || again && apart));
            own.push((again && apart).then(|| launch.clone()));
            launches.push(launch);
        }
        if again && frame.launches.is_empty() {
            // Nobody else has it yet.
            if let Some(frame) = Arc::get_mut(&mut frame) {
                frame.launches = own;
            }
        }
        if launches.len() > 1 {
            compiled.foreseen.call_once(|| pool.engine.foresee(&launches));
        }
        Ok(Bound { launches: launches.into(), sequences: Mutex::default(), repeated, frame })
    }

    /// What the engine runs for a segment.
    pub(crate) fn sequence(&self, segment: &Segment) -> Arc<Sequence> {
        // Nothing is left half-done by a panic under this lock.
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sequence)) = sequences.iter().find(|(own, _)| own == segment) {
            return sequence.clone();
        }
        // Other cuts are of the past.
        sequences.retain(|(own, _)| own.end <= segment.start || segment.end <= own.start);
        let sequence = Arc::new(Sequence::new(&self.launches, segment.clone(), self.repeated));
        sequences.push((segment.clone(), sequence.clone()));
        sequence
    }
}

/// Brings constants to the device: lets it compute those that are made of others, and has those that are given
/// where it reads them.
fn bring(
    constants: &[Constant],
    preparation: &Mutex<Option<Box<Compiled>>>,
    pool: &MemoryPool,
) -> Result<Vec<Arc<Allocation>>, EngineError> {
    let mut preparation = preparation.lock().unwrap_or_else(PoisonError::into_inner);
    let prepared = match &*preparation {
        Some(preparation) => prepare(preparation, pool)?,
        None => Vec::new(),
    };
    // What only it needs is let go of before the rest is copied.
    *preparation = None;
    let own = |constant: &Constant| match constant {
        Constant::Given(data) => pool.constant(data).map(Arc::new),
        Constant::Prepared { buffer, .. } => prepared
            .get(*buffer)
            .cloned()
            .ok_or_else(|| EngineError::internal("a fault of this library: a constant was not prepared")),
    };
    constants.iter().map(own).collect()
}

/// Runs what computes constants, and waits for it.
fn prepare(preparation: &Compiled, pool: &MemoryPool) -> Result<Vec<Arc<Allocation>>, EngineError> {
    let buffers = preparation.blueprint.externals.iter();
    let buffers = buffers.map(|buffer| pool.allocate(buffer.ty.shape.len() * buffer.ty.dtype.size()).map(Arc::new));
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let values = preparation.values(|_| None).map_err(|error| EngineError::internal(error.to_string()))?;
    let bound = Bound::new(preparation, &buffers, &values, Binds::Once, pool, || ())?;
    let sequence = bound.sequence(&(0..bound.launches.len()));
    pool.engine.run(std::slice::from_ref(&sequence)).into_iter().collect::<Result<(), _>>()?;
    let outcome = pool.engine.synchronise(sequence.outputs.to_vec()).wait();
    outcome.into_iter().collect::<Result<(), _>>()?;
    Ok(buffers)
}

/// What a plan's first run bound, for the next ones. Buffers that are freed let go of it.
#[derive(Default)]
pub(crate) struct Binding(Mutex<Option<Arc<Bound>>>);

impl Binding {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Bound>>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<Arc<Bound>> {
        self.lock().clone()
    }

    pub(crate) fn put(&self, bound: Arc<Bound>) {
        *self.lock() = Some(bound);
    }
}

impl Holder for Binding {
    /// Lets go of the memory; a run that uses it still holds it.
    fn let_go(&self) {
        let bound = self.lock().take();
        // Not under the lock: giving memory back takes others.
        drop(bound);
    }
}
