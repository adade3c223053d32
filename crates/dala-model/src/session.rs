//! A model on a device, run by itself: with sizes as they come, several outputs, and the host looking at values where these decide
//! what comes next.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dala_compute::{Buffer, Device, Lane, LaunchTime, Support};
use dala_kernels::Kernel;
use dala_spec::{Class, DType, Data, KernelSpec, OutputDType, TensorType, Tolerance};
use lru::LruCache;

use crate::error::shown;
use crate::kernel::only;
use crate::limits::{MAX_LOOKS, MAX_READ};
use crate::lower::lower;
use crate::resolve::{Ask, Walk, check_size, part_of, walked};
use crate::{LoadError, Model, ModelError, Value};

/// How many parts of a model are remembered, for all sizes together.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Bytes that were read before a part that is remembered: what depends on more is planned again.
const REMEMBERED_BYTES: usize = 64 << 10;

/// A model on a device. Each set of sizes is planned once and remembered, as long as there are not too many.
///
/// Most models are one part: one plan from inputs to outputs. Where something follows from values (a branch, the number of rounds
/// of a loop, a shape), the part before is run, the host reads the value, and what comes next is planned with it.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use dala_compute::{Buffer, Device};
/// use dala_model::{Model, Session};
/// let device = Device::open("cpu")?;
/// let session = Session::new(&device, &Model::open("detector.onnx".as_ref())?);
/// let x = Buffer::from_slice(&device, &[0.0f32; 3 * 64 * 64], [1, 3, 64, 64])?;
/// let outputs = session.run(&[&x])?;
/// # Ok(())
/// # }
/// ```
pub struct Session {
    device: Device,
    model: Model,
    parts: Mutex<LruCache<Key, Arc<Part>>>,
}

/// What a part depends on: the types of the inputs, and what was read so far.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    types: Vec<TensorType>,
    read: Vec<u8>,
}

/// What is run before the host looks at a value, or before the end.
struct Part {
    work: Option<PartWork>,
    /// The values that later parts may need.
    live: Vec<usize>,
    /// The value that the host looks at; none in the last part.
    looks_at: Option<usize>,
    /// How many layers of the walk are done after it.
    done: usize,
}

struct PartWork {
    kernel: Arc<Kernel>,
    inputs: Vec<usize>,
    outputs: Vec<(usize, TensorType)>,
}

