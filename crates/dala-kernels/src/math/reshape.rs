//! The same elements under another shape, which the output gives.

use dala_plan::work::Map;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::{Class, Data, KernelSpec, NUMBERS, OutputDType, Shape, ShapeCall, ShapeProblem, Signature, SpecError};

use crate::lower::shapes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("reshape", Class::View)
        .summary("The same elements under the output's shape")
        .input("x", NUMBERS)
        .computed("any of as many elements", OutputDType::Inputs, shape);
    Kernel::lowered(spec, lower).example(&[&[3, 4]], &[2, 6]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (chosen, len) = (shapes::chosen(call)?, call.inputs[0].shape.len());
    match chosen.len() == len {
        true => Ok(chosen.clone()),
        false => Err(ShapeProblem::Output(format!("of {len} elements"))),
    }
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let mut lowering = Lowering::new();
    lowering.step(Task::Map(Map::copy(&call.output)), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    call.moved(|index| (0, index))
}
