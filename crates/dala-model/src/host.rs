//! Computes layers on the host whose inputs are all constants and whose results are small: what decides shapes.

use dala_kernels::Parts;
use dala_spec::{Data, Shape, TensorType};

use crate::Value;
use crate::budget::{Budget, SMALL};
use crate::lower::Lowerer;
use crate::op::Compute;

/// What a layer makes, by the references of the kernels that it comes down to; `None` if it is left to the device.
pub(crate) fn evaluate(
    compute: &dyn Compute,
    inputs: &[&Value],
    types: &[TensorType],
    budget: &Budget,
) -> Option<Vec<Data>> {
    let shapes: Vec<&Shape> = inputs.iter().map(|value| &value.ty.shape).collect();
    let constant = inputs.iter().all(|value| value.constant.is_some());
    // What is large decides no shapes: it is computed once by the device.
    let small = types.iter().all(|ty| ty.shape.len() < SMALL);
    if !constant || !small || !budget.take(compute.cost(&shapes, types)?) {
        return None;
    }
    if types.iter().all(|ty| ty.shape.is_empty()) {
        return Some(types.iter().map(|ty| Data::collect(ty.dtype, [])).collect());
    }
    let made = types.iter().map(|ty| Value { name: String::new(), ty: ty.clone(), constant: None });
    let values: Vec<Value> = inputs.iter().copied().cloned().chain(made).collect();
    let (reads, makes): (Vec<usize>, Vec<usize>) = (0..values.len()).partition(|number| *number < inputs.len());
    let mut lowerer = Lowerer::new(&values, &[]);
    lowerer.at("", &reads, &makes);
    compute.lower(&mut lowerer).ok()?;
    let outputs = makes.iter().zip(types).map(|(number, ty)| {
        let data = lowerer.clone().results(&[*number]).ok()?.on_host(&[]).ok()??.pop()?;
        (data.len() == ty.shape.len() && data.dtype() == ty.dtype).then_some(data)
    });
    outputs.collect()
}
