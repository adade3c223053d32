//! From stages to work: each is validated, and compiled unless it was before.

use std::sync::Arc;

use dala_kernels::Kernel;
use dala_spec::{Params, TensorType, validate, validate_further, validate_outputs};
use smallvec::SmallVec;

use super::stage::Stage;
use super::work::{Job, Prepared};
use crate::buffer::Buffer;
use crate::core::Core;
use crate::error::Error;
use crate::front::Operand;
use crate::plan::{Compiled, Keeps, KernelCall, Run, Values};

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
            job.begin_stage();
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
            Stage::RunKernel { kernel, inputs, outputs, params } => {
                let inputs: SmallVec<[&Buffer; 4]> = inputs.iter().map(buffer_of).collect::<Result<_, _>>()?;
                let outputs: SmallVec<[&Buffer; 1]> = outputs.iter().map(buffer_of).collect::<Result<_, _>>()?;
                self.prepare_kernel(job, self.registry().get(kernel)?, &inputs, &outputs, params, false)
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

    pub(crate) fn prepare_kernel<'a>(
        self: &Arc<Core>,
        job: &mut Job,
        kernel: &Arc<Kernel>,
        inputs: &[&'a Buffer],
        outputs: &[&'a Buffer],
        params: &Params,
        again: bool,
    ) -> Result<(), Error> {
        for buffer in inputs.iter().chain(outputs) {
            buffer.check_device(self)?;
        }
        let ids: SmallVec<[_; 1]> = outputs.iter().map(|output| output.id()).collect();
        validate_outputs(&kernel.spec, &ids)?;
        let types: Vec<TensorType> = inputs.iter().map(|input| input.ty().clone()).collect();
        // Every problem is found; the first one is reported.
        let signature = validate(&kernel.spec, &types, outputs[0].ty(), params)
            .map_err(|mut problems| Error::Spec(problems.swap_remove(0)))?;
        let further: Vec<TensorType> = outputs.iter().skip(1).map(|output| output.ty().clone()).collect();
        validate_further(&kernel.spec, &types, &further)?;
        let mut buffers: SmallVec<[&Buffer; 3]> = SmallVec::new();
        let mut number = |buffer: &'a Buffer| {
            let known = buffers.iter().position(|own| own.id() == buffer.id());
            known.unwrap_or_else(|| {
                buffers.push(buffer);
                buffers.len() - 1
            }) as u8
        };
        let numbers = inputs.iter().chain(outputs).copied().map(&mut number).collect();
        let call = KernelCall { kernel, signature: &signature, further, buffers: numbers };
        let compiled = self.calls.kernel(&call, self.facts(), job.only_planned)?;
        let values = compiled.values(|_| Some(&signature))?;
        // Launches are those of the last run only if their values are.
        let keeps = match again && kernel.spec.params.is_empty() {
            true => Keeps::Frames(compiled.frames.clone()),
            false => Keeps::Nothing,
        };
        push_call(job, &compiled, values, &buffers, keeps)
    }

    pub(crate) fn prepare_zeros(self: &Arc<Core>, job: &mut Job, to: &Buffer) -> Result<(), Error> {
        to.check_device(self)?;
        let compiled = self.calls.zeros(to.size_bytes().div_ceil(4), self.facts())?;
        push_call(job, &compiled, Values::new(), &[to], Keeps::Nothing)
    }

    pub(crate) fn prepare_copy(self: &Arc<Core>, job: &mut Job, from: &Buffer, to: &Buffer) -> Result<(), Error> {
        from.check_device(self)?;
        to.check_device(self)?;
        to.check_size(from.size_bytes())?;
        if from.id() == to.id() {
            from.memory()?;
            job.push(Prepared::Nothing, &[from.slot()], &[to.slot()]);
            return Ok(());
        }
        let compiled = self.calls.copy(from.size_bytes().div_ceil(4), self.facts())?;
        push_call(job, &compiled, Values::new(), &[from, to], Keeps::Nothing)
    }
}

/// Adds a run of a compiled call over these buffers.
fn push_call(
    job: &mut Job,
    compiled: &Arc<Compiled>,
    values: Values,
    buffers: &[&Buffer],
    keeps: Keeps,
) -> Result<(), Error> {
    let memory = buffers.iter().map(|buffer| buffer.memory()).collect::<Result<_, _>>()?;
    let of = || buffers.iter().map(|buffer| buffer.slot()).zip(&compiled.blueprint.externals);
    let reads: SmallVec<[_; 3]> = of().filter(|(_, external)| external.read).map(|(slot, _)| slot).collect();
    let writes: SmallVec<[_; 1]> = of().filter(|(_, external)| external.written).map(|(slot, _)| slot).collect();
    job.push_run(Run::new(compiled, memory, Arc::new(values), keeps), &reads, &writes);
    Ok(())
}
