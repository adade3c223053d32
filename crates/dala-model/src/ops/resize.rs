//! `Resize`: a value in another size, elements picked or mixed by weights; and `Upsample`, which it replaces since
//! version 10.

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::{Declared, refused};
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::error::shown;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

pub(super) const RESIZE: Operator = Operator::new("Resize", Kind::Layout, infer).inputs(1, 4).refuses(refuses);
pub(super) const UPSAMPLE: Operator = Operator::new("Upsample", Kind::Layout, infer).inputs(1, 2).refuses(refuses);

fn refuses(node: &Declared<'_>) -> Option<String> {
    let crops = !node.says_other("coordinate_transformation_mode", &["tf_crop_and_resize"]);
    let crops = crops && node.has("coordinate_transformation_mode");
    refused([(crops, "tf_crop_and_resize"), (node.int("antialias").is_some_and(|value| value != 0), "antialias")])
}

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let mode = match call.text("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest,
        "linear" | "bilinear" => ResizeMode::Linear,
        "cubic" => {
            let factor = call.float_attribute("cubic_coeff_a", -0.75)?;
            ResizeMode::Cubic { factor, inside: call.flag("exclude_outside", false)? }
        }
        other => return Err(call.bad_attribute("mode", "nearest, linear or cubic", other)),
    };
    // Up to version 10 there was one way only.
    let (default_coordinates, default_rounding) =
        if call.opset < 11 { ("asymmetric", "outwards") } else { ("half_pixel", "round_prefer_floor") };
    let coordinates = match call.text("coordinate_transformation_mode", default_coordinates)? {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
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
        "outwards" if call.opset < 11 => Rounding::Outwards,
        other => return Err(call.bad_attribute("nearest_mode", "a way of rounding", other)),
    };
    let named = match call.ints("axes")? {
        Some(given) => call.axes(given, dims.len())?,
        None => (0..dims.len()).collect(),
    };
    let mut axes: Vec<Axis> = dims.iter().map(|&size| Axis { from: size, to: size, scale: 1.0 }).collect();
    let new = requested(call, &named, dims)?;
    for (number, (to, scale)) in named.iter().zip(new) {
        axes.get_mut(*number).into_iter().for_each(|axis| (axis.to, axis.scale) = (to, scale));
    }
    if dims.contains(&0) {
        return Err(call.shape_mismatch("at least one element", dims));
    }
    let input = call.input(0)?;
    if axes.iter().all(Axis::stays) {
        return Ok(Outcome::same(input));
    }
    if mode != ResizeMode::Nearest {
        call.float()?;
    }
    let ty = call.output(call.dtype(0)?, axes.iter().map(|axis| axis.to).collect())?;
    Ok(Outcome::layer(Resize { mode, coordinates, rounding, axes }, [input], ty))
}

/// The new size of each of these axes, and how much larger it is.
fn requested(call: &NodeCall<'_>, axes: &[usize], dims: &[usize]) -> Result<Vec<(usize, f32)>, ModelError> {
    let from: Vec<usize> = axes.iter().filter_map(|&axis| dims.get(axis).copied()).collect();
    match scales_or_sizes(call)? {
        Request::Scales(given) => {
            let bad = |expected: String| call.bad_value("scales", expected, format!("{given:?}"));
            if given.len() != axes.len() {
                return Err(bad(format!("{} numbers", axes.len())));
            }
            let scaled = from.iter().zip(&given).map(|(&from, &factor)| {
                let size = (from as f32 * factor as f32).floor();
                let fits = factor > 0.0 && size >= 1.0 && size <= MAX_ELEMENTS as f32;
                fits.then_some((size as usize, factor as f32))
            });
            scaled.collect::<Option<Vec<_>>>().ok_or_else(|| bad("factors that leave something".to_owned()))
        }
        Request::Sizes(given) => {
            let bad = |expected: String| call.bad_value("sizes", expected, format!("{given:?}"));
            let size = |&size: &i64| usize::try_from(size).ok().filter(|size| (1..=MAX_ELEMENTS).contains(size));
            let sizes = given.iter().map(size).collect::<Option<Vec<_>>>();
            let sizes = sizes.ok_or_else(|| bad("numbers of at least 1".to_owned()))?;
            if sizes.len() != axes.len() {
                return Err(bad(format!("{} numbers", axes.len())));
            }
            let scales: Vec<f32> =
                sizes.iter().zip(&from).map(|(&size, &from)| size as f32 / from.max(1) as f32).collect();
            let all = match call.text("keep_aspect_ratio_policy", "stretch")? {
                "stretch" => return Ok(sizes.into_iter().zip(scales).collect()),
                "not_larger" => scales.into_iter().fold(f32::INFINITY, f32::min),
                "not_smaller" => scales.into_iter().fold(0.0, f32::max),
                other => return Err(call.bad_attribute("keep_aspect_ratio_policy", "one of three", other)),
            };
            let scaled =
                from.iter().map(|&from| ((from as f32 * all).round().clamp(1.0, MAX_ELEMENTS as f32) as usize, all));
            Ok(scaled.collect())
        }
    }
}

