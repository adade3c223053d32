//! Pipelines that were written as text, on buffers of a device.

use dala_plan::{CellSpec, PipelineText, StageSpec};
use dala_spec::{TensorType, nearest};

use super::operand::{Operand, Transient};
use super::pipeline::Pipeline;
use crate::buffer::Buffer;
use crate::command::Stage;
use crate::device::Device;
use crate::engine::EngineError;
use crate::error::Error;

impl Device {
    /// A pipeline that is written as text, on these buffers. Every buffer that is named in `results` and not given is made
    /// here, of the type that follows; all others are transients. The second answer are the buffers of `results`, in that
    /// order.
    ///
    /// ```
    /// # use dala_compute::{Buffer, DType, Device};
    /// use dala_plan::PipelineText;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let device = Device::open("cpu")?;
    /// # let photo = Buffer::zeros(&device, DType::U8, [48, 64, 3])?;
    /// let text = PipelineText::from_chain("blur(radius=3) | grayscale")?;
    /// let (pipeline, results) = device.read_pipeline(&text, &[("input", &photo)], &["output"])?;
    /// device.compile(&pipeline)?.run()?;
    /// assert_eq!(results[0].shape().dims(), [48, 64]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// No stage uses a name, a buffer is not of the type that the text declares, or [`Error::Pipeline`] with everything that
    /// is wrong, each problem with its stage.
    pub fn read_pipeline(
        &self,
        text: &PipelineText,
        given: &[(&str, &Buffer)],
        results: &[&str],
    ) -> Result<(Pipeline, Vec<Buffer>), Error> {
        let names = text.names();
        for name in given.iter().map(|(name, _)| name).chain(results) {
            if !names.contains(name) {
                let suggestion = nearest(name, names.iter().copied()).map(str::to_owned);
                return Err(Error::UnknownName { name: (*name).to_owned(), suggestion });
            }
        }
        let types: Vec<(&str, TensorType)> = given.iter().map(|(name, buffer)| (*name, buffer.ty().clone())).collect();
        let spec = text.spec(&types);
        let types = {
            let registry = self.core().registry();
            spec.check(|name| registry.get(name).map(|kernel| &kernel.spec)).map_err(Error::from)?.types
        };
        let mut pipeline = Pipeline::new();
        let mut operands = Vec::with_capacity(spec.cells.len());
        for (cell, ty) in text.spec(&[]).cells.iter().zip(types) {
            let operand = match given.iter().find(|(name, _)| *name == cell.name) {
                Some((_, buffer)) => {
                    check_declared(cell, buffer)?;
                    Operand::from(*buffer)
                }
                None if results.contains(&cell.name.as_str()) => {
                    let ty = ty.ok_or_else(missing)?;
                    Operand::from(Buffer::reserve(self, ty.dtype, ty.shape)?)
                }
                None => Operand::from(transient(cell)),
            };
            if let Operand::Buffer(buffer) = &operand {
                pipeline = pipeline.named(buffer, cell.name.clone());
            }
            operands.push(operand);
        }
        for stage in spec.stages {
            pipeline.push(match stage {
                StageSpec::Run { kernel, inputs, outputs, params } => {
                    let of = |cells: &[usize]| cells.iter().map(|cell| operands[*cell].clone()).collect::<Vec<_>>();
                    Stage::run_kernel(kernel, of(&inputs), of(&outputs), params)
                }
                StageSpec::Copy { from, to } => Stage::copy_buffer(&operands[from], &operands[to]),
                StageSpec::Barrier => Stage::barrier(),
            });
        }
        let result = |name: &&str| match names.iter().position(|own| own == name).map(|number| &operands[number]) {
            Some(Operand::Buffer(buffer)) => Ok(buffer.clone()),
            _ => Err(missing()),
        };
        let results = results.iter().map(result).collect::<Result<_, _>>()?;
        Ok((pipeline, results))
    }
}

/// A file may be written for pictures of one size.
fn check_declared(cell: &CellSpec, buffer: &Buffer) -> Result<(), Error> {
    let actual = buffer.ty();
    let dtype = cell.dtype.unwrap_or(actual.dtype);
    let expected = TensorType { dtype, shape: cell.shape.clone().unwrap_or_else(|| actual.shape.clone()) };
    if expected == *actual {
        return Ok(());
    }
    let (expected, actual) = (expected.to_string(), actual.to_string());
    Err(Error::PlanMismatch { buffer: buffer.id(), expected, actual })
}

fn transient(cell: &CellSpec) -> Transient {
    let mut transient = Transient::new().named(cell.name.clone());
    if let Some(dtype) = cell.dtype {
        transient = transient.dtype(dtype);
    }
    if let Some(shape) = &cell.shape {
        transient = transient.shape(shape.clone());
    }
    transient
}

fn missing() -> Error {
    EngineError::internal("a buffer of a checked pipeline has no type").into()
}
