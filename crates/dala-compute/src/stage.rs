//! One step of work, as plain data.

use std::sync::Arc;

use dala_kernels::Work;
use dala_spec::{Params, TensorType, validate};
use smallvec::{SmallVec, smallvec};

use crate::device::Core;
use crate::job::{Job, Planned, Prepared};
use crate::{Buffer, Error, HostData, Operand, Readback};

/// One step of work. A list of them is submitted as one [`Command`](crate::Command) and executed in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Stage {
    /// Runs a kernel.
    RunKernel {
        /// Its name.
        kernel: String,
        /// What it reads.
        inputs: Vec<Operand>,
        /// What it writes; may be one of the inputs.
        output: Operand,
        /// Its params.
        params: Params,
    },
    /// Copies the bytes of a buffer to another of the same size.
    CopyBuffer {
        /// What is copied.
        from: Operand,
        /// Where to.
        to: Operand,
    },
    /// Replaces the elements of a buffer by data of the host, without waiting for the device.
    WriteBuffer {
        /// The buffer.
        to: Buffer,
        /// Its new elements, little-endian.
        data: HostData,
    },
    /// Replaces the elements of a buffer by zeros.
    ClearBuffer {
        /// The buffer.
        to: Buffer,
    },
    /// Reads the elements of a buffer, as they are after the stages before it.
    ReadBuffer {
        /// The buffer.
        from: Buffer,
        /// Where to find them once the command has completed.
        into: Readback,
    },
    /// Everything before it in the command comes before everything after it, also where nothing depends on anything.
    Barrier,
}

impl Stage {
    /// Runs a kernel. Inputs and output are buffers, or in a pipeline transients: `[Operand::from(&x), Operand::from(&t)]`
    /// where inputs are some of both.
    pub fn run_kernel(
        kernel: impl Into<String>,
        inputs: impl IntoIterator<Item: Into<Operand>>,
        output: impl Into<Operand>,
        params: impl Into<Params>,
    ) -> Stage {
        Stage::RunKernel {
            kernel: kernel.into(),
            inputs: inputs.into_iter().map(Into::into).collect(),
            output: output.into(),
            params: params.into(),
        }
    }

    /// Runs a kernel that has no inputs, as `fill` does.
    pub fn generate(kernel: impl Into<String>, output: impl Into<Operand>, params: impl Into<Params>) -> Stage {
        Stage::run_kernel(kernel, std::iter::empty::<Operand>(), output, params)
    }

    /// Copies the bytes of a buffer to another of the same size.
    pub fn copy_buffer(from: impl Into<Operand>, to: impl Into<Operand>) -> Stage {
        Stage::CopyBuffer { from: from.into(), to: to.into() }
    }

    /// Replaces the elements of a buffer by little-endian bytes. They are not copied before it is their turn.
    pub fn write_buffer(to: &Buffer, data: impl Into<HostData>) -> Stage {
        Stage::WriteBuffer { to: to.clone(), data: data.into() }
    }

    /// Replaces the elements of a buffer by zeros.
    pub fn clear_buffer(to: &Buffer) -> Stage {
        Stage::ClearBuffer { to: to.clone() }
    }

    /// Reads the elements of a buffer into `into`.
    pub fn read_buffer(from: &Buffer, into: &Readback) -> Stage {
        Stage::ReadBuffer { from: from.clone(), into: into.clone() }
    }

    /// Orders everything before it in the command before everything after it.
    pub fn barrier() -> Stage {
        Stage::Barrier
    }
}

/// So that one stage can be submitted without a list around it.
impl From<Stage> for Vec<Stage> {
    fn from(stage: Stage) -> Vec<Stage> {
        vec![stage]
    }
}

/// The buffer that is meant, outside of a pipeline.
fn buffer_of(operand: &Operand) -> Result<&Buffer, Error> {
    match operand {
        Operand::Buffer(buffer) => Ok(buffer),
        Operand::Transient(transient) => Err(Error::TransientOutside { name: format!("{transient:?}") }),
    }
}

impl Core {
    /// Validates and plans stages. Nothing waits for the device.
    pub(crate) fn prepare(self: &Arc<Core>, stages: &[Stage], only_planned: bool) -> Result<Job, Error> {
        let mut job = Job::default();
        job.only_planned = only_planned;
        for (index, stage) in stages.iter().enumerate() {
            self.prepare_stage(&mut job, stage).map_err(|error| error.in_stage(index, stages.len()))?;
        }
        Ok(job)
    }

    /// Everything that is wrong with stages.
    pub(crate) fn problems(self: &Arc<Core>, stages: &[Stage]) -> Vec<Error> {
        let mut job = Job::default();
        let mut problems = Vec::new();
        for (index, stage) in stages.iter().enumerate() {
            if let Err(error) = self.prepare_stage(&mut job, stage) {
                problems.push(error.in_stage(index, stages.len()));
            }
        }
        problems
    }