enum Request {
    Scales(Vec<f64>),
    Sizes(Vec<i64>),
}

/// What the file gives; an input of no elements counts as left out.
fn scales_or_sizes(call: &NodeCall<'_>) -> Result<Request, ModelError> {
    if let Some(Attribute::Floats(scales)) = call.attribute("scales") {
        return Ok(Request::Scales(scales.iter().map(|&scale| scale.into()).collect()));
    }
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
    axes: Vec<Axis>,
}

/// How a new element gets its value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ResizeMode {
    /// The nearest element's.
    Nearest,
    /// Between the two around, by distance.
    Linear,
    /// Of four around, by a curve with this factor; those outside count as the outermost, or not at all.
    Cubic { factor: f32, inside: bool },
}

/// Where element `i` of the output lies in the input, for `scale = output size / input size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    /// `(i + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As half pixel, around the middle of a size that was rounded.
    HalfPixelSymmetric,
    /// As half pixel, but 0 if the output has size 1.
    PytorchHalfPixel,
    /// `i / scale`.
    Asymmetric,
    /// `i * (input size - 1) / (output size - 1)`, and 0 if the output has size 1.
    AlignCorners,
}

/// Which element is the nearest one to a place.
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
    /// The one before where there are more elements than before, the one after where there are fewer.
    Outwards,
}

/// An axis, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    from: usize,
    to: usize,
    /// Output size over input size, as the file says it: may differ a little from the quotient of the sizes.
    scale: f32,
}

impl Axis {
    fn stays(&self) -> bool {
        self.from == self.to && self.scale == 1.0
    }

    /// Where a place of the result lies.
    fn place(&self, at: usize, coordinates: Coordinates) -> f64 {
        let (at, from, to, scale) = (at as f64, self.from as f64, self.to as f64, f64::from(self.scale));
        match coordinates {
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if self.to == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let offset = from / 2.0 * (1.0 - to / (from * scale));
                offset + (at + 0.5) / scale - 0.5
            }
            Coordinates::Asymmetric => at / scale,
            Coordinates::AlignCorners => at * (from - 1.0) / (to - 1.0),
        }
    }

    /// The nearest places.
    fn nearest(&self, coordinates: Coordinates, rounding: Rounding) -> Vec<i32> {
        let last = self.from.max(1) as f64 - 1.0;
        let round = |place: f64| match rounding {
            Rounding::Outwards if self.scale < 1.0 => place.ceil(),
            Rounding::Floor | Rounding::Outwards => place.floor(),
            Rounding::Ceil => place.ceil(),
            Rounding::RoundPreferFloor => (place - 0.5).ceil(),
            Rounding::RoundPreferCeil => (place + 0.5).floor(),
        };
        (0..self.to).map(|at| round(self.place(at, coordinates)).clamp(0.0, last) as i32).collect()
    }

    /// How often each element is repeated, if that is all that these places come to.
    fn repeats(&self, places: &[i32]) -> Option<usize> {
        let times = self.to / self.from.max(1);
        let whole = times * self.from == self.to;
        (whole && places.iter().enumerate().all(|(at, place)| at / times == *place as usize)).then_some(times)
    }

    /// What each place of the result is made of: elements before, and their weights.
    fn taps(&self, coordinates: Coordinates, mode: ResizeMode) -> Vec<Vec<(usize, f64)>> {
        let last = self.from.max(1) as i64 - 1;
        let of = |at: usize| {
            let mut place = self.place(at, coordinates);
            if mode == ResizeMode::Linear {
                place = place.clamp(0.0, last as f64);
            }
            let (before, part) = (place.floor() as i64, place - place.floor());
            let found = mode.taps(part).into_iter().map(|(tap, weight)| (before.saturating_add(tap), weight));
            let counted: Vec<(i64, f64)> = found.filter(|(place, _)| mode.counts(*place, last)).collect();
            // What is left out is made up for.
            let sum: f64 = counted.iter().map(|(_, weight)| weight).sum();
            counted.into_iter().map(|(place, weight)| (place.clamp(0, last) as usize, weight / sum)).collect()
        };
        (0..self.to).map(of).collect()
    }

    /// The same as a matrix: for each place of the result, the weights of all places before.
    fn matrix(&self, taps: &[Vec<(usize, f64)>]) -> Vec<f64> {
        let mut weights = vec![0.0; self.to * self.from];
        for (row, taps) in weights.chunks_exact_mut(self.from.max(1)).zip(taps) {
            taps.iter().for_each(|(place, weight)| row[*place] += weight);
        }
        weights
    }
}

