//! A kernel: what its callers see, what it does, and what its results are checked against.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dala_plan::work::{Map, Step};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::interpret;
use dala_spec::{DType, Data, Expr, KernelSpec, Params, Program, Signature, SpecError};

use crate::Reference;
use crate::launch::{CubeFunction, cube_task, panic_message};

/// Which kernel: unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelId(u64);

/// What a kernel does.
#[derive(Clone)]
#[non_exhaustive]
pub enum Work {
    /// One expression per output element, made for the types of a call.
    Pointwise(Arc<MakeExpr>),
    /// Launches over the call's buffers and over scratch memory.
    Lowered(Arc<MakeLowering>),
    /// Calls of other kernels, made for the types of a call.
    Composite(Arc<MakeParts>),
}

/// The expression of a call of a pointwise kernel.
pub type MakeExpr = dyn Fn(&Signature) -> Expr + Send + Sync;

/// What a call of a composite kernel comes down to.
pub trait Parts: Send + Sync {
    /// Its launches on a device.
    ///
    /// # Errors
    ///
    /// A part does not fit the device.
    fn lower(&self, facts: &DeviceFacts) -> Result<Lowering, SpecError>;

    /// Its results, computed by the references of its parts; none if a part has no reference.
    ///
    /// # Errors
    ///
    /// A call does not fit its kernel.
    fn on_host(&self, inputs: &[Data]) -> Result<Option<Vec<Data>>, SpecError>;
}

/// The parts of a call.
pub type MakeParts = dyn Fn(&Signature) -> Result<Arc<dyn Parts>, SpecError> + Send + Sync;

/// The launches that a call comes down to on a device.
pub type MakeLowering = dyn Fn(&Signature, &DeviceFacts) -> Result<Lowering, SpecError> + Send + Sync;

/// The same, where kernels of one kind hand it on.
pub(crate) type LowerFn = fn(&Signature, &DeviceFacts) -> Result<Lowering, SpecError>;

/// A small call of a kernel, for the table of what runs where.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The inputs' shapes.
    pub inputs: &'static [&'static [usize]],
    /// The output's shape.
    pub output: &'static [usize],
    /// The output's element type, where it is not the first input's.
    pub dtype: Option<DType>,
    /// The params, where the defaults are not enough.
    pub params: fn() -> Params,
}

/// The plain Rust function that computes the same.
pub type MakeReference = dyn Fn(&Reference) -> Data + Send + Sync;

/// The same, where kernels of one kind hand it on.
pub(crate) type ReferenceFn = fn(&Reference) -> Data;

/// A named operation. Built with [`Kernel::pointwise`], [`Kernel::lowered`], [`Kernel::cube`] or [`Kernel::composite`].
#[derive(Clone)]
pub struct Kernel {
    /// Which kernel this is.
    pub id: KernelId,
    /// What its callers see.
    pub spec: KernelSpec,
    /// What it does.
    pub work: Work,
    /// A small call of it; none for kernels that take one shape for all, whose calls can be made up.
    pub example: Option<Example>,
    /// What its results are checked against; none for kernels that users define, whose expression is interpreted.
    pub reference: Option<Arc<MakeReference>>,
}

impl Kernel {
    /// What a call gives, computed on the host in plain Rust; its first output, where it has several. None where nobody wrote
    /// down how.
    ///
    /// # Errors
    ///
    /// The call does not fit the kernel, or its reference panics.
    pub fn on_host(&self, signature: &Signature, inputs: &[Data]) -> Result<Option<Data>, SpecError> {
        let outputs = self.outputs_on_host(signature, inputs)?;
        Ok(outputs.and_then(|outputs| outputs.into_iter().next()))
    }

    /// As [`on_host`](Kernel::on_host), with all outputs.
    ///
    /// # Errors
    ///
    /// The call does not fit the kernel, or its reference panics.
    pub fn outputs_on_host(&self, signature: &Signature, inputs: &[Data]) -> Result<Option<Vec<Data>>, SpecError> {
        if let Some(reference) = &self.reference {
            // An axis of nothing may be of any length, and references go along axes.
            if signature.output.shape.is_empty() {
                return Ok(Some(vec![Data::zeros(signature.output.dtype, 0)]));
            }
            let data = self.caught(|| Ok(reference(&Reference { inputs, signature })))?;
            self.read_right(signature)?;
            return Ok(Some(vec![data]));
        }
        if let Work::Composite(make) = &self.work {
            return make(signature)?.on_host(inputs);
        }
        let Some(program) = self.program(signature)? else { return Ok(None) };
        let values = program.param_values(&self.spec.name, signature)?;
        Ok(Some(interpret(&program, inputs, &values, &signature.output.shape)))
    }

    fn new(spec: KernelSpec, work: Work) -> Kernel {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = KernelId(NEXT.fetch_add(1, Ordering::Relaxed));
        Kernel { id, spec, work, example: None, reference: None }
    }

    /// A kernel that computes an expression at every element.
    pub fn pointwise(spec: KernelSpec, work: impl Fn(&Signature) -> Expr + Send + Sync + 'static) -> Kernel {
        Kernel::new(spec, Work::Pointwise(Arc::new(work)))
    }

