//! Machine code of kernels: known, found in the folder of kept kernels, or made.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cubecl::prelude::{CubeKernel, KernelId};
use cubecl::server::{LaunchError, ServerError};
use cubecl_llvm::{KernelRequirements, PlironCompiler, PlironEngine, PlironOptions};
use cubecl_server::compiler::CompilationError;
use cubecl_server::config::compilation::F16Evaluation;
use cubecl_server::kernel::CompiledKernel;

use super::super::cache::store::{Key, Store};
use super::super::cache::{BuiltKernel, KernelCache};
use super::super::error::EngineError;
use super::super::guard::panic_message;
use super::memory::lock;

/// Why a launch is not ready.
pub(super) enum NotReady {
    /// The code of its kernel is to be obtained first.
    Missing(Box<dyn CubeKernel>),
    Failed(EngineError),
}

impl NotReady {
    /// The error of a launch whose kernel was obtained.
    pub(super) fn into_error(self) -> EngineError {
        match self {
            NotReady::Missing(_) => EngineError::internal("a kernel that was built is not known"),
            NotReady::Failed(error) => error,
        }
    }
}

impl From<EngineError> for NotReady {
    fn from(error: EngineError) -> NotReady {
        NotReady::Failed(error)
    }
}

impl From<ServerError> for NotReady {
    fn from(error: ServerError) -> NotReady {
        NotReady::Failed(error.into())
    }
}

/// Vectors begin at any element, bytes among them: kernels are compiled for that. Processors are as quick where vectors happen to
/// be aligned.
const ALIGNMENT: u32 = 1;

/// Machine code of a kernel.
#[derive(Clone)]
pub(super) struct Code {
    pub(super) engine: PlironEngine,
    /// Units along each axis.
    pub(super) units: [u32; 3],
}

/// How many kernels a device obtained.
#[derive(Default)]
pub(super) struct Count {
    pub(super) made: AtomicU64,
    pub(super) found: AtomicU64,
}

/// The machine code of this process.
pub(super) struct Codes {
    known: Mutex<HashMap<KernelId, Code>>,
    /// How kernels are compiled.
    options: PlironOptions,
    /// What machine code depends on beside its kernel.
    machine: String,
}

impl Codes {
    pub(super) fn new(f16_evaluation: F16Evaluation) -> Codes {
        let options =
            PlironOptions { cpu_buffer_alignment: Some(ALIGNMENT), f16_evaluation, ..PlironOptions::default() };
        let (name, features) = cubecl_llvm::host_cpu_target();
        let machine = format!("{name} {features} {options:?} {:?}", dala_kernels::SOURCES);
        Codes { known: Mutex::default(), options, machine }
    }

    /// The code of a kernel, if it is known in this process.
    pub(super) fn known(&self, id: &KernelId) -> Option<Code> {
        lock(&self.known).get(id).cloned()
    }

    /// Finds or makes the code of kernels, side by side on so many threads, and says which of them failed.
    pub(super) fn obtain(
        &self,
        mut kernels: Vec<Box<dyn CubeKernel>>,
        threads: usize,
        count: &Count,
    ) -> HashMap<KernelId, EngineError> {
        let mut ids = HashSet::new();
        kernels.retain(|kernel| ids.insert(kernel.id()));
        let (next, failures) = (AtomicUsize::new(0), Mutex::new(HashMap::<KernelId, EngineError>::new()));
        let work = || {
            while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.obtain_one(&**kernel, count) {
                    lock(&failures).insert(kernel.id(), ServerError::Launch(error).into());
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(kernels.len()) {
                // If there is no thread to be had, it takes longer.
                let _ = std::thread::Builder::new().name("dala-build".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        failures.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn obtain_one(&self, kernel: &dyn CubeKernel, count: &Count) -> Result<(), LaunchError> {
        let id = kernel.id();
        let store = KernelCache::get().store().filter(|_| dala_kernels::is_numbered(id.type_name()));
        let kept = store.map(|store| (store, Key::of(&["cpu", &self.machine, &id.stable_format()])));
        let code = match kept.and_then(|(store, key)| load(store, key)) {
            Some(code) => {
                count.found.fetch_add(1, Ordering::Relaxed);
                code
            }
            None => {
                count.made.fetch_add(1, Ordering::Relaxed);
                self.make(kernel, kept)?
            }
        };
        lock(&self.known).insert(id, code);
        Ok(())
    }

    fn make(&self, kernel: &dyn CubeKernel, keep: Option<(&Store, Key)>) -> Result<Code, LaunchError> {
        let options = PlironOptions { keep_object: keep.is_some(), ..self.options.clone() };
        let (start, mut generated) = (Instant::now(), Duration::ZERO);
        let built = catch_unwind(AssertUnwindSafe(|| {
            let definition = cubecl::define_kernel(kernel)?;
            generated = start.elapsed();
            CompiledKernel::compile(kernel, definition, &mut PlironCompiler::default(), &options)
        }));
        let compiled_in = start.elapsed() - generated;
        // What LLVM refuses, the engine panics about.
        let compiled = built.unwrap_or_else(|panic| Err(refused(panic_message(&*panic))))?;
        let units = [compiled.cube_dim.x, compiled.cube_dim.y, compiled.cube_dim.z];
        let engine = compiled.repr.ok_or_else(|| refused("there is no code for it"))?.expect_jit();
        let needs = engine.requirements();
        if needs.needs_parallelism || !needs.shared_memories.blocks.is_empty() {
            return Err(
                refused("its units share memory or wait for one another, which this device does not offer").into()
            );
        }
        let object = engine.take_object_bytes();
        if let (Some((store, key)), Some(object)) = (keep, &object) {
            store.put(key, &packed(units, &compiled.entrypoint_name, object));
        }
        BuiltKernel::remember(kernel.name(), Some(generated), compiled_in, object.map(|object| object.len()));
        Ok(Code { engine, units })
    }
}

/// What is kept of a kernel: its units, its name, its object code.
fn packed(units: [u32; 3], name: &str, object: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + name.len() + object.len());
    for number in units.into_iter().chain([name.len() as u32]) {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(object);
    bytes
}

fn load(store: &Store, key: Key) -> Option<Code> {
    let code = unpacked(&store.get(key)?);
    if code.is_none() {
        store.remove(key);
    }
    code
}

fn unpacked(bytes: &[u8]) -> Option<Code> {
    let (numbers, rest) = bytes.split_at_checked(16)?;
    let number = |index: usize| numbers[4 * index..][..4].try_into().map(u32::from_le_bytes).ok();
    let (name, object) = rest.split_at_checked(number(3)? as usize)?;
    let name = std::str::from_utf8(name).ok()?;
    let load = || PlironEngine::from_object(object, name, KernelRequirements::default(), Vec::new());
    let engine = catch_unwind(AssertUnwindSafe(load)).ok()?.ok()?;
    Some(Code { engine, units: [number(0)?, number(1)?, number(2)?] })
}

pub(super) fn refused(reason: impl Into<String>) -> CompilationError {
    CompilationError::Generic { reason: reason.into(), backtrace: cubecl_environment::backtrace::BackTrace::capture() }
}
