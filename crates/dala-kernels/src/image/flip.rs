//! A picture mirrored: left and right (`horizontal`), top and bottom (`vertical`), or both.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{Class, Data, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, param};

use crate::keys::DIRECTION;
use crate::lower::shapes;
use crate::lower::view::{View, strides};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("flip", Class::View)
        .summary("A picture mirrored")
        .input("x", PIXELS)
        .computed("the input's", OutputDType::Inputs, shapes::same_image)
        .param(
            param(DIRECTION, ParamKind::words(&["horizontal", "vertical", "both"]))
                .default("horizontal")
                .summary("what is swapped: left and right, top and bottom, or both"),
        );
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[5, 7, 4]).reference(reference)
}

/// Whether rows, and whether columns are swapped.
fn swapped(direction: &str) -> [bool; 2] {
    [direction != "horizontal", direction != "vertical"]
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, mut lowering) = (&call.inputs[0], Lowering::new());
    let dims = input.shape.dims();
    let mut view = View { dims: dims.to_vec(), offset: 0, strides: strides(dims) };
    for (axis, swapped) in swapped(call.params.word(DIRECTION)).into_iter().enumerate() {
        if swapped {
            view.offset += (dims[axis].max(1) - 1) * view.strides[axis] as usize;
            view.strides[axis] = -view.strides[axis];
        }
    }
    lowering.step(view.task(input.dtype, input.shape.len(), call, facts)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let Some(image) = call.signature.output.shape.image() else { return call.moved(|index| (0, index)) };
    let [rows, columns] = swapped(call.params().word(DIRECTION));
    call.moved(|index| {
        let (pixel, channel) = (index / image.channels, index % image.channels);
        let (y, x) = (pixel / image.width, pixel % image.width);
        let y = if rows { image.height - 1 - y } else { y };
        let x = if columns { image.width - 1 - x } else { x };
        (0, (y * image.width + x) * image.channels + channel)
    })
}
