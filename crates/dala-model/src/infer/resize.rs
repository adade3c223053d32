//! Pictures in another size.

use super::{Call, Outcome};
use crate::limits::MAX_ELEMENTS;
use crate::{Coordinates, ModelError, Op, ResizeMode, Rounding};

pub(super) fn resize(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dims = call.picture()?;
    let mode = match call.text("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest,
        "linear" => ResizeMode::Linear,
        other => return Err(call.unsupported(format!("mode {}", crate::error::shown(other)))),
    };
    // Version 10 knew one way only.
    let (default_coordinates, default_rounding) =
        if call.opset < 11 { ("asymmetric", "floor") } else { ("half_pixel", "round_prefer_floor") };
    let coordinates = match call.text("coordinate_transformation_mode", default_coordinates)? {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "asymmetric" => Coordinates::Asymmetric,
        "align_corners" => Coordinates::AlignCorners,
        other => return Err(call.unsupported(format!("coordinate mode {}", crate::error::shown(other)))),
    };
    let rounding = match call.text("nearest_mode", default_rounding)? {
        "round_prefer_floor" => Rounding::RoundPreferFloor,
        "round_prefer_ceil" => Rounding::RoundPreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return Err(call.bad_attribute("nearest_mode", "a way of rounding", other)),
    };
    let axes = match call.ints("axes")? {
        Some(given) => call.axes(given, dims.len())?,
        None => (0..dims.len()).collect(),
    };
    let mut sizes = dims;
    let mut scale = [1f32; 4];
    match scales_or_sizes(call)? {
        Request::Scales(given) => {
            if given.len() != axes.len() {
                return Err(call.bad_value("scales", format!("{} numbers", axes.len()), format!("{given:?}")));
            }
            for (&axis, &factor) in axes.iter().zip(&given) {
                let size = (dims[axis] as f32 * factor as f32).floor();
                if !(factor > 0.0 && size >= 1.0 && size <= MAX_ELEMENTS as f32) {
                    return Err(call.bad_value("scales", "factors that leave a picture", format!("{given:?}")));
                }
                (sizes[axis], scale[axis]) = (size as usize, factor as f32);
            }
        }
        Request::Sizes(given) => {
            if given.len() != axes.len() {
                return Err(call.bad_value("sizes", format!("{} numbers", axes.len()), format!("{given:?}")));
            }
            for (&axis, &size) in axes.iter().zip(&given) {
                let size = usize::try_from(size).ok().filter(|size| (1..=MAX_ELEMENTS).contains(size));
                sizes[axis] =
                    size.ok_or_else(|| call.bad_value("sizes", "numbers of at least 1", format!("{given:?}")))?;
                scale[axis] = sizes[axis] as f32 / dims[axis] as f32;
            }
        }
    }
    if sizes[..2] != dims[..2] || dims[2] == 0 || dims[3] == 0 {
        return Err(call.unsupported("changes the batch or the channels, only height and width may change"));
    }
    let input = call.input(0)?;
    let [_, _, height_scale, width_scale] = scale;
    if sizes == dims && height_scale == 1.0 && width_scale == 1.0 {
        return Ok(Outcome::Same(input));
    }
    let ty = call.output(call.float()?, sizes.to_vec())?;
    Ok(Outcome::layer(Op::Resize { mode, coordinates, rounding, scale: [height_scale, width_scale] }, [input], ty))
}

enum Request {
    Scales(Vec<f64>),
    Sizes(Vec<i64>),
}

/// What the file gives; an input of no elements counts as left out.
fn scales_or_sizes(call: &Call<'_>) -> Result<Request, ModelError> {
    let scales_place = if call.opset < 11 { 1 } else { 2 };
    let given =
        |place: usize| -> Result<bool, ModelError> { Ok(call.has(place) && !call.value(place)?.ty.shape.is_empty()) };
    if given(scales_place)? {
        return Ok(Request::Scales(call.floats(scales_place, "scales")?));
    }
    if call.opset >= 11 && given(3)? {
        return Ok(Request::Sizes(call.integers(3, "sizes")?));
    }
    Err(call.bad_value("scales", "there, or sizes", "neither"))
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, floats, ints, list, text};
    use crate::proto::{AttributeProto, TensorProto};
    use crate::{Coordinates, Op, ResizeMode, Rounding};

    fn net(scales: Option<TensorProto>, sizes: Option<TensorProto>, attributes: Vec<AttributeProto>) -> Net {
        let mut net = Net::new(18).x(&[-1, 3, 8, 6]);
        let names = [("scales", scales), ("sizes", sizes)].map(|(name, tensor)| match tensor {
            Some(tensor) => {
                net = net.clone().tensor(name, tensor);
                name
            }
            None => "",
        });
        net.node("Resize", &["x", "", names[0], names[1]], "y", attributes).output("y")
    }

    #[test]
    fn sizes_follow_from_scales_and_scales_from_sizes() {
        let network = net(Some(floats(&[4], vec![1.0, 1.0, 2.0, 1.5])), None, vec![]).resolve(1).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [1, 3, 16, 9]);
        let (coordinates, rounding) = (Coordinates::HalfPixel, Rounding::RoundPreferFloor);
        let expected = Op::Resize { mode: ResizeMode::Nearest, coordinates, rounding, scale: [2.0, 1.5] };
        assert_eq!(network.layers[0].op, expected);
        let attributes = vec![
            text("mode", "linear"),
            text("coordinate_transformation_mode", "align_corners"),
            ints("axes", &[3, 2]),
        ];
        let network = net(None, Some(list(&[12, 4])), attributes).resolve(1).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [1, 3, 4, 12]);
        let coordinates = Coordinates::AlignCorners;
        let expected = Op::Resize { mode: ResizeMode::Linear, coordinates, rounding, scale: [0.5, 2.0] };
        assert_eq!(network.layers[0].op, expected);
    }

    #[test]
    fn only_pictures_change_their_size() {
        let scaled = |scales: &[f32]| net(Some(floats(&[scales.len() as i64], scales.to_vec())), None, vec![]).code();
        assert_eq!(scaled(&[1.0, 2.0, 1.0, 1.0]), "unsupported_operator");
        for bad in [&[1.0, 1.0, 0.0, 1.0][..], &[1.0, 1.0, f32::NAN, 1.0], &[1.0, 1.0, 1e30, 1.0], &[1.0, 1.0]] {
            assert_eq!(scaled(bad), "bad_value", "{bad:?}");
        }
        assert_eq!(scaled(&[1.0, 1.0, 60000.0, 60000.0]), "too_large");
        assert_eq!(net(None, Some(list(&[1, 3, -1, 4])), vec![]).code(), "bad_value");
        assert_eq!(net(None, None, vec![]).code(), "bad_value");
        let cubic = vec![text("mode", "cubic")];
        assert_eq!(net(None, Some(list(&[1, 3, 4, 4])), cubic).code(), "unsupported_operator");
    }
}
