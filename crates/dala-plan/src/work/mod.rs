//! What a call comes down to: a list of launches over its buffers and over scratch memory, as plain data.
//!
//! A kernel's lowering is a pure function of its call and the device's facts. Each [`Step`] is one launch of one
//! [`Task`]. The arithmetic at a task's edges, what happens to elements as they are loaded and before they are stored, is
//! given as programs ([`Fragment`]), so that neighbouring pointwise work can be fused into it.

mod fold;
mod fragment;
mod image;
mod matrix;
mod moves;

pub use fold::{Finish, Fold, FoldOp, Phase};
pub use fragment::{Argument, Fragment, Source};
pub use image::{APART, Border, Filter, Resample, Stencil, Weigh};
pub use matrix::{Count, Matmul, Pack, Pool, PoolOp, Tile, Windows};
pub use moves::{MOVE_AXES, Move};

use std::sync::Arc;

use dala_spec::{Data, Program, Scalar, Shape, Signature, SpecError, TensorType, Unsupported};

use crate::{DeviceFacts, Support};

/// A buffer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The call's input of that number.
    Input(usize),
    /// The call's output.
    Output,
    /// Scratch memory that lives as long as the call runs.
    Transient(usize),
    /// Data that the plan holds, such as a table of weights.
    Constant(usize),
}

/// A program over every element, or every pixel, of its output.
#[derive(Clone, Debug)]
pub struct Map {
    /// The program.
    pub program: Program,
    /// The output's shape.
    pub shape: Shape,
    /// How many elements each input has: gathers are kept inside.
    pub lens: Vec<usize>,
}

impl Map {
    /// A program over 32-bit words, from inputs of as many words to its output.
    pub fn over_words(program: Program, words: usize) -> Map {
        Map { lens: vec![words; program.inputs().len()], shape: Shape::new([words]), program }
    }

    /// A copy of a whole buffer, in 32-bit words, whatever its element type.
    pub fn copy(ty: &TensorType) -> Map {
        Map::over_words(Program::move_words(), (ty.shape.len() * ty.dtype.size()).div_ceil(4))
    }
}

/// One launch.
#[derive(Clone, Debug)]
pub enum Task {
    /// A program at every element.
    Map(Map),
    /// Lines of elements folded to one, and what is made of that.
    Fold(Fold),
    /// Small separable filters of a picture.
    Stencil(Stencil),
    /// Weighted sums along one axis, as tables say.
    Weigh(Weigh),
    /// A picture of another size, in one pass.
    Resample(Resample),
    /// Words in another order.
    Move(Move),
    /// A matrix laid out in panels, as [`Task::Matmul`] reads its second operand.
    Pack(Pack),
    /// A matrix product.
    Matmul(Matmul),
    /// Windows of pictures made to one pixel each.
    Pool(Pool),
    /// How often each bin occurs.
    Count(Count),
}

impl Task {
    /// The programs it runs, in order.
    pub fn programs(&self) -> Vec<&Program> {
        match self {
            Task::Map(map) => vec![&map.program],
            Task::Fold(fold) => {
                let (Finish::Each(finish) | Finish::Once(finish)) = &fold.finish;
                let phases = fold.phases.iter().map(|phase| &phase.of.program);
                phases.chain([&finish.program]).collect()
            }
            Task::Stencil(stencil) => {
                let edges = [&stencil.load, &stencil.store].into_iter().chain(&stencil.pixels);
                edges.map(|fragment| &fragment.program).collect()
            }
            Task::Weigh(weigh) => vec![&weigh.load.program, &weigh.store.program],
            Task::Resample(resample) => vec![&resample.load.program, &resample.store.program],
            Task::Pack(_) | Task::Move(_) => Vec::new(),
            Task::Matmul(matmul) => vec![&matmul.store.program],
            Task::Pool(pool) => vec![&pool.store.program],
            Task::Count(count) => vec![&count.bin.program],
        }
    }

    /// The same task with its programs changed.
    fn with_programs(mut self, mut f: impl FnMut(&Program) -> Result<Program, SpecError>) -> Result<Task, SpecError> {
        let programs: Vec<&mut Program> = match &mut self {
            Task::Map(map) => vec![&mut map.program],
            Task::Fold(fold) => {
                let (Finish::Each(finish) | Finish::Once(finish)) = &mut fold.finish;
                let phases = fold.phases.iter_mut().map(|phase| &mut phase.of.program);
                phases.chain([&mut finish.program]).collect()
            }
            Task::Stencil(stencil) => {
                let edges = [&mut stencil.load, &mut stencil.store].into_iter().chain(&mut stencil.pixels);
                edges.map(|fragment| &mut fragment.program).collect()
            }
            Task::Weigh(weigh) => vec![&mut weigh.load.program, &mut weigh.store.program],
            Task::Resample(resample) => vec![&mut resample.load.program, &mut resample.store.program],
            Task::Pack(_) | Task::Move(_) => Vec::new(),
            Task::Matmul(matmul) => vec![&mut matmul.store.program],
            Task::Pool(pool) => vec![&mut pool.store.program],
            Task::Count(count) => vec![&mut count.bin.program],
        };
        for program in programs {
            *program = f(program)?;
        }
        Ok(self)
    }

    /// The same task with the params of a call settled in its programs.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn bound(self, kernel: &str, signature: &Signature) -> Result<Task, SpecError> {
        self.with_programs(|program| Ok(program.bound(&program.param_values(kernel, signature)?)))
    }

    /// The values of its programs' run-time params for a call of `kernel`, in the order of [`programs`](Task::programs).
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn param_values(&self, kernel: &str, signature: &Signature) -> Result<Vec<Scalar>, SpecError> {
        let mut values = Vec::new();
        for program in self.programs() {
            values.extend(program.param_values(kernel, signature)?);
        }
        Ok(values)
    }

    /// How a device with these facts would run it.
    ///
    /// # Errors
    ///
    /// The first thing the device does not support.
    pub fn support(&self, facts: &DeviceFacts) -> Result<Support, Unsupported> {
        let mut support = Support::Native;
        for program in self.programs() {
            let own = match self {
                Task::Map(_) => facts.runs(program)?,
                _ => facts.computes(program)?,
            };
            if own == Support::Packed {
                support = Support::Packed;
            }
        }
        let dtype = match self {
            Task::Pack(pack) => pack.dtype,
            Task::Matmul(matmul) => matmul.dtype,
            Task::Pool(pool) => pool.dtype,
            _ => return Ok(support),
        };
        match facts.support(dtype) {
            Support::Refused => Err(Unsupported::DType { dtype, supported: facts.dtypes() }),
            _ => Ok(support),
        }
    }
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
        let (transients, constants) = (self.transients.len(), self.constants.len());
        self.transients.extend(other.transients);
        self.constants.extend(other.constants);
        let place = |place: &Place| match *place {
            Place::Input(index) => inputs.get(index).copied().unwrap_or(output),
            Place::Output => output,
            Place::Transient(index) => Place::Transient(transients + index),
            Place::Constant(index) => Place::Constant(constants + index),
        };
        self.steps.extend(other.steps.into_iter().map(|step| Step {
            reads: step.reads.iter().map(place).collect(),
            writes: step.writes.iter().map(place).collect(),
            parts: vec![part.clone()],
            task: step.task,
        }));
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
            if step.task.support(facts)? == Support::Packed {
                support = Support::Packed;
            }
            let (needed, max) = (step.reads.len() + step.writes.len(), facts.max_bindings);
            if needed > max {
                return Err(Unsupported::Bindings { needed, max });
            }
        }
        Ok(support)
    }
}
