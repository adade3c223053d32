//! Stages in order, as the user wrote them.

use std::sync::Arc;

use dala_plan::{CellSpec, PipelineSpec, StageSpec};
use rustc_hash::FxHashMap;

use super::operand::{Operand, Transient};
use crate::buffer::Buffer;
use crate::command::Stage;
use crate::core::Core;
use crate::device::Device;
use crate::error::Error;
use crate::memory::BufferId;
use crate::plan::{Compiled, Plan};

/// An ordered list of stages, to be compiled to one [`Plan`].
///
/// ```
/// # use dala_compute::{Buffer, DType, Device, Pipeline, Stage, Transient};
/// # fn main() -> Result<(), dala_compute::Error> {
/// # let device = Device::open("cpu")?;
/// # let photo = Buffer::zeros(&device, DType::U8, [64, 64, 4])?;
/// # let gray = Buffer::zeros(&device, DType::U8, [64, 64])?;
/// let (soft, sharp) = (Transient::new(), Transient::new());
/// let pipeline = Pipeline::new()
///     .stage(Stage::run_kernel("blur", [&photo], &soft, [("radius", 3)]))
///     .stage(Stage::run_kernel("sharpen", [&soft], &sharp, [("amount", 0.5)]))
///     .stage(Stage::run_kernel("grayscale", [&sharp], &gray, ()));
///
/// let plan = device.compile(&pipeline)?;
/// plan.run()?;
/// assert_eq!(plan.launches(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    stages: Vec<Stage>,
    names: Vec<(BufferId, String)>,
}

/// How a pipeline is compiled.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Whether stages are fused and copies left out. Otherwise every stage is launched by itself, to compare with.
    pub fuse: bool,
}

impl PlanOptions {
    /// Everything is fused that can be.
    pub fn new() -> PlanOptions {
        PlanOptions { fuse: true }
    }

    /// Every stage by itself.
    pub fn unfused() -> PlanOptions {
        PlanOptions { fuse: false }
    }
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions::new()
    }
}

impl Pipeline {
    /// No stages yet.
    pub fn new() -> Pipeline {
        Pipeline::default()
    }

    /// The same with one more stage.
    pub fn stage(mut self, stage: Stage) -> Pipeline {
        self.push(stage);
        self
    }