impl ResizeMode {
    /// Whether an element at a place counts, of those up to the last.
    fn counts(self, place: i64, last: i64) -> bool {
        let inside = matches!(self, ResizeMode::Cubic { inside: true, .. });
        !inside || (0..=last).contains(&place)
    }

    /// The elements around a place that lies by `part` behind an element: how far from that they are, and their weights.
    fn taps(self, part: f64) -> Vec<(i64, f64)> {
        let ResizeMode::Cubic { factor, .. } = self else { return vec![(0, 1.0 - part), (1, part)] };
        let a = f64::from(factor);
        let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
        let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
        vec![(-1, far(part + 1.0)), (0, near(part)), (1, near(1.0 - part)), (2, far(2.0 - part))]
    }
}

/// Elements that lie together at least for sums of a few to be worth it: otherwise a product with a matrix is.
const VECTOR: usize = 4;

/// The most places or weights of one axis that a layer may need.
const MAX_ENTRIES: usize = 1 << 24;

impl Compute for Resize {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = if self.axes.len() > 2 { Order::Last } else { Order::First };
        let mut cell = to.read(0, order)?;
        let dtype = to.output().dtype;
        for (number, axis) in order.axes(&self.axes).iter().enumerate().filter(|(_, axis)| !axis.stays()) {
            let mut dims = to.calls.ty(cell).shape.dims().to_vec();
            // What a file claims must not decide how much memory its loading takes.
            let entries = if self.mode == ResizeMode::Nearest { axis.to } else { axis.to.saturating_mul(axis.from) };
            if entries > MAX_ENTRIES {
                let (name, shape) = (to.layer().to_owned(), format!("{{{}, {}}}", axis.to, axis.from));
                return Err(SpecError::TooLarge { name, shape });
            }
            let [outer, inner] = [&dims[..number], &dims[number + 1..]].map(|dims| dims.iter().product::<usize>());
            dims[number] = axis.to;
            let ty = TensorType::new(dtype, dims);
            cell = match self.mode {
                ResizeMode::Nearest => {
                    let places = axis.nearest(self.coordinates, self.rounding);
                    if let Some(times) = axis.repeats(&places) {
                        let seen = TensorType::new(dtype, [outer * axis.from, 1, inner]);
                        let seen = to.calls.view(cell, seen);
                        let made = to.repeated(seen, &[outer * axis.from, times, inner])?;
                        cell = to.calls.view(made, ty);
                        continue;
                    }
                    let places = to.constant(Data::S32(places), &[axis.to]);
                    to.call("gather", &[cell, places], ty, &Params::new().with("axis", number as i64))?
                }
                mode => {
                    let taps = axis.taps(self.coordinates, mode);
                    if dtype != DType::F64 && inner.is_multiple_of(VECTOR) {
                        cell = weighted(to, cell, ty, number, &taps)?;
                        continue;
                    }
                    let weights = axis.matrix(&taps).into_iter();
                    let weights = Data::collect(dtype, weights.map(|weight| Scalar::from_f64(dtype, weight)));
                    let weights = to.constant(weights, &[axis.to, axis.from]);
                    // Rows of a picture, or pixels of a row, as the rows of a matrix; what is last as its columns.
                    let made = match inner {
                        1 => {
                            let seen = to.calls.view(cell, TensorType::new(dtype, [outer, axis.from]));
                            let made = TensorType::new(dtype, [outer, axis.to]);
                            to.call("matmul", &[seen, weights], made, &Params::new().with("transpose_b", true))?
                        }
                        _ => {
                            let seen = to.calls.view(cell, TensorType::new(dtype, [outer, axis.from, inner]));
                            let made = TensorType::new(dtype, [outer, axis.to, inner]);
                            to.call("matmul", &[weights, seen], made, &Params::new())?
                        }
                    };
                    to.calls.view(made, ty)
                }
            };
        }
        to.give(0, order, cell);
        Ok(())
    }
}

/// A cell of that type whose elements along an axis are sums of a few.
fn weighted(
    to: &mut Lowerer<'_>,
    cell: usize,
    ty: TensorType,
    axis: usize,
    taps: &[Vec<(usize, f64)>],
) -> Result<usize, SpecError> {
    let most = taps.iter().map(Vec::len).max().unwrap_or(0).max(1);
    // What is not there counts for nothing.
    let filled = |taps: &Vec<(usize, f64)>| {
        let all = taps.iter().map(|(place, weight)| (*place as i32, *weight as f32));
        all.chain(std::iter::repeat((-1, 0.0))).take(most).collect::<Vec<_>>()
    };
    let (places, weights) = taps.iter().flat_map(filled).unzip();
    let places = to.constant(Data::S32(places), &[taps.len(), most]);
    let weights = to.constant(Data::F32(weights), &[taps.len(), most]);
    to.call("weighted_gather", &[cell, places, weights], ty, &Params::new().with("axis", axis as i64))
}

