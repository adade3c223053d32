//! Models that were loaded as kernels of a device, by name.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use dala_compute::{Device, SpecError};
use dala_model::{LoadError, Model, ModelError, Port, UnsupportedOperator};

use crate::lock::lock;

/// What the models of a device are.
#[derive(Default)]
pub(crate) struct Models(Mutex<HashMap<String, Loaded>>);

/// A model without its weights, which its kernel has.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) operators: Vec<(String, usize)>,
    pub(crate) parameters: usize,
}

/// Why a model was not loaded.
pub(crate) struct NotLoaded {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) operators: Vec<UnsupportedOperator>,
}

impl Models {
    /// Reads a file and adds it as a kernel. Takes long.
    pub(crate) fn load(&self, device: &Device, name: &str, path: &str) -> Result<Loaded, NotLoaded> {
        // Somebody waits for the answer: a file that breaks the reader must not leave them without one.
        let read = catch_unwind(AssertUnwindSafe(|| {
            // The file need not be read to know that.
            if device.kernels().iter().any(|kernel| kernel.spec.names().any(|known| known == name)) {
                return Err(LoadError::Device(SpecError::DuplicateKernel { name: name.to_owned() }.into()));
            }
            let model = Model::open(Path::new(path))?;
            Ok((model.kernel(name)?, model))
        }));
        let (kernel, model) = match read {
            Ok(read) => read.map_err(NotLoaded::from)?,
            Err(_) => return Err(NotLoaded::internal(path)),
        };
        let loaded = Loaded {
            inputs: model.inputs().to_vec(),
            outputs: model.outputs().to_vec(),
            operators: model.operators(),
            parameters: model.parameters(),
        };
        // Whoever hears that the name is taken finds the model that took it.
        let mut known = lock(&self.0);
        device.add_kernel(kernel).map_err(|error| NotLoaded::from(LoadError::from(error)))?;
        known.insert(name.to_owned(), loaded.clone());
        Ok(loaded)
    }

    /// A model that was loaded.
    pub(crate) fn get(&self, name: &str) -> Option<Loaded> {
        lock(&self.0).get(name).cloned()
    }
}

impl NotLoaded {
    fn internal(path: &str) -> NotLoaded {
        let message = format!("reading `{path}` failed inside the library: this is a bug in it");
        NotLoaded { code: "internal", message, operators: Vec::new() }
    }
}

impl From<LoadError> for NotLoaded {
    fn from(error: LoadError) -> NotLoaded {
        let code = error.code();
        let message = match &error {
            LoadError::Model(ModelError::Io { source, .. }) => format!("{error}: {source}"),
            other => other.to_string(),
        };
        let operators = match error {
            LoadError::Model(ModelError::Unsupported { operators }) => operators,
            _ => Vec::new(),
        };
        NotLoaded { code, message, operators }
    }
}