    /// Appends a stage.
    pub fn push(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// The same with a name for a buffer, for texts and drawings of its plan.
    pub fn named(mut self, buffer: &Buffer, name: impl Into<String>) -> Pipeline {
        self.names.push((buffer.id(), name.into()));
        self
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The number of stages.
    pub fn stage_count(&self) -> usize {
        self.stages.len()
    }
}

impl From<Vec<Stage>> for Pipeline {
    fn from(stages: Vec<Stage>) -> Pipeline {
        Pipeline { stages, names: Vec::new() }
    }
}

impl Device {
    /// Compiles a pipeline: every stage is checked, and what can be fused is. Nothing is launched, and nothing waits for the
    /// device.
    ///
    /// # Errors
    ///
    /// [`Error::Pipeline`] with everything that is wrong, each problem with its stage.
    pub fn compile(&self, pipeline: &Pipeline) -> Result<Plan, Error> {
        self.compile_with(pipeline, PlanOptions::default())
    }

    /// As [`compile`](Device::compile), with options.
    ///
    /// # Errors
    ///
    /// As [`compile`](Device::compile).
    pub fn compile_with(&self, pipeline: &Pipeline, options: PlanOptions) -> Result<Plan, Error> {
        let _span = tracing::debug_span!("plan", stages = pipeline.stages.len()).entered();
        let core = self.core();
        let Cells { spec, buffers } = Cells::of(core, pipeline)?;
        let registry = core.registry();
        let checked = spec.check(|name| registry.get(name).map(|kernel| &kernel.spec))?;
        let kernels = dala_kernels::kernels_of(&spec, &registry);
        let blueprint = dala_kernels::compile_checked(&spec, &checked, &kernels, core.facts(), options.fuse)?;
        let compiled = Compiled::new(blueprint, spec, kernels, core.facts());
        let values = compiled.values(|stage| checked.signatures.get(stage).and_then(Option::as_ref))?;
        Ok(Plan::new(core, Arc::new(compiled), Arc::new(values), buffers))
    }
}

/// The buffers of a pipeline by number, and its stages over these numbers.
struct Cells {
    spec: PipelineSpec,
    buffers: Vec<Buffer>,
}

impl Cells {
    fn of(core: &Arc<Core>, pipeline: &Pipeline) -> Result<Cells, Error> {
        let mut found =
            Finder { core, pipeline, numbers: FxHashMap::default(), cells: Vec::new(), buffers: Vec::new() };
        let (mut stages, mut problems) = (Vec::with_capacity(pipeline.stages.len()), Vec::new());
        for (index, stage) in pipeline.stages.iter().enumerate() {
            match found.stage(stage) {
                Ok(stage) => stages.push(stage),
                Err(error) => problems.push(Error::InStage { stage: index, cause: Box::new(error) }),
            }
        }
        match problems.is_empty() {
            true => Ok(Cells { spec: PipelineSpec { cells: found.cells, stages }, buffers: found.buffers }),
            false => Err(Error::Pipeline { problems }),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Buffer(BufferId),
    Transient(u64),
}

struct Finder<'a> {
    core: &'a Arc<Core>,
    pipeline: &'a Pipeline,
    numbers: FxHashMap<Key, usize>,
    cells: Vec<CellSpec>,
    buffers: Vec<Buffer>,
}

impl Finder<'_> {
    fn stage(&mut self, stage: &Stage) -> Result<StageSpec, Error> {
        let not_plannable = |what| Err(Error::NotPlannable { what });
        match stage {
            Stage::RunKernel { kernel, inputs, outputs, params } => Ok(StageSpec::Run {
                kernel: kernel.clone(),
                inputs: inputs.iter().map(|input| self.number(input)).collect::<Result<_, _>>()?,
                outputs: outputs.iter().map(|output| self.number(output)).collect::<Result<_, _>>()?,
                params: params.clone(),
            }),
            Stage::CopyBuffer { from, to } => Ok(StageSpec::Copy { from: self.number(from)?, to: self.number(to)? }),
            Stage::Barrier => Ok(StageSpec::Barrier),
            Stage::WriteBuffer { .. } => not_plannable("write_buffer"),
            Stage::ClearBuffer { .. } => not_plannable("clear_buffer"),
            Stage::ReadBuffer { .. } => not_plannable("read_buffer"),
        }
    }

    fn number(&mut self, operand: &Operand) -> Result<usize, Error> {
        let key = match operand {
            Operand::Buffer(buffer) => Key::Buffer(buffer.id()),
            Operand::Transient(transient) => Key::Transient(transient.id()),
        };
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let cell = match operand {
            Operand::Buffer(buffer) => {
                buffer.check_device(self.core)?;
                buffer.memory()?;
                self.buffers.push(buffer.clone());
                CellSpec::external(self.name_of(buffer), buffer.ty().clone())
            }
            Operand::Transient(transient) => self.transient(transient),
        };
        self.cells.push(cell);
        self.numbers.insert(key, self.cells.len() - 1);
        Ok(self.cells.len() - 1)
    }

    fn name_of(&self, buffer: &Buffer) -> String {
        let own = self.pipeline.names.iter().rfind(|(id, _)| *id == buffer.id());
        own.map(|(_, name)| name.clone()).unwrap_or_default()
    }

    fn transient(&self, transient: &Transient) -> CellSpec {
        let (dtype, shape) = transient.given();
        let number = self.cells.len() - self.buffers.len();
        let name = transient.name().map_or_else(|| format!("t{number}"), str::to_owned);
        CellSpec { dtype, shape, ..CellSpec::transient(name) }
    }
}
