//! `Resize`: pictures in another size, rows and columns picked, or mixed by a matrix of weights.

use dala_spec::{DType, Data, Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::error::shown;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, dims_last};
use crate::op::Compute;

pub(super) const RESIZE: Operator = Operator::new("Resize", Kind::Layout, infer).inputs(1, 4).refuses(|node| {
    let coordinates = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"];
    refused([
        (node.says_other("mode", &["nearest", "linear"]), "modes other than nearest and linear"),
        (
            node.says_other("coordinate_transformation_mode", &coordinates),
            "coordinate modes other than half_pixel, pytorch_half_pixel, asymmetric and align_corners",
        ),
        (node.int("antialias").is_some_and(|value| value != 0), "antialias"),
        (node.says_other("keep_aspect_ratio_policy", &["stretch"]), "keep_aspect_ratio_policy"),
    ])
});

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.picture()?;
    let mode = match call.text("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest,
        "linear" => ResizeMode::Linear,
        other => return Err(call.unsupported(format!("mode {}", shown(other)))),
    };
    // Version 10 knew one way only.
    let (default_coordinates, default_rounding) =
        if call.opset < 11 { ("asymmetric", "floor") } else { ("half_pixel", "round_prefer_floor") };
    let coordinates = match call.text("coordinate_transformation_mode", default_coordinates)? {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "asymmetric" => Coordinates::Asymmetric,
        "align_corners" => Coordinates::AlignCorners,
        other => return Err(call.unsupported(format!("coordinate mode {}", shown(other)))),
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
        return Ok(Outcome::same(input));
    }
    let ty = call.output(call.float()?, sizes.to_vec())?;
    let scale = [height_scale, width_scale];
    Ok(Outcome::layer(Resize { mode, coordinates, rounding, scale }, [input], ty))
}

enum Request {
    Scales(Vec<f64>),
    Sizes(Vec<i64>),
}

/// What the file gives; an input of no elements counts as left out.
fn scales_or_sizes(call: &NodeCall<'_>) -> Result<Request, ModelError> {
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

#[derive(Debug, PartialEq)]
struct Resize {
    mode: ResizeMode,
    coordinates: Coordinates,
    rounding: Rounding,
    /// Output size over input size, as the file says it: may differ a little from the quotient of the sizes.
    scale: [f32; 2],
}

/// How a resized picture gets its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResizeMode {
    /// The nearest pixel.
    Nearest,
    /// Between the four pixels around, by distance.
    Linear,
}

/// Where pixel `i` of the output lies in the input, for `scale = output size / input size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    /// `(i + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As half pixel, but 0 if the output has size 1.
    PytorchHalfPixel,
    /// `i / scale`.
    Asymmetric,
    /// `i * (input size - 1) / (output size - 1)`, and 0 if the output has size 1.
    AlignCorners,
}

/// Which pixel is the nearest one to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    /// The nearest, and the one before if two are as near.
    RoundPreferFloor,
    /// The nearest, and the one after if two are as near.
    RoundPreferCeil,
    /// The one before.
    Floor,
    /// The one after.
    Ceil,
}

/// One axis that changes its size.
struct Axis {
    from: usize,
    to: usize,
    scale: f64,
    coordinates: Coordinates,
}

impl Axis {
    /// Where a place of the result lies.
    fn place(&self, at: usize) -> f64 {
        let (at, from, to) = (at as f64, self.from as f64, self.to as f64);
        match self.coordinates {
            Coordinates::HalfPixel => (at + 0.5) / self.scale - 0.5,
            Coordinates::PytorchHalfPixel if self.to == 1 => 0.0,
            Coordinates::PytorchHalfPixel => (at + 0.5) / self.scale - 0.5,
            Coordinates::Asymmetric => at / self.scale,
            Coordinates::AlignCorners if self.to == 1 => 0.0,
            Coordinates::AlignCorners => at * (from - 1.0) / (to - 1.0),
        }
    }

    /// The nearest places.
    fn nearest(&self, rounding: Rounding) -> Vec<i32> {
        let last = self.from.max(1) as f64 - 1.0;
        let round = |place: f64| match rounding {
            Rounding::Floor => place.floor(),
            Rounding::Ceil => place.ceil(),
            Rounding::RoundPreferFloor => (place - 0.5).ceil(),
            Rounding::RoundPreferCeil => (place + 0.5).floor(),
        };
        (0..self.to).map(|at| round(self.place(at)).clamp(0.0, last) as i32).collect()
    }