#[cfg(test)]
mod tests {
    use super::{Axis, Coordinates, Resize, ResizeMode, Rounding};
    use crate::Model;
    use crate::builder::{Net, floats, int, ints, list, single, text};
    use crate::proto::{AttributeProto, TensorProto, attribute_type};

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

    /// How much larger each axis becomes.
    fn scales(net: &Net) -> Vec<f32> {
        let network = net.resolve(1).unwrap();
        crate::lower::lower(&network).unwrap();
        network.layers[0].op.downcast::<Resize>().unwrap().axes.iter().map(|axis| axis.scale).collect()
    }

    #[test]
    fn sizes_follow_from_scales_and_scales_from_sizes() {
        let larger = net(Some(floats(&[4], vec![1.0, 1.0, 2.0, 1.5])), None, vec![]);
        let network = larger.resolve(1).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [1, 3, 16, 9]);
        assert_eq!(scales(&larger), [1.0, 1.0, 2.0, 1.5]);
        let resize: &Resize = network.layers[0].op.downcast().unwrap();
        assert_eq!((resize.coordinates, resize.rounding), (Coordinates::HalfPixel, Rounding::RoundPreferFloor));
        let attributes = vec![
            text("mode", "linear"),
            text("coordinate_transformation_mode", "align_corners"),
            ints("axes", &[3, 2]),
        ];
        let other = net(None, Some(list(&[12, 4])), attributes);
        let network = other.resolve(1).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [1, 3, 4, 12]);
        assert_eq!(scales(&other), [1.0, 1.0, 0.5, 2.0]);
        let resize: &Resize = network.layers[0].op.downcast().unwrap();
        assert_eq!((resize.coordinates, resize.mode), (Coordinates::AlignCorners, ResizeMode::Linear));
    }

    #[test]
    fn any_axis_may_change() {
        let scaled = |scales: &[f32]| net(Some(floats(&[scales.len() as i64], scales.to_vec())), None, vec![]);
        assert_eq!(scaled(&[1.0, 2.0, 1.0, 1.0]).dims().unwrap(), [2, 6, 8, 6]);
        for bad in [&[1.0, 1.0, 0.0, 1.0][..], &[1.0, 1.0, f32::NAN, 1.0], &[1.0, 1.0, 1e30, 1.0], &[1.0, 1.0]] {
            assert_eq!(scaled(bad).code(), "bad_value", "{bad:?}");
        }
        assert_eq!(scaled(&[1.0, 1.0, 60000.0, 60000.0]).code(), "too_large");
        assert_eq!(net(None, Some(list(&[1, 3, -1, 4])), vec![]).code(), "bad_value");
        assert_eq!(net(None, None, vec![]).code(), "bad_value");
        let cubic = vec![text("mode", "cubic")];
        assert_eq!(net(None, Some(list(&[1, 3, 4, 4])), cubic).dims().unwrap(), [1, 3, 4, 4]);
        assert_eq!(net(None, Some(list(&[1, 3, 4, 4])), vec![int("antialias", 1)]).code(), "unsupported_operator");
    }

    #[test]
    fn proportions_may_be_kept() {
        let sized = |policy| {
            let attributes = vec![ints("axes", &[2, 3]), text("keep_aspect_ratio_policy", policy)];
            net(None, Some(list(&[16, 9])), attributes).dims().unwrap()
        };
        assert_eq!(sized("stretch"), [2, 3, 16, 9]);
        assert_eq!(sized("not_larger"), [2, 3, 12, 9]);
        assert_eq!(sized("not_smaller"), [2, 3, 16, 12]);
    }

    #[test]
    fn old_files_say_how_much_larger() {
        let attribute = AttributeProto {
            name: "scales".to_owned(),
            floats: vec![1.0, 1.0, 2.0, 2.0],
            r#type: attribute_type::FLOATS,
            ..Default::default()
        };
        let old = single(7, "Upsample", &[-1, 3, 4, 4], vec![], vec![attribute]);
        assert_eq!(old.dims().unwrap(), [2, 3, 8, 8]);
        let scales = floats(&[4], vec![1.0, 1.0, 2.0, 3.0]);
        let newer = single(9, "Upsample", &[-1, 3, 4, 4], vec![scales], vec![text("mode", "linear")]);
        assert_eq!(newer.dims().unwrap(), [2, 3, 8, 12]);
    }

    #[test]
    fn weights_of_one_element_add_up_to_one() {
        let axis = Axis { from: 4, to: 8, scale: 2.0 };
        for inside in [false, true] {
            let taps = axis.taps(Coordinates::HalfPixel, ResizeMode::Cubic { factor: -0.75, inside });
            assert!(axis.matrix(&taps).chunks(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-9));
        }
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
