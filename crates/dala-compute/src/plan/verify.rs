//! Is a plan right on this device? Every stage against its plain Rust reference, and the plan against its stages.

use std::fmt;

use dala_kernels::Kernel;
use dala_plan::StageSpec;
use dala_spec::{Closeness, Data, Params, Scalar, Signature, TensorType, Tolerance};

use super::Plan;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;

/// The first place where a device's result is not what it should be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The stage, counted from 0; none if every stage is right by itself and the plan as a whole is not.
    pub stage: Option<usize>,
    /// What the stage is called, or the buffer where the plan is wrong.
    pub name: String,
    /// The element, counted from 0.
    pub element: usize,
    /// What it should be.
    pub expected: f64,
    /// What the device says.
    pub actual: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { stage, name, element, expected, actual } = self;
        match stage {
            Some(stage) => write!(f, "stage {stage} ({name}): element {element} is {actual}, and should be {expected}"),
            None => write!(
                f,
                "every stage is right, but fused they are not: element {element} of {name} is {actual}, and should be {expected}"
            ),
        }
    }
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verification {
    /// Stages that were compared.
    pub stages: usize,
    /// Elements that were compared.
    pub elements: usize,
    /// The first difference.
    pub difference: Option<Difference>,
}

impl Verification {
    /// Whether everything is as it should be.
    pub fn is_right(&self) -> bool {
        self.difference.is_none()
    }
}

/// The part of u8 elements that may be one level off where stages are fused: they are computed through floats.
const OFF_BY_ONE: f64 = 0.001;

impl Plan {
    /// Checks every stage against its plain Rust reference on what the stage before gave, and then the plan as a whole
    /// against its stages. `inputs` says what is in the plan's buffers, where it is not what is there now. The buffers
    /// themselves stay as they are.
    ///
    /// # Errors
    ///
    /// The device fails, or a buffer that the plan reads is unreadable.
    pub fn verify(&self, inputs: &[(&Buffer, &Data)]) -> Result<Verification, Error> {
        let (inner, device) = (&self.0, self.device());
        let compiled = &inner.compiled;
        let mut cells = Cells::copy(self, inputs)?;
        let copies = cells.buffers.clone();
        let mut found = Verification { stages: 0, elements: 0, difference: None };
        let mut allowed = vec![Allowed::default(); compiled.spec.cells.len()];
        for (stage, (what, kernel)) in compiled.spec.stages.iter().zip(&compiled.kernels).enumerate() {
            match (what, kernel) {
                (StageSpec::Run { inputs, outputs, params, .. }, Some(kernel)) => {
                    let call = StageCall { kernel, inputs, outputs, params };
                    let scale = cells.largest(inputs);
                    found.stages += 1;
                    for (expected, actual) in cells.run(&device, &call)? {
                        found.elements += expected.len();
                        let tolerance = kernel.spec.tolerance;
                        if let Some((element, expected, actual)) = differs(tolerance, scale, &expected, &actual) {
                            let name = kernel.spec.name.clone();
                            found.difference = Some(Difference { stage: Some(stage), name, element, expected, actual });
                            return Ok(found);
                        }
                    }
                    let sum = inputs.iter().map(|input| allowed[*input]).fold(Allowed::default(), Allowed::and);
                    let sum = sum.and(Allowed { stages: 1, levels: kernel.spec.tolerance.levels });
                    outputs.iter().for_each(|output| allowed[*output] = sum);
                }
                (StageSpec::Copy { from, to }, _) => {
                    cells.copy_stage(*from, *to)?;
                    allowed[*to] = allowed[*from];
                }
                _ => {}
            }
        }
        // The plan on copies of its own.
        let pairs: Vec<(&Buffer, &Buffer)> = inner.buffers.iter().zip(&copies).collect();
        self.rebind(&pairs)?.run()?;
        let externals = compiled.spec.cells.iter().enumerate().filter(|(_, cell)| !cell.transient);
        for ((cell, spec), (buffer, external)) in externals.zip(copies.iter().zip(&compiled.blueprint.externals)) {
            if !external.written || buffer.is_empty() {
                continue;
            }
            let (expected, actual) = (cells.data(cell)?, data_of(buffer)?);
            found.elements += expected.len();
            if let Some((element, expected, actual)) = allowed[cell].differs(&expected, &actual) {
                let name = if spec.name.is_empty() { format!("buffer {cell}") } else { spec.name.clone() };
                found.difference = Some(Difference { stage: None, name, element, expected, actual });
                break;
            }
        }
        Ok(found)
    }
}