    /// For each place of the result, the weights of all places before.
    fn weights(&self) -> Vec<f64> {
        let mut weights = vec![0.0; self.to * self.from];
        let last = self.from.max(1) - 1;
        for (at, row) in weights.chunks_exact_mut(self.from.max(1)).enumerate() {
            let place = self.place(at).clamp(0.0, last as f64);
            let before = (place.floor() as usize).min(last);
            let part = place - before as f64;
            row[before] += 1.0 - part;
            row[(before + 1).min(last)] += part;
        }
        weights
    }
}

/// The most places or weights of one axis that a layer may need.
const MAX_ENTRIES: usize = 1 << 24;

impl Compute for Resize {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let mut cell = to.last(0)?;
        let dtype = to.output().dtype;
        let &[batch, height, width, channels] = to.calls.ty(cell).shape.dims() else { return Ok(()) };
        let [_, to_height, to_width, _] = dims_last(to.output().shape.dims());
        let axis = |from: usize, to: usize, scale: f32| Axis {
            from,
            to,
            scale: f64::from(scale),
            coordinates: self.coordinates,
        };
        let (rows, columns) = (axis(height, to_height, self.scale[0]), axis(width, to_width, self.scale[1]));
        let none = Params::new();
        for (axis, number) in [(rows, 1), (columns, 2)] {
            if axis.from == axis.to && axis.scale == 1.0 {
                continue;
            }
            // What a file claims must not decide how much memory its loading takes.
            let entries = if self.mode == ResizeMode::Nearest { axis.to } else { axis.to.saturating_mul(axis.from) };
            if entries > MAX_ENTRIES {
                let (name, shape) = (to.layer().to_owned(), format!("{{{}, {}}}", axis.to, axis.from));
                return Err(SpecError::TooLarge { name, shape });
            }
            let (rows, columns) = if number == 1 { (axis.to, width) } else { (to_height, axis.to) };
            let ty = TensorType::new(dtype, [batch, rows, columns, channels]);
            cell = match self.mode {
                ResizeMode::Nearest => {
                    let places = to.constant(Data::S32(axis.nearest(self.rounding)), &[axis.to]);
                    to.call("gather", &[cell, places], ty, &none.clone().with("axis", number))?
                }
                ResizeMode::Linear => {
                    let weights = axis.weights();
                    let weights = match dtype {
                        DType::F64 => Data::F64(weights),
                        _ => Data::F32(weights.into_iter().map(|weight| weight as f32).collect()),
                    };
                    let weights = to.constant(weights, &[axis.to, axis.from]);
                    // Rows of a picture, or pixels of a row, as the rows of a matrix.
                    let (outer, inner) = if number == 1 { (batch, width * channels) } else { (batch * rows, channels) };
                    let seen = to.calls.view(cell, TensorType::new(dtype, [outer, axis.from, inner]));
                    let made = TensorType::new(dtype, [outer, axis.to, inner]);
                    let made = to.call("matmul", &[weights, seen], made, &none)?;
                    to.calls.view(made, ty)
                }
            };
        }
        to.give_last(0, cell);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Coordinates, Resize, ResizeMode, Rounding};
    use crate::Model;
    use crate::builder::{Net, floats, ints, list, text};
    use crate::proto::{AttributeProto, TensorProto};

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
        let expected = Resize { mode: ResizeMode::Nearest, coordinates, rounding, scale: [2.0, 1.5] };
        assert_eq!(network.layers[0].op.downcast(), Some(&expected));
        let attributes = vec![
            text("mode", "linear"),
            text("coordinate_transformation_mode", "align_corners"),
            ints("axes", &[3, 2]),
        ];
        let network = net(None, Some(list(&[12, 4])), attributes).resolve(1).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [1, 3, 4, 12]);
        let coordinates = Coordinates::AlignCorners;
        let expected = Resize { mode: ResizeMode::Linear, coordinates, rounding, scale: [0.5, 2.0] };
        assert_eq!(network.layers[0].op.downcast(), Some(&expected));
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

    #[test]
    fn a_claimed_size_takes_no_memory() {
        let lowered = |mode: &'static str, factor: f32| {
            let net = Net::new(13).x(&[1, 1, 1000, 1]).floats("s", &[4], vec![1.0, 1.0, factor, 1.0]);
            let net = net.node("Resize", &["x", "", "s"], "y", vec![text("mode", mode)]).output("y");
            let network = Model::read(net.bytes()).unwrap().resolve(1).unwrap();
            crate::lower::lower(&network).map(drop).map_err(|error| error.code())
        };
        assert_eq!(lowered("nearest", 16_000.0), Ok(()));
        assert_eq!(lowered("nearest", 17_000.0), Err("shape_too_large"));
        assert_eq!(lowered("linear", 16.0), Ok(()));
        assert_eq!(lowered("linear", 17.0), Err("shape_too_large"));
    }
}
