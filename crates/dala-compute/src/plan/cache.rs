//! Calls that were compiled before: a call is a pipeline of one stage.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dala_kernels::{Kernel, KernelId, Work};
use dala_plan::plan::{Cell, LoweredStage};
use dala_plan::work::Map;
use dala_plan::{CellSpec, CheckedPipeline, DeviceFacts, Lowering, PipelineSpec, Place, StageSpec, Task};
use dala_spec::{DType, ParamKind, ParamValue, Params, Program, Signature, TensorType};
use lru::LruCache;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::compiled::Compiled;
use crate::error::Error;

/// How many calls a device remembers.
const CACHED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// What makes two calls compile to the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CallKey {
    Kernel {
        kernel: KernelId,
        inputs: Vec<TensorType>,
        outputs: Vec<TensorType>,
        params: Vec<ParamForm>,
        /// Which buffer each input is, and each output, counted in the order in which they occur: what is compiled relies on
        /// buffers being apart.
        buffers: SmallVec<[u8; 4]>,
    },
    /// Copies so many 32-bit words.
    Copy { words: usize },
    /// Fills so many 32-bit words with zeros.
    Zeros { words: usize },
}

/// What a param's value changes about the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ParamForm {
    /// Nothing: it is a run-time value.
    Value,
    /// A number that is whole computes in integers on integers.
    Number { whole: bool },
    /// Everything: it is built into the code.
    Fixed(String),
}

impl ParamForm {
    fn of(work: &Work, kind: &ParamKind, value: &ParamValue) -> ParamForm {
        match (kind, value) {
            // Weights, tables and the like are made of them: another value is another plan, though not other code.
            _ if matches!(work, Work::Lowered(_)) => ParamForm::Fixed(value.to_string()),
            (ParamKind::Number, value) => ParamForm::Number { whole: value.is_whole() },
            (ParamKind::Int | ParamKind::Float | ParamKind::Bool, _) => ParamForm::Value,
            (_, value) => ParamForm::Fixed(value.to_string()),
        }
    }
}

/// A call of a kernel that fits.
pub(crate) struct KernelCall<'a> {
    pub(crate) kernel: &'a Arc<Kernel>,
    pub(crate) signature: &'a Signature,
    /// The types of the outputs after the first.
    pub(crate) further: Vec<TensorType>,
    /// Which buffer each input is, and each output, counted in the order in which they occur.
    pub(crate) buffers: SmallVec<[u8; 4]>,
}

impl KernelCall<'_> {
    /// The call as a pipeline of one stage.
    fn pipeline(&self) -> (PipelineSpec, CheckedPipeline) {
        let Signature { inputs, output, .. } = self.signature;
        let mut types: Vec<TensorType> = Vec::new();
        for (number, ty) in self.buffers.iter().zip(inputs.iter().chain([output]).chain(&self.further)) {
            if usize::from(*number) == types.len() {
                types.push(ty.clone());
            }
        }
        let mut numbers: Vec<usize> = self.buffers.iter().map(|number| usize::from(*number)).collect();
        let outputs = numbers.split_off(inputs.len());
        let kernel = self.kernel.spec.name.clone();
        let spec = PipelineSpec {
            cells: types.iter().map(|ty| CellSpec::external(String::new(), ty.clone())).collect(),
            stages: vec![StageSpec::Run { kernel, inputs: numbers, outputs, params: Params::new() }],
        };
        let checked = CheckedPipeline {
            types: types.into_iter().map(Some).collect(),
            signatures: vec![Some(self.signature.clone())],
        };
        (spec, checked)
    }

    fn compile(&self, facts: &DeviceFacts) -> Result<Compiled, Error> {
        let (spec, checked) = self.pipeline();
        let kernels = vec![Some(self.kernel.clone())];
        let blueprint = dala_kernels::compile_checked(&spec, &checked, &kernels, facts, true)
            .map_err(|mut problems| Error::Spec(problems.swap_remove(0).error))?;
        Ok(Compiled::new(blueprint, spec, kernels, facts))
    }
}