/// A stage that runs a kernel.
struct StageCall<'a> {
    kernel: &'a Kernel,
    inputs: &'a [usize],
    outputs: &'a [usize],
    params: &'a Params,
}

/// The buffers of a pipeline, as its stages leave them one by one.
struct Cells {
    /// Copies of the users' buffers, which the stages do not touch.
    buffers: Vec<Buffer>,
    /// What is in each buffer of the pipeline, on the host and on the device.
    now: Vec<Option<(Data, Buffer)>>,
    types: Vec<Option<TensorType>>,
}

impl Cells {
    fn copy(plan: &Plan, inputs: &[(&Buffer, &Data)]) -> Result<Cells, Error> {
        let (inner, device) = (&plan.0, plan.device());
        let compiled = &inner.compiled;
        let registry = device.core().registry();
        let checked = compiled.spec.check(|name| registry.get(name).map(|kernel| &kernel.spec));
        let types = checked.map(|checked| checked.types).unwrap_or_default();
        let (mut buffers, mut now) = (Vec::new(), Vec::new());
        let mut own = inner.buffers.iter().zip(&compiled.blueprint.externals);
        for cell in &compiled.spec.cells {
            let Some((buffer, external)) = (!cell.transient).then(|| own.next()).flatten() else {
                now.push(None);
                continue;
            };
            let given = inputs.iter().find(|(of, _)| of.id() == buffer.id()).map(|(_, data)| (*data).clone());
            let data = match given {
                Some(data) => data,
                None if external.read => data_of(buffer)?,
                // Nobody looks at it before it is written.
                None => Data::from_bytes(buffer.dtype(), &vec![0; buffer.size_bytes()]),
            };
            let copy = || Buffer::from_bytes(&device, &data.to_bytes(), buffer.dtype(), buffer.shape().clone());
            buffers.push(copy()?);
            now.push(Some((data.clone(), copy()?)));
        }
        Ok(Cells { buffers, now, types })
    }

    /// What is in a buffer of the pipeline.
    fn data(&self, cell: usize) -> Result<Data, Error> {
        self.now[cell].as_ref().map(|(data, _)| data.clone()).ok_or_else(missing)
    }

