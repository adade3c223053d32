//! Part of a picture, from `top` and `left` on; the output's shape says how large it is.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, Data, KernelSpec, OutputDType, PIXELS, ParamKey, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, param,
};

use crate::keys::{LEFT, TOP};
use crate::lower::shapes;
use crate::lower::view::{View, strides};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("crop", Class::View)
        .summary("Part of a picture")
        .input("x", PIXELS)
        .computed("a smaller picture of the same channels", OutputDType::Inputs, shape)
        .param(param(TOP, ParamKind::Int).default(0).range(0.0, 65535.0).summary("the first row"))
        .param(param(LEFT, ParamKind::Int).default(0).range(0.0, 65535.0).summary("the first column"));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[3, 4, 4]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (from, shape) = (shapes::image(call, 0)?, shapes::other_size(call)?);
    let (height, width) = (shape.dims()[0], shape.dims()[1]);
    let fits = |key: ParamKey, size: usize, whole: usize| {
        let last = whole.checked_sub(size);
        match (last, usize::try_from(call.params.int(key))) {
            (Some(last), Ok(start)) if start <= last => Ok(()),
            (Some(last), _) => Err(ShapeProblem::Param(key.name(), 0.0, last as f64)),
            (None, _) => Err(ShapeProblem::Output(format!("inside the input, {}", call.inputs[0].shape))),
        }
    };
    fits(TOP, height, from.height)?;
    fits(LEFT, width, from.width)?;
    Ok(shape)
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    let strides = strides(input.shape.dims());
    let start = |key: ParamKey, axis: usize| call.params.int(key) * strides[axis];
    let offset = (start(TOP, 0) + start(LEFT, 1)) as usize;
    let view = View { dims: call.output.shape.dims().to_vec(), offset, strides };
    lowering.step(view.task(input.dtype, input.shape.len(), call, facts)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let shapes = (call.signature.inputs[0].shape.image(), call.signature.output.shape.image());
    let (Some(from), Some(to)) = shapes else { return call.moved(|index| (0, index)) };
    let (top, left) = (call.params().int(TOP) as usize, call.params().int(LEFT) as usize);
    call.moved(|index| {
        let (pixel, channel) = (index / to.channels, index % to.channels);
        let (y, x) = (pixel / to.width + top, pixel % to.width + left);
        (0, (y * from.width + x) * from.channels + channel)
    })
}
