//! A picture of another size. Pixels have their centres at halves. Shrinking widens the filter so that every pixel counts, unless
//! `antialias` is false. Every channel is treated alike, alpha too. Bicubic results of floats are not clamped.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{
    Class, DType, Data, KernelSpec, OutputDType, PIXELS, ParamKind, Signature, SpecError, Tolerance, param,
};

use crate::keys::{ANTIALIAS, FILTER};
use crate::lower::resample::{AxisTable, Interpolation, Window, reference as resample, resampled, store_value};
use crate::lower::shapes;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("resize", Class::Stencil)
        .summary("A picture of another size")
        .input("x", PIXELS)
        .computed("a picture of the same channels", OutputDType::Inputs, shape)
        .param(
            param(FILTER, ParamKind::words(Interpolation::WORDS))
                .default("bilinear")
                .summary("how pixels between pixels are made"),
        )
        .param(param(ANTIALIAS, ParamKind::Bool).default(true).summary("whether every pixel counts when shrinking"))
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::lowered(spec, lower).example(&[&[5, 7, 4]], &[3, 9, 4]).reference(reference)
}

fn shape(call: &dala_spec::ShapeCall) -> Result<dala_spec::Shape, dala_spec::ShapeProblem> {
    let shape = shapes::other_size(call)?;
    shapes::image_with_tables(call, 0)?;
    if let Some(to) = shape.image() {
        shapes::output_with_tables(to.height, to.width)?;
    }
    match call.inputs[0].shape.is_empty() && !shape.is_empty() {
        true => Err(dala_spec::ShapeProblem::Input(0, "of at least one pixel".to_owned())),
        false => Ok(shape),
    }
}

fn tables(call: &Signature) -> Option<(AxisTable, AxisTable)> {
    let (from, to) = (call.inputs[0].shape.image()?, call.output.shape.image()?);
    if call.output.shape.is_empty() {
        return None;
    }
    let filter = Interpolation::from_word(call.params.word(FILTER));
    let antialias = call.params.flag(ANTIALIAS);
    let table = |from, to| AxisTable::new(Window::whole(from, to), filter, antialias);
    Some((table(from.height, to.height), table(from.width, to.width)))
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let mut lowering = Lowering::new();
    if let (Some(image), Some(tables)) = (call.inputs[0].shape.image(), tables(call)) {
        let store = store_value(call, DType::F32)?;
        resampled(&mut lowering, call, facts, image, tables, store, Place::Output)?;
    }
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    match tables(call.signature) {
        Some((down, across)) => {
            let channels = call.signature.output.shape.image().map_or(1, |image| image.channels);
            call.numbers(|index| {
                let (pixel, channel) = (index / channels, index % channels);
                resample(call, &down, &across, (pixel / across.to, pixel % across.to), channel)
            })
        }
        None => call.numbers(|_| 0.0),
    }
}
