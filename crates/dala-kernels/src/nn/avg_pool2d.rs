//! Mean of each window of pictures `{batch, height, width, channels}`: of what lies inside the picture, or with `count_padding` of
//! the zeros around it as well.

use dala_plan::work::{Argument, Fragment, Pool, PoolOp};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::COUNT_PADDING;
use crate::lower::halves::in_f32;
use crate::lower::windows;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("avg_pool2d", Class::Stencil)
        .summary("Mean of each window of a picture")
        .input("x", FLOATS)
        .computed("{batch, rows, columns, channels}: a pixel for each window", OutputDType::Inputs, windows::pooled)
        .tolerance(Tolerance::close(64.0, 64.0));
    let counts = param(COUNT_PADDING, ParamKind::Bool)
        .default(false)
        .summary("whether the zeros around the picture count as elements");
    Kernel::lowered(windows::with_params(spec, true, false).param(counts), in_f32(lower))
        .example(&[&[1, 4, 5, 3]], &[1, 3, 4, 3])
        .reference(reference)
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (mut lowering, x) = (Lowering::new(), &call.inputs[0]);
    let windows = windows::sized(&call.params, &x.shape)?;
    let arguments = [Argument::value("sum", 0, x.dtype), Argument::value("counted", 1, x.dtype)];
    let all = (windows.size[0] * windows.size[1]) as f64;
    let (expr, arguments) = match call.params.flag(COUNT_PADDING) {
        true => (Expr::input("sum") / Expr::number(all), &arguments[..1]),
        // Windows that lie outside altogether have nothing to divide by.
        false => (Expr::input("sum") / Expr::input("counted").max(Expr::number(1.0)), &arguments[..]),
    };
    let store = Fragment::build(&expr, arguments, x.dtype, &call.params)?;
    let pool = Pool { batch: x.shape.dims()[0], windows, op: PoolOp::Sum, dtype: x.dtype, store };
    lowering.step(Task::Pool(pool), [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (params, x) = (call.params(), &call.signature.inputs[0].shape);
    let Ok(windows) = windows::sized(params, x) else { return call.numbers(|_| f64::NAN) };
    let all = windows.size[0] * windows.size[1];
    call.numbers(|index| {
        let channel = index % windows.channels;
        let pixels: Vec<f64> = windows::elements(&windows, index, windows.channels)
            .map(|(_, pixel)| call.float(0, pixel + channel))
            .collect();
        let counted = if params.flag(COUNT_PADDING) { all } else { pixels.len().max(1) };
        pixels.iter().sum::<f64>() / counted as f64
    })
}