impl Session {
    /// A model on a device. Nothing is planned yet.
    pub fn new(device: &Device, model: &Model) -> Session {
        let parts = Mutex::new(LruCache::new(REMEMBERED));
        Session { device: device.clone(), model: model.clone(), parts }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs the model on inputs in their order; gives its outputs in theirs, in new buffers.
    ///
    /// # Errors
    ///
    /// Inputs that the model does not take, sizes that do not fit it, and whatever the device says.
    pub fn run(&self, inputs: &[&Buffer]) -> Result<Vec<Buffer>, LoadError> {
        self.run_with(inputs, Lane::Default, None)
    }

    /// As [`run`](Session::run), in a lane: between the launches of a model in a lower one, those of a higher one go first.
    ///
    /// # Errors
    ///
    /// As [`run`](Session::run).
    pub fn run_in(&self, inputs: &[&Buffer], lane: Lane) -> Result<Vec<Buffer>, LoadError> {
        self.run_with(inputs, lane, None)
    }

    /// Runs the model launch by launch; says how long the device took for each. A run takes less than their sum.
    ///
    /// # Errors
    ///
    /// As [`run`](Session::run).
    pub fn profile(&self, inputs: &[&Buffer]) -> Result<Vec<LaunchTime>, LoadError> {
        let mut times = Vec::new();
        self.run_with(inputs, Lane::Default, Some(&mut times))?;
        Ok(times)
    }

    /// Runs the model; where times are wanted, those of its launches.
    fn run_with(
        &self,
        inputs: &[&Buffer],
        lane: Lane,
        times: Option<&mut Vec<LaunchTime>>,
    ) -> Result<Vec<Buffer>, LoadError> {
        let types: Vec<TensorType> =
            inputs.iter().map(|input| TensorType::new(input.dtype(), input.shape().clone())).collect();
        self.model.check_inputs(&types)?;
        let held = inputs.iter().map(|input| (*input).clone()).enumerate().collect();
        let key = Key { types, read: Vec::new() };
        let mut run = PartRun { session: self, key, lane, held, done: 0, read: Vec::new(), failed: None, times };
        // What was planned before is run without a look at the model.
        while let Some(part) = self.remembered(&run.key) {
            let outputs = run.run(&part)?;
            match part.looks_at {
                None => return Ok(outputs),
                Some(number) => run.look_at(number)?,
            };
        }
        let types = run.key.types.clone();
        let last = match walked(&self.model.graph, self.model.inputs(), &types, &mut run) {
            Ok(network) => network,
            Err(error) => return Err(run.failed.take().unwrap_or(LoadError::Model(error))),
        };
        let part = run.part(
            &Walked { values: &last.values, layers: &last.layers, live: Vec::new(), outputs: &last.outputs },
            None,
        )?;
        run.run(&part)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<Key, Arc<Part>>> {
        // Nothing is left half-done by a panic under this lock.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self, key: &Key) -> Option<Arc<Part>> {
        self.lock().get(key).cloned()
    }

    /// The kernel of a part: the layers of a walk from `done` on.
    fn work(&self, part: &Walked<'_>, done: usize, held: &[usize], wanted: &[usize]) -> Result<PartWork, LoadError> {
        let layers = part.layers.get(done..).unwrap_or_default();
        let reads: HashSet<usize> = layers.iter().flat_map(|layer| &layer.inputs).chain(wanted).copied().collect();
        let constant = |number: &usize| part.values.get(*number).is_none_or(|value| value.constant.is_some());
        let inputs: Vec<usize> =
            held.iter().copied().filter(|number| reads.contains(number) && !constant(number)).collect();
        let network = part_of(part.values, layers, &inputs, wanted);
        check_size(&network)?;
        let composite = Arc::new(lower(&network).map_err(LoadError::Layer)?);
        let ty = |number: &usize| {
            network.values.get(*number).map_or_else(|| TensorType::new(DType::F32, [0]), |value| value.ty.clone())
        };
        let types: Vec<TensorType> = network.outputs.iter().map(ty).collect();
        let mut spec = KernelSpec::new("model", Class::Composite).tolerance(Tolerance::close(8192.0, 8192.0));
        for (place, number) in network.inputs.iter().enumerate() {
            spec = spec.input(format!("x{place}"), only(ty(number).dtype));
        }
        let first = types.first().cloned().unwrap_or_else(|| TensorType::new(DType::F32, [0]));
        spec = spec
            .computed("as the network says", OutputDType::OneOf(only(first.dtype)), move |_| Ok(first.shape.clone()));
        if let [_, further @ ..] = &types[..] {
            let (names, further) =
                ((0..further.len()).map(|place| format!("y{}", place + 1)).collect(), further.to_vec());
            spec = spec.further(names, move |_| Ok(further.clone()));
        }
        let kernel = Arc::new(Kernel::composite(spec, move |_| Ok(composite.clone())));
        Ok(PartWork { kernel, inputs, outputs: wanted.iter().copied().zip(types).collect() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for (_, part) in self.lock().iter() {
            part.work.iter().for_each(|work| self.device.forget(&work.kernel));
        }
    }
}

/// A walk as far as it came.
struct Walked<'w> {
    values: &'w [Value],
    layers: &'w [crate::Layer],
    live: Vec<usize>,
    outputs: &'w [usize],
}

/// One run of a model: where it is, and what is on the device.
struct PartRun<'s, 't> {
    session: &'s Session,
    key: Key,
    lane: Lane,
    held: HashMap<usize, Buffer>,
    done: usize,
    /// What was read, and how many layers were done then.
    read: Vec<(Arc<Data>, usize)>,
    /// Why the device did not go on.
    failed: Option<LoadError>,
    /// How long each launch took, if somebody wants to know.
    times: Option<&'t mut Vec<LaunchTime>>,
}

impl PartRun<'_, '_> {
    /// Runs a part; gives what it makes.
    fn run(&mut self, part: &Part) -> Result<Vec<Buffer>, LoadError> {
        let device = &self.session.device;
        let mut made = Vec::new();
        if let Some(work) = &part.work {
            let missing =
                || LoadError::Layer(dala_spec::SpecError::internal("a value of an earlier part is not there"));
            let inputs = work.inputs.iter().map(|number| self.held.get(number).ok_or_else(missing));
            let inputs = inputs.collect::<Result<Vec<&Buffer>, _>>()?;
            for (_, ty) in &work.outputs {
                made.push(Buffer::reserve(device, ty.dtype, ty.shape.clone())?);
            }
            let outputs: Vec<&Buffer> = made.iter().collect();
            let ran = match &mut self.times {
                None => device.run_kernel(&work.kernel, &inputs, &outputs, (), self.lane),
                Some(times) => {
                    device.profile_kernel(&work.kernel, &inputs, &outputs, ()).map(|more| times.extend(more))
                }
            };
            if self.key.read.len() > REMEMBERED_BYTES {
                device.forget(&work.kernel);
            }
            ran?;
            let numbers = work.outputs.iter().map(|(number, _)| *number);
            self.held.extend(numbers.zip(made.iter().cloned()));
            // All layers so far are done, so nobody else reads the rest.
            self.held.retain(|number, _| part.live.binary_search(number).is_ok() || part.looks_at == Some(*number));
        }
        self.done = part.done;
        Ok(made)
    }

    /// Reads a value that was made; what comes next depends on it.
    fn look_at(&mut self, number: usize) -> Result<Arc<Data>, LoadError> {
        let missing = || LoadError::Layer(dala_spec::SpecError::internal("a value to look at was not made"));
        let data = Arc::new(self.held.get(&number).ok_or_else(missing)?.read_data()?);
        self.key.read.extend((data.len() as u64).to_le_bytes());
        self.key.read.extend(data.to_bytes());
        self.read.push((data.clone(), self.done));
        Ok(data)
    }

    /// Plans what is run before the host looks at a value, or at the end, and remembers it.
    fn part(&self, walk: &Walked<'_>, looks_at: Option<usize>) -> Result<Arc<Part>, LoadError> {
        let part = match looks_at {
            Some(number) if self.held.contains_key(&number) => {
                Part { work: None, live: walk.live.clone(), looks_at, done: self.done }
            }
            _ => {
                let done = walk.layers.len();
                let made = walk.layers.get(self.done..).unwrap_or_default().iter().flat_map(|layer| &layer.outputs);
                let made: HashSet<usize> = made.copied().collect();
                let wanted = match looks_at {
                    None => walk.outputs.to_vec(),
                    Some(number) => {
                        let constant =
                            |number: &usize| walk.values.get(*number).is_none_or(|value| value.constant.is_some());
                        let live = walk.live.iter().copied();
                        let others = live.filter(|live| *live != number && made.contains(live) && !constant(live));
                        [number].into_iter().chain(others).collect()
                    }
                };
                let mut held: Vec<usize> = self.held.keys().copied().collect();
                held.sort_unstable();
                let work = self.session.work(walk, self.done, &held, &wanted)?;
                Part { work: Some(work), live: walk.live.clone(), looks_at, done }
            }
        };
        let part = Arc::new(part);
        if self.key.read.len() > REMEMBERED_BYTES {
            return Ok(part);
        }
        let dropped = self.session.lock().push(self.key.clone(), part.clone());
        // What held device memory for it is let go of.
        if let Some(work) = dropped.as_ref().and_then(|(_, part)| part.work.as_ref()) {
            self.session.device.forget(&work.kernel);
        }
        Ok(part)
    }

    fn found_out(&mut self, walk: &Walk<'_>, number: usize) -> Result<Arc<Data>, LoadError> {
        let part = self.part(
            &Walked { values: &walk.values, layers: &walk.layers, live: walk.live(), outputs: &[] },
            Some(number),
        )?;
        self.run(&part)?;
        self.look_at(number)
    }
}

impl Ask for PartRun<'_, '_> {
    fn computes(&self, dtype: DType) -> bool {
        let known = &self.session.device.info().dtypes;
        known.iter().any(|(own, support)| *own == dtype && *support != Support::Refused)
    }

    fn elements(&mut self, walk: &Walk<'_>, number: usize, why: ModelError) -> Result<Arc<Data>, ModelError> {
        // What remembered parts read is read again in the same order.
        if let Some((data, done)) = self.read.get(walk.asked) {
            self.done = *done;
            return Ok(data.clone());
        }
        let node = match &why {
            ModelError::NotConstant { node, .. } => node.as_str(),
            _ => "",
        };
        if self.read.len() >= MAX_LOOKS {
            let what = format!("how often the host looks at values, at node `{}`", shown(node));
            return Err(ModelError::TooLarge { what, limit: MAX_LOOKS.to_string() });
        }
        let before: usize = self.read.iter().map(|(data, _)| data.len()).sum();
        let len = walk.values.get(number).map_or(usize::MAX, |value| value.ty.shape.len());
        if before.saturating_add(len) > MAX_READ {
            let what = format!("what the host reads in one run, at node `{}`", shown(node));
            return Err(ModelError::TooLarge { what, limit: format!("{MAX_READ} elements") });
        }
        self.found_out(walk, number).map_err(|error| {
            self.failed = Some(error);
            why
        })
    }
}