    /// A kernel that comes down to launches.
    pub fn lowered(
        spec: KernelSpec,
        lower: impl Fn(&Signature, &DeviceFacts) -> Result<Lowering, SpecError> + Send + Sync + 'static,
    ) -> Kernel {
        Kernel::new(spec, Work::Lowered(Arc::new(lower)))
    }

    /// A kernel that is one whole CubeCL function, from all inputs to the output. Nothing is fused with it.
    pub fn cube(spec: KernelSpec, function: impl CubeFunction) -> Kernel {
        let (name, function): (Arc<str>, Arc<dyn CubeFunction>) = (spec.name.as_str().into(), Arc::new(function));
        Kernel::lowered(spec, move |call, facts| {
            let mut lowering = Lowering::new();
            let reads: Vec<Place> = (0..call.inputs.len()).map(Place::Input).collect();
            lowering.step(cube_task(name.clone(), &function, call.clone(), facts), reads, Place::Output);
            Ok(lowering)
        })
    }

    /// A kernel that comes down to calls of others.
    pub fn composite<P: Parts + 'static>(
        spec: KernelSpec,
        make: impl Fn(&Signature) -> Result<Arc<P>, SpecError> + Send + Sync + 'static,
    ) -> Kernel {
        Kernel::new(spec, Work::Composite(Arc::new(move |signature| Ok(make(signature)?))))
    }

    /// The shapes of a small call.
    pub fn example(mut self, inputs: &'static [&'static [usize]], output: &'static [usize]) -> Kernel {
        self.example = Some(Example { inputs, output, dtype: None, params: Params::new });
        self
    }

    /// The output's element type in the small call, where it is not the first input's.
    pub fn example_dtype(mut self, dtype: DType) -> Kernel {
        self.example = self.example.map(|example| Example { dtype: Some(dtype), ..example });
        self
    }

    /// The params of the small call.
    pub fn example_params(mut self, params: fn() -> Params) -> Kernel {
        self.example = self.example.map(|example| Example { params, ..example });
        self
    }

    /// The plain Rust function that computes the same.
    pub fn reference(mut self, reference: impl Fn(&Reference) -> Data + Send + Sync + 'static) -> Kernel {
        self.reference = Some(Arc::new(reference));
        self
    }

    /// The program of a call, where the kernel is one expression.
    ///
    /// # Errors
    ///
    /// The expression does not fit the call's types.
    pub fn program(&self, signature: &Signature) -> Result<Option<Program>, SpecError> {
        match &self.work {
            Work::Pointwise(work) => self.built(&**work, signature).map(Some),
            _ => Ok(None),
        }
    }

    fn built(&self, work: &MakeExpr, signature: &Signature) -> Result<Program, SpecError> {
        let names: Vec<&str> = self.spec.inputs.iter().map(|input| input.name.as_str()).collect();
        let expr = work(signature);
        self.read_right(signature)?;
        Ok(Program::build(&expr, &names, signature)?)
    }

    /// Anybody may have written the kernel: if it panics, that is an error of its callers.
    fn caught<T>(&self, call: impl FnOnce() -> Result<T, SpecError>) -> Result<T, SpecError> {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            Err(SpecError::KernelFailed { kernel: self.spec.name.clone(), message: panic_message(&*panic) })
        })
    }

    /// Whether every param that was read so far is one that the kernel has.
    fn read_right(&self, signature: &Signature) -> Result<(), SpecError> {
        match signature.params.missed() {
            None => Ok(()),
            Some(name) => Err(SpecError::internal(format!(
                "kernel `{}` reads a param `{name}` that it does not have",
                self.spec.name
            ))),
        }
    }

    /// The launches that a call comes down to on a device.
    ///
    /// # Errors
    ///
    /// The expression does not fit the call's types, or the kernel panics.
    pub fn lower(&self, signature: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
        let lowering = match &self.work {
            Work::Pointwise(work) => map_all(self.built(&**work, signature)?, signature),
            Work::Lowered(lower) => self.caught(|| lower(signature, facts))?,
            Work::Composite(make) => self.caught(|| make(signature)?.lower(facts))?,
        };
        self.read_right(signature)?;
        let written = |step: &Step| step.writes.contains(&Place::Output);
        if !signature.output.shape.is_empty() && !lowering.steps.iter().any(written) {
            return Err(SpecError::internal(format!("kernel `{}` does not write its output", self.spec.name)));
        }
        Ok(lowering)
    }
}

/// One launch of a program from all inputs to the output. A copy moves 32-bit words, whatever the element type.
pub(crate) fn map_all(program: Program, signature: &Signature) -> Lowering {
    let mut lowering = Lowering::new();
    let reads: Vec<Place> = (0..signature.inputs.len()).map(Place::Input).collect();
    let map = if program.is_copy() {
        Map::copy(&signature.output)
    } else {
        let lens = signature.inputs.iter().map(|input| input.shape.len()).collect();
        Map { program, shape: signature.output.shape.clone(), lens }
    };
    lowering.step(Task::Map(map), reads, Place::Output);
    lowering
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("id", &self.id).field("spec", &self.spec).finish_non_exhaustive()
    }
}
