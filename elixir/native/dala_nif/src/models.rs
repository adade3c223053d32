//! Models that were loaded on a device, by name.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use dala_compute::{Buffer, Device, SpecError};
use dala_model::{LoadError, Model, Session};

use crate::lock::lock;

/// The models of a device, ready to run by themselves.
#[derive(Default)]
pub(crate) struct Models(Mutex<HashMap<String, Arc<Session>>>);

/// Why a model was not loaded, or did not run.
pub(crate) enum NotRun {
    Refused(LoadError),
    /// Something in the library broke.
    Broken(String),
}

impl From<LoadError> for NotRun {
    fn from(error: LoadError) -> NotRun {
        NotRun::Refused(error)
    }
}

impl Models {
    /// Reads a file with these sizes, and adds it as a kernel unless values decide what runs. Takes long.
    pub(crate) fn load(
        &self,
        device: &Device,
        name: &str,
        path: &str,
        sizes: &[(String, usize)],
    ) -> Result<Arc<Session>, NotRun> {
        let taken = || LoadError::Device(SpecError::DuplicateKernel { name: name.to_owned() }.into());
        // Somebody waits for the answer: a file that breaks the reader must not leave them without one.
        let read = catch_unwind(AssertUnwindSafe(|| {
            // The file need not be read to know that.
            if device.kernels().iter().any(|kernel| kernel.spec.names().any(|known| known == name)) {
                return Err(taken());
            }
            let sizes: Vec<(&str, usize)> = sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
            let model = Model::open(Path::new(path))?.with_sizes(&sizes)?;
            let kernel = match model.kernel(name) {
                Err(LoadError::Values { .. }) => None,
                kernel => Some(kernel?),
            };
            Ok((kernel, model))
        }));
        let (kernel, model) = match read {
            Ok(read) => read?,
            Err(_) => return Err(NotRun::Broken(format!("reading `{path}`"))),
        };
        // Whoever hears that the name is taken finds the model that took it.
        let mut known = lock(&self.0);
        if known.contains_key(name) {
            return Err(taken().into());
        }
        if let Some(kernel) = kernel {
            device.add_kernel(kernel).map_err(LoadError::from)?;
        }
        let session = Arc::new(Session::new(device, &model));
        known.insert(name.to_owned(), session.clone());
        Ok(session)
    }

    /// A model that was loaded.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Session>> {
        lock(&self.0).get(name).cloned()
    }
}

/// Runs a model on inputs in their order. Takes long.
pub(crate) fn run(session: &Session, inputs: &[Buffer]) -> Result<Vec<Buffer>, NotRun> {
    let run = catch_unwind(AssertUnwindSafe(|| session.run(&inputs.iter().collect::<Vec<_>>())));
    Ok(run.map_err(|_| NotRun::Broken("running a model".to_owned()))??)
}