/// The calls that a device compiled last.
pub(crate) struct Calls(Mutex<LruCache<CallKey, Arc<Compiled>, FxBuildHasher>>);

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls(Mutex::new(LruCache::with_hasher(CACHED, FxBuildHasher)))
    }

    /// A call of a kernel: remembered, or compiled now unless that is not wanted.
    pub(crate) fn kernel(
        &self,
        call: &KernelCall,
        facts: &DeviceFacts,
        only_planned: bool,
    ) -> Result<Arc<Compiled>, Error> {
        let KernelCall { kernel, signature, further, buffers } = call;
        let key = CallKey::Kernel {
            kernel: kernel.id,
            inputs: signature.inputs.clone(),
            outputs: [&signature.output].into_iter().chain(further).cloned().collect(),
            params: signature.params.iter().map(|(_, kind, value)| ParamForm::of(&kernel.work, kind, value)).collect(),
            buffers: buffers.clone(),
        };
        self.get(key, || match only_planned {
            true => Err(Error::Unplanned { kernel: kernel.spec.name.clone() }),
            false => call.compile(facts),
        })
    }

    /// Copies 32-bit words from the first buffer to the second.
    pub(crate) fn copy(&self, words: usize, facts: &DeviceFacts) -> Result<Arc<Compiled>, Error> {
        self.get(CallKey::Copy { words }, || over_words("copy", Program::move_words(), words, facts))
    }

    /// Writes 32-bit zeros to the only buffer.
    pub(crate) fn zeros(&self, words: usize, facts: &DeviceFacts) -> Result<Arc<Compiled>, Error> {
        self.get(CallKey::Zeros { words }, || over_words("zeros", Program::zero_words(), words, facts))
    }

    fn get(&self, key: CallKey, compile: impl FnOnce() -> Result<Compiled, Error>) -> Result<Arc<Compiled>, Error> {
        // Nothing is left half-done by a panic under this lock.
        if let Some(compiled) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(compiled.clone());
        }
        let compiled = Arc::new(compile()?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, compiled.clone());
        Ok(compiled)
    }

    /// Forgets the calls of a kernel.
    pub(crate) fn forget(&self, kernel: KernelId) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |key: &CallKey| matches!(key, CallKey::Kernel { kernel: own, .. } if *own == kernel);
        let own: Vec<CallKey> = calls.iter().filter(|(key, _)| own(key)).map(|(key, _)| key.clone()).collect();
        for key in own {
            calls.pop(&key);
        }
    }

    /// Forgets what holds device memory.
    pub(crate) fn trim(&self) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holding = calls.iter().filter(|(_, compiled)| compiled.holds_memory());
        let holding: Vec<CallKey> = holding.map(|(key, _)| key.clone()).collect();
        for key in holding {
            calls.pop(&key);
        }
    }
}

/// One program over 32-bit words, from the first buffers to the last one.
pub(crate) fn over_words(name: &str, program: Program, words: usize, facts: &DeviceFacts) -> Result<Compiled, Error> {
    let sources = program.inputs().len();
    let mut lowering = Lowering::new();
    let reads: Vec<Place> = (0..sources).map(Place::Input).collect();
    lowering.step(Task::Map(Map::over_words(program, words)), reads, Place::Output);
    let ty = TensorType::new(DType::U32, [words]);
    let cell = Cell { ty: ty.clone(), name: String::new(), transient: false };
    let call = match words {
        0 => LoweredStage::Empty { outputs: vec![sources] },
        _ => LoweredStage::Run { lowering, inputs: (0..sources).collect(), outputs: vec![sources] },
    };
    let cells = vec![cell; sources + 1];
    let blueprint = dala_kernels::plan_calls(&cells, vec![call], vec![name.to_owned()], facts, true)?;
    let cells = vec![CellSpec::external(String::new(), ty); sources + 1];
    Ok(Compiled::new(blueprint, PipelineSpec { cells, stages: Vec::new() }, Vec::new(), facts))
}
