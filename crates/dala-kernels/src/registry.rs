//! Kernels by name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use dala_spec::{SpecError, nearest};

use crate::{Kernel, list};

/// The kernels that can be called: the built-in ones, and those that were added.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Shared until one is added: every composite has a registry.
    by_name: Arc<HashMap<String, Arc<Kernel>>>,
}

impl Registry {
    /// The built-in kernels.
    pub fn built_in() -> Registry {
        static BUILT_IN: OnceLock<Arc<HashMap<String, Arc<Kernel>>>> = OnceLock::new();
        let by_name = BUILT_IN.get_or_init(|| {
            let kernels = list::built_in().into_iter().map(Arc::new);
            let named = kernels.flat_map(|kernel| names(&kernel).into_iter().map(move |name| (name, kernel.clone())));
            Arc::new(named.collect())
        });
        Registry { by_name: by_name.clone() }
    }

    /// The kernel of that name or alias.
    ///
    /// # Errors
    ///
    /// No kernel has the name; a close one is suggested.
    pub fn get(&self, name: &str) -> Result<&Arc<Kernel>, SpecError> {
        self.by_name.get(name).ok_or_else(|| SpecError::UnknownKernel {
            name: name.to_owned(),
            suggestion: nearest(name, self.by_name.keys().map(String::as_str)).map(str::to_owned),
        })
    }

    /// Adds a kernel.
    ///
    /// # Errors
    ///
    /// One of its names is taken or is no name.
    pub fn add(&mut self, kernel: Kernel) -> Result<(), SpecError> {
        for name in kernel.spec.names() {
            if !is_name(name) {
                return Err(SpecError::BadName { name: name.to_owned() });
            }
            if self.by_name.contains_key(name) {
                return Err(SpecError::DuplicateKernel { name: name.to_owned() });
            }
        }
        let arguments = kernel.spec.inputs.iter().map(|input| &input.name);
        let mut arguments: Vec<&String> = arguments.chain(kernel.spec.params.iter().map(|param| &param.name)).collect();
        if let Some(bad) = arguments.iter().find(|name| !is_name(name)) {
            return Err(SpecError::BadName { name: (*bad).clone() });
        }
        arguments.sort();
        if let Some(twice) = arguments.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SpecError::DuplicateArgument { kernel: kernel.spec.name.clone(), argument: twice[0].clone() });
        }
        let kernel = Arc::new(kernel);
        Arc::make_mut(&mut self.by_name).extend(names(&kernel).into_iter().map(|name| (name, kernel.clone())));
        Ok(())
    }

    /// Every kernel once, by name.
    pub fn kernels(&self) -> Vec<Arc<Kernel>> {
        let own_name = |(name, kernel): &(&String, &Arc<Kernel>)| **name == kernel.spec.name;
        let mut kernels: Vec<_> = self.by_name.iter().filter(own_name).map(|(_, kernel)| kernel.clone()).collect();
        kernels.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        kernels
    }
}

fn names(kernel: &Kernel) -> Vec<String> {
    kernel.spec.names().map(str::to_owned).collect()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use dala_spec::{DType, Data, Expr, KernelSpec, NUMBERS, Params, TensorType, validate};

    fn kernel(name: &str) -> Kernel {
        Kernel::pointwise(KernelSpec::pointwise(name).input("x", NUMBERS), |_| Expr::input("x"))
    }

    #[test]
    fn built_in_names_are_unique_and_well_formed() {
        let mut registry = Registry { by_name: Arc::default() };
        for kernel in list::built_in() {
            registry.add(kernel).unwrap();
        }
    }

    #[test]
    fn aliases_find_the_same_kernel() {
        let registry = Registry::built_in();
        assert_eq!(registry.get("multiply").unwrap().id, registry.get("elementwise_mul").unwrap().id);
        assert_eq!(registry.get("scale").unwrap().id, registry.get("scalar_mul").unwrap().id);
        assert_eq!(registry.get("rleu").unwrap_err().to_string(), "no kernel is called `rleu`, did you mean `relu`?");
    }

    #[test]
    fn references_are_not_asked_for_nothing() {
        let kernel = kernel("own").reference(|_| panic!("asked"));
        let given = |dims: [usize; 2]| {
            let ty = TensorType::new(DType::U8, dims);
            let call = validate(&kernel.spec, std::slice::from_ref(&ty), &ty, &Params::new()).unwrap();
            kernel.on_host(&call, &[Data::zeros(DType::U8, call.output.shape.len())])
        };
        assert_eq!(given([1 << 40, 0]).unwrap(), Some(Data::U8(Vec::new())));
        assert!(given([1, 1]).unwrap_err().to_string().contains("asked"));
    }

    #[test]
    fn taken_and_malformed_names_are_refused() {
        let mut registry = Registry::built_in();
        assert_eq!(registry.add(kernel("relu")).unwrap_err().code(), "duplicate_kernel");
        assert_eq!(registry.add(kernel("multiply")).unwrap_err().code(), "duplicate_kernel");
        for bad in ["", "Relu", "2x", "a-b", "é"] {
            assert_eq!(registry.add(kernel(bad)).unwrap_err().code(), "bad_name");
        }
        let twice = KernelSpec::pointwise("twice").input("x", NUMBERS).input("x", NUMBERS);
        let twice = Kernel::pointwise(twice, |_| Expr::input("x"));
        assert_eq!(registry.add(twice).unwrap_err().code(), "duplicate_argument");
        registry.add(kernel("mine")).unwrap();
        assert_eq!(registry.kernels().len(), list::built_in().len() + 1);
    }
}