    /// The largest finite number in these buffers.
    fn largest(&self, cells: &[usize]) -> f64 {
        let data = cells.iter().filter_map(|cell| self.now[*cell].as_ref()).flat_map(|(data, _)| data.iter());
        data.map(|value| value.as_f64().abs()).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Runs a stage on the device and its reference on the host: what each output should be, and what it is.
    fn run(&mut self, device: &Device, call: &StageCall) -> Result<Vec<(Data, Data)>, Error> {
        let output = |cell: &usize| {
            let ty = self.types.get(*cell).cloned().flatten().ok_or_else(missing)?;
            Buffer::zeros(device, ty.dtype, ty.shape)
        };
        let outputs = call.outputs.iter().map(output).collect::<Result<Vec<Buffer>, Error>>()?;
        let (mut data, mut buffers) = (Vec::new(), Vec::new());
        for input in call.inputs {
            let (own, buffer) = self.now[*input].as_ref().ok_or_else(missing)?;
            data.push(own.clone());
            buffers.push(buffer.clone());
        }
        let inputs: Vec<&Buffer> = buffers.iter().collect();
        device.run_to(&call.kernel.spec.name, &inputs, &outputs.iter().collect::<Vec<_>>(), call.params)?;
        let types: Vec<TensorType> = buffers.iter().map(|buffer| buffer.ty().clone()).collect();
        let first = outputs.first().ok_or_else(missing)?;
        let signature = dala_spec::validate(&call.kernel.spec, &types, first.ty(), call.params)
            .map_err(|mut problems| Error::Spec(problems.swap_remove(0)))?;
        let expected = reference(call.kernel, &signature, &data)?;
        let mut both = Vec::with_capacity(outputs.len());
        for ((cell, output), expected) in call.outputs.iter().zip(outputs).zip(expected) {
            let actual = data_of(&output)?;
            self.now[*cell] = Some((actual.clone(), output));
            both.push((expected, actual));
        }
        Ok(both)
    }

    fn copy_stage(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let (data, buffer) = self.now[from].clone().ok_or_else(missing)?;
        let ty = self.types.get(to).cloned().flatten().ok_or_else(missing)?;
        let bytes = data.to_bytes();
        let copy = Buffer::from_bytes(&buffer.device(), &bytes, ty.dtype, ty.shape)?;
        let data = Data::from_bytes(ty.dtype, &bytes);
        self.now[to] = Some((data, copy));
        Ok(())
    }
}

fn missing() -> Error {
    crate::EngineError::internal("a stage's buffer is missing").into()
}

fn data_of(buffer: &Buffer) -> Result<Data, Error> {
    buffer.read_data()
}

/// What a call gives, computed on the host: by the kernel's reference, or for kernels of the user's by interpreting the
/// expression.
fn reference(kernel: &Kernel, signature: &Signature, inputs: &[Data]) -> Result<Vec<Data>, Error> {
    kernel.outputs_on_host(signature, inputs)?.ok_or_else(missing)
}

/// The first element that is not close enough. Where large inputs cancel out, what is left is as uncertain as they are: `scale` is
/// the largest of them.
fn differs(tolerance: Tolerance, scale: f64, expected: &Data, actual: &Data) -> Option<(usize, f64, f64)> {
    let dtype = expected.dtype();
    let epsilon = dtype.register().epsilon();
    let cancelled = match tolerance.floats {
        Closeness::Close { epsilons, .. } if dtype.is_float() => epsilons * epsilon * scale,
        _ => 0.0,
    };
    let off = |(expected, actual): (Scalar, Scalar)| {
        let close = || dtype.is_float() && (expected.as_f64() - actual.as_f64()).abs() <= cancelled;
        !tolerance.accepts(expected, actual) && !close()
    };
    let pairs = expected.iter().zip(actual.iter());
    pairs.enumerate().find(|(_, pair)| off(*pair)).map(|(index, (e, a))| (index, e.as_f64(), a.as_f64()))
}

/// How far a fused result may be from that of its stages, one by one.
#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    stages: u32,
    /// The most that a small integer may be off by one of the stages. None of the exact ones adds to it.
    levels: u8,
}

impl Allowed {
    fn and(self, other: Allowed) -> Allowed {
        Allowed { stages: self.stages + other.stages, levels: self.levels.max(other.levels) }
    }

    fn differs(self, expected: &Data, actual: &Data) -> Option<(usize, f64, f64)> {
        let each = 256.0 * f64::from(self.stages.max(1));
        let tolerance = Tolerance::close(each, each).levels(self.levels);
        let first = differs(tolerance, 0.0, expected, actual);
        if expected.dtype().narrow_range().is_none() || first.is_some() {
            return first;
        }
        let off = |(_, (expected, actual)): &(usize, (Scalar, Scalar))| expected != actual;
        let mut different = expected.iter().zip(actual.iter()).enumerate().filter(off);
        let first = different.next()?;
        let count = 1 + different.count();
        let few = (expected.len() as f64 * OFF_BY_ONE).max(1.0);
        (count as f64 > few).then(|| (first.0, first.1.0.as_f64(), first.1.1.as_f64()))
    }
}
