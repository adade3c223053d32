//! What kernels of a class share when they lower: a kernel says what is particular about it, and the class does the rest.

pub(crate) mod broadcast;
pub(crate) mod filter;
pub(crate) mod halves;
pub(crate) mod index;
pub(crate) mod overflow;
pub(crate) mod pixel;
pub(crate) mod position;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod resample;
pub(crate) mod scatter;
pub(crate) mod shapes;
pub(crate) mod softmax;
pub(crate) mod view;
pub(crate) mod windows;

use dala_plan::work::{Argument, Fragment, Map};
use dala_plan::{Place, Task};
use dala_spec::{DType, Expr, Program, Signature, SpecError, TensorType};

/// A fragment that hands value 0 on, as `to`.
pub(crate) fn hand_on(from: DType, to: DType, call: &Signature) -> Result<Fragment, SpecError> {
    Ok(Fragment::build(&Expr::input("v"), &[Argument::value("v", 0, from)], to, &call.params)?)
}

/// A fragment that loads a read as an `f32`.
pub(crate) fn load_float(read: usize, dtype: DType, call: &Signature) -> Result<Fragment, SpecError> {
    let expr = Expr::input("x").cast(DType::F32);
    Ok(Fragment::build(&expr, &[Argument::own("x", read, dtype)], DType::F32, &call.params)?)
}

/// A launch of `expr` over named buffers of these types, with the params of the call.
pub(crate) fn map(
    expr: &Expr,
    inputs: &[(&str, TensorType)],
    output: TensorType,
    call: &Signature,
) -> Result<Task, SpecError> {
    let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    let types: Vec<TensorType> = inputs.iter().map(|(_, ty)| ty.clone()).collect();
    let lens = types.iter().map(|ty| ty.shape.len()).collect();
    let shape = output.shape.clone();
    let program = Program::build(expr, &names, &Signature { inputs: types, output, params: call.params.clone() })?;
    Ok(Task::Map(Map { program, shape, lens }))
}

/// The call's inputs.
pub(crate) fn inputs(call: &Signature) -> Vec<Place> {
    (0..call.inputs.len()).map(Place::Input).collect()
}
