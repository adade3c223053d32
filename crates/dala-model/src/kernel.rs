//! Models as kernels: loaded once, then used by name like any other.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dala_compute::Device;
use dala_kernels::{Composite, Kernel};
use dala_spec::{
    Class, DType, DTypes, KernelSpec, NUMBERS, OutputDType, ShapeProblem, Signature, SpecError, TensorType, Tolerance,
};
use lru::LruCache;

use crate::lower::lower;
use crate::{Model, ModelError, Port};

/// Why a model could not be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file was refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The host has to look at values while it runs, which a kernel cannot wait for.
    #[error("the model is no kernel, but runs by itself (`dala model run`, `Session`): {what}")]
    Values {
        /// What depends on values.
        what: String,
    },
    /// A layer does not come down to kernels.
    #[error("the model cannot be computed: {0}")]
    Layer(SpecError),
    /// The device refused the kernel, as it does if the name is taken.
    #[error(transparent)]
    Device(#[from] dala_compute::Error),
}

impl LoadError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            LoadError::Model(error) => error.code(),
            LoadError::Values { .. } => "decided_by_values",
            LoadError::Layer(error) => error.code(),
            LoadError::Device(error) => error.code(),
        }
    }
}

/// Devices that take models for kernels.
pub trait LoadModel {
    /// Reads an ONNX file and adds it as a kernel: `run`, `submit` and pipelines then use it by name.
    ///
    /// # Errors
    ///
    /// The file is no model that can be run, or the name is taken or no name.
    fn load_model(&self, name: &str, path: impl AsRef<Path>) -> Result<Model, LoadError>;

    /// Adds a model that was read as a kernel.
    ///
    /// # Errors
    ///
    /// It cannot be run, or the name is taken or no name.
    fn add_model(&self, name: &str, model: &Model) -> Result<(), LoadError>;
}

impl LoadModel for Device {
    fn load_model(&self, name: &str, path: impl AsRef<Path>) -> Result<Model, LoadError> {
        let model = Model::open(path.as_ref())?;
        self.add_model(name, &model)?;
        Ok(model)
    }

    fn add_model(&self, name: &str, model: &Model) -> Result<(), LoadError> {
        Ok(self.add_kernel(model.kernel(name)?)?)
    }
}

/// For how many sets of sizes a model remembers its calls.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(16).unwrap();

impl Model {
    /// The model as a kernel, with an output for each of its own. Sizes that it leaves open are those of a call.
    ///
    /// # Errors
    ///
    /// It has a layer that no kernel computes, or is [decided by values](Model::decided_by_values).
    pub fn kernel(&self, name: &str) -> Result<Kernel, LoadError> {
        if let Some(what) = self.decided_by_values() {
            return Err(LoadError::Values { what: what.to_owned() });
        }
        let operators: usize = self.operators().iter().map(|(_, count)| count).sum();
        let summary = format!("A network of {operators} operators and {} parameters", self.parameters());
        let mut spec =
            KernelSpec::new(name, Class::Composite).summary(summary).tolerance(Tolerance::close(8192.0, 8192.0));
        for (name, port) in arguments(self.inputs()).into_iter().zip(self.inputs()) {
            spec = spec.input(name, only(port.dtype));
        }
        let made = Arc::new(Made { model: self.clone(), known: Mutex::new(LruCache::new(REMEMBERED)) });
        let [output, further @ ..] = self.outputs() else {
            return Err(LoadError::Layer(SpecError::internal("a model without outputs")));
        };
        let text = format!("{}, a row for each of the batch", output.shape_in_words());
        let first = made.clone();
        let mut spec = spec.computed(text, OutputDType::OneOf(only(output.dtype)), move |call| {
            let types = first.types(call.inputs)?;
            types.first().map(|ty| ty.shape.clone()).ok_or_else(|| ShapeProblem::Output("there".to_owned()))
        });
        if !further.is_empty() {
            let (names, rest) = (further.iter().map(|port| port.name.clone()).collect(), made.clone());
            spec = spec.further(names, move |inputs| Ok(rest.types(inputs)?.split_off(1)));
        }
        // Whatever is wrong shows now, and not at the first call.
        let smallest = self.inputs().iter().map(|port| {
            let shape = port.shape(self.smallest_batch())?;
            Some(TensorType { dtype: port.dtype, shape })
        });
        if let Some(types) = smallest.collect::<Option<Vec<_>>>() {
            made.calls(&types)?;
        }
        Ok(Kernel::composite(spec, move |call| made.for_call(call)))
    }
}

/// The calls of a model, for the sizes that were asked for.
struct Made {
    model: Model,
    known: Mutex<LruCache<Vec<TensorType>, Calls>>,
}

/// What a model is for one set of sizes.
#[derive(Clone)]
struct Calls {
    composite: Arc<Composite>,
    outputs: Arc<[TensorType]>,
}

impl Made {
    fn calls(&self, types: &[TensorType]) -> Result<Calls, LoadError> {
        // Nothing is left half-done by a panic under this lock.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = known().get(types) {
            return Ok(calls.clone());
        }
        if let (Some(only), Some(batch)) = (self.model.fixed_batch(), self.model.batch_of(types))
            && only != batch
        {
            return Err(ModelError::Batch { asked: batch, allowed: only.to_string() }.into());
        }
        let network = self.model.resolve_for(types)?;
        let composite = Arc::new(lower(&network).map_err(LoadError::Layer)?);
        let outputs = network.outputs.iter().filter_map(|number| Some(network.values.get(*number)?.ty.clone()));
        let calls = Calls { composite, outputs: outputs.collect() };
        known().put(types.to_vec(), calls.clone());
        Ok(calls)
    }

    /// The types of all outputs.
    fn types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, ShapeProblem> {
        let ports = self.model.inputs();
        if let Some(number) = ports.iter().zip(inputs).position(|(port, input)| !port.takes(input)) {
            let expected = ports.get(number).map(Port::shape_in_words).unwrap_or_default();
            return Err(ShapeProblem::Input(number, expected));
        }
        match self.calls(inputs) {
            Ok(calls) => Ok(calls.outputs.to_vec()),
            Err(LoadError::Layer(error)) => Err(ShapeProblem::Input(0, format!("that fits the model ({error})"))),
            Err(error) => Err(ShapeProblem::Input(0, format!("that fits the model ({error})"))),
        }
    }

    fn for_call(&self, call: &Signature) -> Result<Arc<Composite>, SpecError> {
        match self.calls(&call.inputs) {
            Ok(calls) => Ok(calls.composite),
            Err(LoadError::Layer(error)) => Err(error),
            Err(error) => Err(SpecError::ShapeMismatch {
                kernel: "model".to_owned(),
                argument: "an input".to_owned(),
                expected: format!("that fits the model ({error})"),
                actual: call.inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

/// The list of one type.
pub(crate) fn only(dtype: DType) -> DTypes {
    NUMBERS.iter().position(|own| *own == dtype).map_or(&[], |place| &NUMBERS[place..=place])
}

/// The names of ports as names of arguments: small letters, digits and underscores. One that is no such name, or that two would
/// have, is a number.
fn arguments(ports: &[Port]) -> Vec<String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let plain = |port: &Port| -> String { port.name.chars().take(65).map(letter).collect() };
    let names: Vec<String> = ports.iter().map(plain).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let name = |(number, own): (usize, &String)| {
        let once = counts.get(own.as_str()) == Some(&1);
        match own.starts_with(|c: char| c.is_ascii_lowercase()) && once && own.len() <= 64 {
            true => own.clone(),
            false => format!("x{number}"),
        }
    };
    names.iter().enumerate().map(name).collect()
}
