//! Largest element of each window of pictures `{batch, height, width, channels}`. What is added around a picture never counts.

use dala_plan::work::{Argument, Fragment, Pool, PoolOp};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::{Class, Data, Expr, FLOATS, KernelSpec, OutputDType, Signature, SpecError};

use crate::lower::halves::in_f32;
use crate::lower::windows;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("max_pool2d", Class::Stencil)
        .summary("Largest element of each window of a picture")
        .input("x", FLOATS)
        .computed("{batch, rows, columns, channels}: a pixel for each window", OutputDType::Inputs, windows::pooled);
    Kernel::lowered(windows::with_params(spec, true, true), in_f32(lower))
        .example(&[&[1, 4, 5, 3]], &[1, 3, 4, 3])
        .reference(reference)
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (mut lowering, x) = (Lowering::new(), &call.inputs[0]);
    let windows = windows::sized(&call.params, &x.shape)?;
    let arguments = [Argument::value("v", 0, x.dtype)];
    let store = Fragment::build(&Expr::input("v"), &arguments, x.dtype, &call.params)?;
    let pool = Pool { batch: x.shape.dims()[0], windows, op: PoolOp::Max, dtype: x.dtype, store };
    lowering.step(Task::Pool(pool), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (params, x) = (call.params(), &call.signature.inputs[0].shape);
    let Ok(windows) = windows::sized(params, x) else { return call.numbers(|_| f64::NAN) };
    call.numbers(|index| {
        let channel = index % windows.channels;
        let elements =
            windows::elements(&windows, index, windows.channels).map(|(_, pixel)| call.float(0, pixel + channel));
        elements.reduce(f64::max).unwrap_or(0.0)
    })
}
