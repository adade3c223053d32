//! The launches of a call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use dala_spec::{Data, Signature, SpecError, TensorType, Unsupported};

use super::{Pack, Task};
use crate::{DeviceFacts, Support};

/// A buffer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The call's input of that number.
    Input(usize),
    /// The call's output.
    Output,
    /// Of a call with several outputs, that one after the first.
    Further(usize),
    /// Scratch memory that lives as long as the call runs.
    Transient(usize),
    /// Data that the plan holds, such as a table of weights.
    Constant(usize),
}

/// One launch of a call: what it does, what it reads and what it writes.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub task: Task,
    /// What it reads; tasks refer to these by number.
    pub reads: Vec<Place>,
    /// What it writes: one buffer for each output of its last program, then scratch memory if its task says so.
    pub writes: Vec<Place>,
    /// What it is a part of, for people: the layers of a network. Empty where the kernel's own name says it all.
    pub parts: Vec<Arc<str>>,
}

/// What a call comes down to.
#[derive(Clone, Debug, Default)]
pub struct Lowering {
    /// The launches, in order.
    pub steps: Vec<Step>,
    /// The scratch memory they need.
    pub transients: Vec<TensorType>,
    /// The data they need beside the call's own.
    pub constants: Vec<Arc<Data>>,
}

impl Lowering {
    /// Nothing yet.
    pub fn new() -> Lowering {
        Lowering::default()
    }

    /// Scratch memory of that type.
    pub fn transient(&mut self, ty: TensorType) -> Place {
        self.transients.push(ty);
        Place::Transient(self.transients.len() - 1)
    }

    /// Data that is uploaded once, when the plan is made.
    pub fn constant(&mut self, data: impl Into<Arc<Data>>) -> Place {
        self.constants.push(data.into());
        Place::Constant(self.constants.len() - 1)
    }

    /// One more launch.
    pub fn step(&mut self, task: Task, reads: impl Into<Vec<Place>>, writes: Place) {
        self.steps.push(Step { task, reads: reads.into(), writes: vec![writes], parts: Vec::new() });
    }

    /// The launches of a call of another kernel, with its params settled: `part` is what people call it.
    pub fn append(&mut self, other: Lowering, inputs: &[Place], output: Place, part: &Arc<str>) {
        let first = self.steps.len();
        self.append_all(other, inputs, output);
        self.steps[first..].iter_mut().for_each(|step| step.parts = vec![part.clone()]);
    }

    /// Other launches as they are, with these buffers for theirs.
    pub fn append_all(&mut self, other: Lowering, inputs: &[Place], output: Place) {
        let (transients, constants) = (self.transients.len(), self.constants.len());
        self.transients.extend(other.transients);
        self.constants.extend(other.constants);
        let place = |place: &Place| match *place {
            Place::Input(index) => inputs.get(index).copied().unwrap_or(output),
            // Calls within calls have one output.
            Place::Output | Place::Further(_) => output,
            Place::Transient(index) => Place::Transient(transients + index),
            Place::Constant(index) => Place::Constant(constants + index),
        };
        self.steps.extend(other.steps.into_iter().map(|step| Step {
            reads: step.reads.iter().map(place).collect(),
            writes: step.writes.iter().map(place).collect(),
            ..step
        }));
    }

    /// What several launches pack in the same way is packed once, as the weights of a layer that is called step by step. Only for
    /// launches of which none writes what one before it wrote.
    pub fn pack_once(&mut self) {
        let mut packed: HashMap<(Pack, Vec<Place>), Place> = HashMap::new();
        let mut same: HashMap<Place, Place> = HashMap::new();
        self.steps.retain_mut(|step| {
            for read in &mut step.reads {
                *read = same.get(read).copied().unwrap_or(*read);
            }
            let (Task::Pack(pack), [writes @ Place::Transient(_)]) = (&step.task, &step.writes[..]) else {
                return true;
            };
            match packed.entry((pack.clone(), step.reads.clone())) {
                Entry::Vacant(first) => {
                    first.insert(*writes);
                    true
                }
                Entry::Occupied(first) => {
                    same.insert(*writes, *first.get());
                    false
                }
            }
        });
    }

    /// The same launches as those of a pipeline's stage, whose params they take.
    pub fn of_stage(mut self, stage: usize) -> Lowering {
        for program in self.steps.iter_mut().flat_map(|step| step.task.kind_mut().programs_mut()) {
            *program = program.of_stage(stage);
        }
        self
    }

    /// The same launches with the params of a call settled in their programs.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn bound(mut self, kernel: &str, signature: &Signature) -> Result<Lowering, SpecError> {
        let bind = |step: Step| Ok(Step { task: step.task.bound(kernel, signature)?, ..step });
        self.steps = self.steps.into_iter().map(bind).collect::<Result<_, SpecError>>()?;
        Ok(self)
    }

    /// How a device with these facts would run it.
    ///
    /// # Errors
    ///
    /// The first thing the device does not support.
    pub fn support(&self, facts: &DeviceFacts) -> Result<Support, Unsupported> {
        let mut support = Support::Native;
        for step in &self.steps {
            match step.task.kind().support(facts)? {
                Support::Native => {}
                other => support = other,
            }
            let (needed, max) = (step.reads.len() + step.writes.len(), facts.max_bindings);
            if needed > max {
                return Err(Unsupported::Bindings { needed, max });
            }
        }
        Ok(support)
    }
}
