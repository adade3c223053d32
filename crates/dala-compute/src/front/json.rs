//! Commands as text, in which buffers are named by their ids.

use serde::Deserialize;

use dala_spec::{ParamValue, Params};

use super::operand::Operand;
use crate::command::Stage;
use crate::device::Device;
use crate::error::Error;
use crate::memory::BufferId;

/// A stage as it is written. Fields that its operation does not have are mistakes.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum StageText {
    RunKernel {
        kernel: String,
        inputs: Vec<u64>,
        output: OutputText,
        #[serde(default)]
        params: std::collections::BTreeMap<String, ParamValue>,
    },
    CopyBuffer {
        inputs: [u64; 1],
        output: u64,
    },
    Barrier {},
}

/// What a kernel writes: one buffer, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum OutputText {
    One(u64),
    Several(Vec<u64>),
}

impl OutputText {
    fn ids(self) -> Vec<u64> {
        match self {
            OutputText::One(id) => vec![id],
            OutputText::Several(ids) => ids,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CommandText {
    List(Vec<serde_json::Value>),
    One(serde_json::Value),
}

impl Device {
    /// The stages of a command that is written as JSON: one stage, or a list of them. Buffers are named by their ids.
    ///
    /// ```
    /// # use dala_compute::{Buffer, Device};
    /// # fn main() -> Result<(), dala_compute::Error> {
    /// # let device = Device::open("cpu")?;
    /// let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2])?;
    /// let id = x.id().0;
    /// let text = format!(r#"{{"op": "run_kernel", "kernel": "relu", "inputs": [{id}], "output": {id}}}"#);
    /// device.submit(device.parse_command(&text)?)?.wait(None)?;
    /// assert_eq!(x.read::<f32>()?, [1.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The text is no command, or nobody holds a buffer of an id in it.
    pub fn parse_command(&self, json: &str) -> Result<Vec<Stage>, Error> {
        let invalid = |error: serde_json::Error| Error::InvalidCommand { reason: error.to_string() };
        let stages = match serde_json::from_str(json).map_err(invalid)? {
            CommandText::List(stages) => stages,
            CommandText::One(stage) => vec![stage],
        };
        let count = stages.len();
        let parse = |(index, stage): (usize, serde_json::Value)| {
            let stage = if stage.is_object() {
                serde_json::from_value(stage).map_err(invalid).and_then(|stage| self.stage_of(stage))
            } else {
                Err(Error::InvalidCommand { reason: "a stage is an object with `op`".to_owned() })
            };
            stage.map_err(|error| error.in_stage(index, count))
        };
        stages.into_iter().enumerate().map(parse).collect()
    }

    fn stage_of(&self, text: StageText) -> Result<Stage, Error> {
        let buffer = |id: u64| self.buffer(BufferId(id)).map(Operand::Buffer);
        Ok(match text {
            StageText::RunKernel { kernel, inputs, output, params } => Stage::RunKernel {
                kernel,
                inputs: inputs.into_iter().map(buffer).collect::<Result<_, _>>()?,
                outputs: output.ids().into_iter().map(buffer).collect::<Result<_, _>>()?,
                params: params.into_iter().fold(Params::new(), |params, (name, value)| params.with(name, value)),
            },
            StageText::CopyBuffer { inputs: [from], output } => {
                Stage::CopyBuffer { from: buffer(from)?, to: buffer(output)? }
            }
            StageText::Barrier {} => Stage::Barrier,
        })
    }
}
