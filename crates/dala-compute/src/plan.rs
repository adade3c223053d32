//! What a validated call compiles to, and the cache of it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dala_kernels::program::{CAPACITY_STEP, Geometry};
use dala_kernels::{Kernel, KernelId};
use dala_spec::{DeviceFacts, ParamKind, ParamValue, Program, Signature, SpecError, TensorType, Unsupported};
use lru::LruCache;

/// How many plans a device remembers.
const CACHED_PLANS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// A call, ready to launch with any buffers and params of its types.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) program: Program,
    pub(crate) geometry: Geometry,
    /// How many elements the program runs over; words, if it is a copy.
    pub(crate) len: usize,
}

impl Plan {
    /// Plans `program` over `len` elements; a copy is planned over 32-bit words.
    pub(crate) fn new(program: Program, len: usize, facts: &DeviceFacts) -> Plan {
        let (program, len) = if program.is_copy() {
            let bytes = len * program.outputs()[0].size();
            (Program::move_words(), bytes.div_ceil(4))
        } else {
            (program, len)
        };
        let geometry = Geometry::choose(&program, facts, len);
        Plan { program, geometry, len }
    }

    fn for_call(kernel: &Kernel, signature: &Signature, facts: &DeviceFacts) -> Result<Plan, SpecError> {
        let program = kernel.program(signature)?;
        let refuse = |reason| SpecError::Unsupported {
            kernel: kernel.spec.name.clone(),
            device: format!("the {} device", facts.name),
            reason,
        };
        program.support(facts).map_err(refuse)?;
        let (elements, max) = (signature.output.shape.len(), i32::MAX as usize - CAPACITY_STEP);
        if (program.uses_position() || program.reads_neighbours()) && elements > max {
            return Err(refuse(Unsupported::Length { elements, max }));
        }
        Ok(Plan::new(program, elements, facts))
    }
}

/// What makes two calls use one plan.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlanKey {
    kernel: KernelId,
    inputs: Vec<TensorType>,
    output: TensorType,
    params: Vec<ParamForm>,
}

/// What a param's value changes about the code.
#[derive(Debug, PartialEq, Eq, Hash)]
enum ParamForm {
    /// Nothing: it is a run-time value.
    Value,
    /// A number that is whole computes in integers on integers.
    Number { whole: bool },
    /// Everything: it is built into the code.
    Fixed(String),
}

impl ParamForm {
    fn of(kind: &ParamKind, value: &ParamValue) -> ParamForm {
        match (kind, value) {
            (ParamKind::Number, ParamValue::Int(_)) => ParamForm::Number { whole: true },
            (ParamKind::Number, ParamValue::Float(value)) => ParamForm::Number { whole: value.fract() == 0.0 },
            (ParamKind::Int | ParamKind::Float | ParamKind::Bool, _) => ParamForm::Value,
            (_, value) => ParamForm::Fixed(value.to_string()),
        }
    }
}

/// The plans a device made last.
pub(crate) struct Plans(Mutex<LruCache<PlanKey, Arc<Plan>>>);

impl Plans {
    pub(crate) fn new() -> Plans {
        Plans(Mutex::new(LruCache::new(CACHED_PLANS)))
    }

    /// The plan for a call: remembered, or made now.
    pub(crate) fn get(
        &self,
        kernel: &Kernel,
        signature: &Signature,
        facts: &DeviceFacts,
    ) -> Result<Arc<Plan>, SpecError> {
        let key = PlanKey {
            kernel: kernel.id,
            inputs: signature.inputs.clone(),
            output: signature.output.clone(),
            params: signature.params.iter().map(|(_, kind, value)| ParamForm::of(kind, value)).collect(),
        };
        // Nothing is left half-done by a panic under this lock.
        if let Some(plan) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(Plan::for_call(kernel, signature, facts)?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, plan.clone());
        Ok(plan)
    }
}
