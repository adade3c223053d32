//! One step of work, as plain data.

use dala_spec::Params;

use crate::buffer::Buffer;
use crate::front::{Operand, Outputs};
use crate::memory::{HostData, Readback};

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
        /// What it writes, mostly one buffer; may be one of the inputs.
        outputs: Vec<Operand>,
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
    /// where inputs are some of both. A kernel with several outputs is given a list of them.
    pub fn run_kernel(
        kernel: impl Into<String>,
        inputs: impl IntoIterator<Item: Into<Operand>>,
        output: impl Into<Outputs>,
        params: impl Into<Params>,
    ) -> Stage {
        Stage::RunKernel {
            kernel: kernel.into(),
            inputs: inputs.into_iter().map(Into::into).collect(),
            outputs: output.into().0,
            params: params.into(),
        }
    }

    /// Runs a kernel that has no inputs, as `fill` does.
    pub fn generate(kernel: impl Into<String>, output: impl Into<Outputs>, params: impl Into<Params>) -> Stage {
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