    fn prepare_stage(self: &Arc<Core>, job: &mut Job, stage: &Stage) -> Result<(), Error> {
        match stage {
            Stage::RunKernel { kernel, inputs, output, params } => {
                let inputs: SmallVec<[&Buffer; 4]> = inputs.iter().map(buffer_of).collect::<Result<_, _>>()?;
                self.prepare_kernel(job, kernel, &inputs, buffer_of(output)?, params)
            }
            Stage::CopyBuffer { from, to } => self.prepare_copy(job, buffer_of(from)?, buffer_of(to)?),
            Stage::WriteBuffer { to, data } => {
                to.check_device(self)?;
                to.check_size(data.len())?;
                let target = to.memory()?;
                let upload = Prepared::Upload { to: target, data: data.clone() };
                job.push(if data.is_empty() { Prepared::Nothing } else { upload }, &[], &[to.slot()]);
                Ok(())
            }
            Stage::ClearBuffer { to } => self.prepare_zeros(job, to),
            Stage::ReadBuffer { from, into } => {
                from.check_device(self)?;
                let (source, bytes) = (from.memory()?, from.size_bytes());
                if bytes == 0 {
                    into.put(Vec::new());
                    job.push(Prepared::Nothing, &[from.slot()], &[]);
                } else {
                    let download = Prepared::Download { from: source, bytes, into: into.clone() };
                    job.push(download, &[from.slot()], &[]);
                }
                Ok(())
            }
            Stage::Barrier => {
                job.push(Prepared::Nothing, &[], &[]);
                Ok(())
            }
        }
    }

    pub(crate) fn prepare_kernel(
        self: &Arc<Core>,
        job: &mut Job,
        kernel: &str,
        inputs: &[&Buffer],
        output: &Buffer,
        params: &Params,
    ) -> Result<(), Error> {
        let kernel = self.registry().get(kernel)?.clone();
        for buffer in inputs.iter().chain([&output]) {
            buffer.check_device(self)?;
        }
        let types: Vec<TensorType> = inputs.iter().map(|input| input.ty().clone()).collect();
        // Every problem is found; the first one is reported.
        let signature = validate(&kernel.spec, &types, output.ty(), params)
            .map_err(|mut problems| Error::Spec(problems.swap_remove(0)))?;
        let target = output.memory()?;
        let sources = inputs.iter().map(|input| input.memory()).collect::<Result<SmallVec<[_; 3]>, _>>()?;
        let reads: SmallVec<[_; 4]> = inputs.iter().map(|input| input.slot()).collect();
        if output.is_empty() && matches!(kernel.work, Work::Lowered(_)) {
            // Nothing to do, so nothing is planned: tables for one huge side of an empty picture would be.
            job.push(Prepared::Nothing, &reads, &[output.slot()]);
            return Ok(());
        }
        let plan = self.plans.call(self.facts(), &kernel, &signature, job.only_planned)?;
        let params = plan.param_values(&kernel.spec.name, &signature)?;
        if output.is_empty() {
            job.push(Prepared::Nothing, &reads, &[output.slot()]);
            return Ok(());
        }
        let reads_output = sources.iter().any(|source| Arc::ptr_eq(source, &target));
        let copy = if reads_output && !plan.works_in_place() {
            Some(self.plans.copy(self.facts(), output.size_bytes().div_ceil(4))?)
        } else {
            None
        };
        let planned = Planned { plan, copy, inputs: sources, output: target, params };
        job.push(Prepared::Launch(planned), &reads, &[output.slot()]);
        Ok(())
    }

    pub(crate) fn prepare_zeros(self: &Arc<Core>, job: &mut Job, to: &Buffer) -> Result<(), Error> {
        to.check_device(self)?;
        let output = to.memory()?;
        let stage = match to.size_bytes().div_ceil(4) {
            0 => Prepared::Nothing,
            words => {
                let plan = self.plans.zeros(self.facts(), words)?;
                Prepared::Launch(Planned { plan, copy: None, inputs: SmallVec::new(), output, params: Vec::new() })
            }
        };
        job.push(stage, &[], &[to.slot()]);
        Ok(())
    }

    pub(crate) fn prepare_copy(self: &Arc<Core>, job: &mut Job, from: &Buffer, to: &Buffer) -> Result<(), Error> {
        from.check_device(self)?;
        to.check_device(self)?;
        to.check_size(from.size_bytes())?;
        let (source, target) = (from.memory()?, to.memory()?);
        let words = from.size_bytes().div_ceil(4);
        let stage = if words == 0 || from.id() == to.id() {
            Prepared::Nothing
        } else {
            let plan = self.plans.copy(self.facts(), words)?;
            Prepared::Launch(Planned {
                plan,
                copy: None,
                inputs: smallvec![source],
                output: target,
                params: Vec::new(),
            })
        };
        job.push(stage, &[from.slot()], &[to.slot()]);
        Ok(())
    }
}
