//! Models as kernels: loaded once, then used by name like any other.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dala_compute::Device;
use dala_kernels::{Composite, Kernel};
use dala_spec::{
    Class, DType, DTypes, KernelSpec, NUMBERS, OutputDType, Shape, ShapeCall, ShapeProblem, Signature, SpecError,
    TensorType, Tolerance,
};

use crate::lower::lower;
use crate::{Dim, Model, ModelError, Port};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file was refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A kernel has one output.
    #[error("the model has {found} outputs, and a kernel has one: export it with the one that matters")]
    Outputs {
        /// How many it has.
        found: usize,
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
            LoadError::Outputs { .. } => "outputs",
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

/// How many batch sizes a model remembers its calls for.
const REMEMBERED: usize = 8;

impl Model {
    /// The model as a kernel.
    ///
    /// # Errors
    ///
    /// It has several outputs, or a layer that no kernel computes.
    pub fn kernel(&self, name: &str) -> Result<Kernel, LoadError> {
        let [output] = self.outputs() else { return Err(LoadError::Outputs { found: self.outputs().len() }) };
        let operators: usize = self.operators().iter().map(|(_, count)| count).sum();
        let summary = format!("A network of {operators} operators and {} parameters", self.parameters());
        let mut spec =
            KernelSpec::new(name, Class::Composite).summary(summary).tolerance(Tolerance::close(8192.0, 8192.0));
        for (number, port) in self.inputs().iter().enumerate() {
            spec = spec.input(argument(&port.name, number, self.inputs()), only(port.dtype));
        }
        let (inputs, result) = (self.inputs().to_vec(), output.clone());
        let text = format!("{}, a row for each of the batch", output.shape_in_words());
        let spec =
            spec.computed(text, OutputDType::OneOf(only(output.dtype)), move |call| shape(&inputs, &result, call));
        let made = Made { model: self.clone(), inputs: self.inputs().to_vec(), known: Mutex::default() };
        // Whatever is wrong shows now, and not at the first call.
        made.composite(self.smallest_batch()).map_err(|error| match error {
            Failed::Model(error) => LoadError::Model(error),
            Failed::Layer(error) => LoadError::Layer(error),
        })?;
        Ok(Kernel::composite(spec, move |call| made.for_call(call)))
    }
}

/// The calls of a model, for the batches that were asked for.
struct Made {
    model: Model,
    inputs: Vec<Port>,
    known: Mutex<HashMap<usize, Arc<Composite>>>,
}

enum Failed {
    Model(ModelError),
    Layer(SpecError),
}

impl Made {
    fn composite(&self, batch: usize) -> Result<Arc<Composite>, Failed> {
        // Nothing is left half-done by a panic under this lock.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(composite) = known().get(&batch) {
            return Ok(composite.clone());
        }
        let network = self.model.resolve(batch).map_err(Failed::Model)?;
        let composite = Arc::new(lower(&network).map_err(Failed::Layer)?);
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(batch, composite.clone());
        Ok(composite)
    }

    fn for_call(&self, call: &Signature) -> Result<Arc<Composite>, SpecError> {
        let batch = batch(&self.inputs, &call.inputs).unwrap_or(self.model.smallest_batch());
        self.composite(batch).map_err(|failed| match failed {
            Failed::Layer(error) => error,
            Failed::Model(error) => SpecError::ShapeMismatch {
                kernel: "model".to_owned(),
                argument: "the batch".to_owned(),
                expected: format!("that fits the model ({error})"),
                actual: batch.to_string(),
            },
        })
    }
}

/// The batch of a call: the size of the first axis that is one.
fn batch(ports: &[Port], inputs: &[TensorType]) -> Option<usize> {
    let mut pairs = ports.iter().zip(inputs);
    pairs.find_map(|(port, input)| match port.dims.first() {
        Some(Dim::Batch) => input.shape.dims().first().copied(),
        _ => None,
    })
}

fn shape(inputs: &[Port], output: &Port, call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let batch = batch(inputs, call.inputs).unwrap_or(1);
    for (number, (port, input)) in inputs.iter().zip(call.inputs).enumerate() {
        if batch == 0 || port.shape(batch) != input.shape {
            return Err(ShapeProblem::Input(number, port.shape_in_words()));
        }
    }
    Ok(output.shape(batch))
}

/// The list of one type.
fn only(dtype: DType) -> DTypes {
    NUMBERS.iter().position(|own| *own == dtype).map_or(&[], |place| &NUMBERS[place..=place])
}

/// A port's name as the name of an argument: small letters, digits and underscores.
fn argument(name: &str, number: usize, all: &[Port]) -> String {
    let plain = |name: &str| -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        name.chars().map(letter).collect()
    };
    let own = plain(name);
    let twice = all.iter().filter(|port| plain(&port.name) == own).count() > 1;
    match own.starts_with(|c: char| c.is_ascii_lowercase()) && !twice && own.len() <= 64 {
        true => own,
        false => format!("x{number}"),
    }
}
