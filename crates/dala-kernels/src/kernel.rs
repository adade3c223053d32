//! A kernel: what its callers see, what it does, and what its results are checked against.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dala_spec::{Data, Expr, KernelSpec, Program, Signature, SpecError};

use crate::Reference;

/// Which kernel: unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelId(u64);

/// What a kernel does.
#[derive(Clone)]
#[non_exhaustive]
pub enum Work {
    /// One expression per output element, made for the types of a call.
    Pointwise(Arc<dyn Fn(&Signature) -> Expr + Send + Sync>),
}

/// The plain Rust function that computes the same.
type ReferenceFn = fn(&Reference) -> Data;

/// A named operation. Built with [`Kernel::pointwise`].
#[derive(Clone)]
pub struct Kernel {
    /// Which kernel this is.
    pub id: KernelId,
    /// What its callers see.
    pub spec: KernelSpec,
    /// What it does.
    pub work: Work,
    /// What its results are checked against; none for kernels that users define, whose expression is interpreted.
    pub reference: Option<ReferenceFn>,
}

impl Kernel {
    /// A kernel that computes an expression at every element.
    pub fn pointwise(spec: KernelSpec, work: impl Fn(&Signature) -> Expr + Send + Sync + 'static) -> Kernel {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = KernelId(NEXT.fetch_add(1, Ordering::Relaxed));
        Kernel { id, spec, work: Work::Pointwise(Arc::new(work)), reference: None }
    }

    /// The plain Rust function that computes the same.
    pub fn reference(mut self, reference: ReferenceFn) -> Kernel {
        self.reference = Some(reference);
        self
    }

    /// The program for a call.
    ///
    /// # Errors
    ///
    /// The expression does not fit the call's types.
    pub fn program(&self, signature: &Signature) -> Result<Program, SpecError> {
        let Work::Pointwise(work) = &self.work;
        let names: Vec<&str> = self.spec.inputs.iter().map(|input| input.name.as_str()).collect();
        Ok(Program::build(&work(signature), &names, signature)?)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("id", &self.id).field("spec", &self.spec).finish_non_exhaustive()
    }
}
