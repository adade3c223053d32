//! `ConvTranspose`: every pixel is multiplied by weights `{in, out / groups, height, width}` and added to a window of the result, and
//! windows overlap. Of pictures, of lines, which are pictures of one row, or of spaces, which are pictures one behind the other.

use dala_spec::{Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

pub(super) const CONV_TRANSPOSE: Operator =
    Operator::new("ConvTranspose", Kind::Windows, infer).inputs(2, 3).refuses(|node| match node.rank(1) {
        Some(rank @ 6..) => Some(too_many(rank - 2)),
        _ => None,
    });

fn too_many(rank: usize) -> String {
    format!("works along {rank} axes, 1 to 3 are supported")
}

/// The largest stride, dilation and window.
const LARGEST: usize = 4096;

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let (dims, weight) = (call.dims(0)?, call.dims(1)?);
    call.same_dtype(1)?;
    let (&[batch, channels, ref picture @ ..], &[inside, per_group, ref size @ ..]) = (dims, weight) else {
        return Err(call.shape_mismatch("a first input of shape {batch, channels, height, width}", dims));
    };
    if picture.len() != size.len() || picture.is_empty() {
        let expected = format!("weights of shape {{in, out, …}} with {} axes more", picture.len());
        return Err(call.shape_mismatch(expected, weight));
    }
    if picture.len() > 3 {
        return Err(call.unsupported(too_many(picture.len())));
    }
    if let Some(given) = call.ints("kernel_shape")?
        && !given.iter().map(|&own| usize::try_from(own).ok()).eq(size.iter().map(|&own| Some(own)))
    {
        return Err(call.bad_attribute("kernel_shape", format!("{size:?}, as in the weights"), format!("{given:?}")));
    }
    let group = call.int("group", 1)?;
    let groups = usize::try_from(group).ok().filter(|groups| (1..=MAX_ELEMENTS).contains(groups));
    let groups = groups.ok_or_else(|| call.bad_attribute("group", "at least 1", group))?;
    if inside != channels || channels % groups != 0 || channels == 0 || per_group == 0 {
        return Err(call.shape_mismatch(format!("weights for {channels} channels in {groups} groups"), weight));
    }
    let Some(out) = per_group.checked_mul(groups).filter(|&out| out <= MAX_ELEMENTS) else {
        return Err(call.bad_attribute("group", "fewer", group));
    };
    let axes = axes(call, picture, size)?;
    let sizes: Vec<usize> = axes.iter().map(|axis| axis.out).collect();
    let ty = call.output(dtype, [&[batch, out], &sizes[..]].concat())?;
    let bias = match call.number(2) {
        Some(number) => {
            call.same_dtype(2)?;
            let dims = call.dims(2)?;
            if dims != [out] {
                return Err(call.shape_mismatch(format!("a bias of shape {{{out}}}"), dims));
            }
            Given::Value(number)
        }
        None => Given::Filled(call.output(dtype, vec![out])?.shape, Scalar::from_i64(dtype, 0)),
    };
    // What is made on the way must fit as well.
    let spread = axes.iter().fold(batch.saturating_mul(channels.max(out)), |all, axis| {
        let longest = axis.out.saturating_add(axis.stride).max(axis.from.saturating_mul(axis.stride));
        all.saturating_mul(longest.saturating_add(axis.reach()))
    });
    if spread > MAX_ELEMENTS {
        return Err(call.output(dtype, vec![MAX_ELEMENTS; 2]).err().unwrap_or_else(|| call.unsupported("too large")));
    }
    let row = Axis { from: 1, size: 1, stride: 1, dilation: 1, before: 0, out: 1 };
    let (depth, axes) = match axes[..] {
        [columns] => (None, [row, columns]),
        [rows, columns] => (None, [rows, columns]),
        [depth, rows, columns] => (Some(depth), [rows, columns]),
        _ => return Err(call.unsupported(too_many(axes.len()))),
    };
    let inputs = [("x", Given::Value(call.input(0)?)), ("weight", Given::Value(call.input(1)?)), ("bias", bias)];
    Ok(Outcome::layer_of(ConvTranspose { depth, axes, groups }, inputs, ty))
}

/// One entry for each axis of the picture.
fn axes(call: &NodeCall<'_>, picture: &[usize], size: &[usize]) -> Result<Vec<Axis>, ModelError> {
    let rank = picture.len();
    let list =
        |name: &'static str, least: usize, most: usize, count: usize| -> Result<Option<Vec<usize>>, ModelError> {
            let Some(given) = call.ints(name)? else { return Ok(None) };
            let sizes = given.iter().map(|&own| usize::try_from(own).ok().filter(|own| (least..=most).contains(own)));
            let sizes: Option<Vec<usize>> = sizes.collect();
            let bad = || call.bad_attribute(name, format!("{count} numbers of at least {least}"), format!("{given:?}"));
            sizes.filter(|sizes| sizes.len() == count).map(Some).ok_or_else(bad)
        };
    let strides = list("strides", 1, LARGEST, rank)?.unwrap_or_else(|| vec![1; rank]);
    let dilations = list("dilations", 1, LARGEST, rank)?.unwrap_or_else(|| vec![1; rank]);
    let more = list("output_padding", 0, LARGEST, rank)?.unwrap_or_else(|| vec![0; rank]);
    let auto = call.text("auto_pad", "NOTSET")?;
    let pads = match auto {
        "NOTSET" | "" => list("pads", 0, MAX_ELEMENTS, 2 * rank)?.unwrap_or_else(|| vec![0; 2 * rank]),
        "VALID" | "SAME_UPPER" | "SAME_LOWER" => vec![0; 2 * rank],
        other => return Err(call.bad_attribute("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", other)),
    };
    let sizes = match list("output_shape", 0, MAX_ELEMENTS, rank) {
        // Some files write batch and channels as well.
        Err(_) => list("output_shape", 0, MAX_ELEMENTS, rank + 2)?.map(|sizes| sizes.into_iter().skip(2).collect()),
        given => given?,
    };
    let sizes: Option<Vec<usize>> = match auto {
        _ if sizes.is_some() => sizes,
        "SAME_UPPER" | "SAME_LOWER" => {
            Some(picture.iter().zip(&strides).map(|(from, stride)| from.saturating_mul(*stride)).collect())
        }
        _ => None,
    };
    let entries = picture.iter().zip(size).zip(strides.iter().zip(&dilations)).zip(more).enumerate();
    let mut axes = Vec::with_capacity(rank);
    for (place, (((&from, &size), (&stride, &dilation)), more)) in entries {
        if size == 0 || size > LARGEST || from == 0 {
            return Err(
                call.shape_mismatch(format!("windows of 1 to {LARGEST} and pictures with pixels"), call.dims(1)?)
            );
        }
        let mut axis = Axis { from, size, stride, dilation, before: 0, out: 0 };
        let full = (from - 1).saturating_mul(stride).saturating_add(axis.reach()).saturating_add(more);
        match sizes.as_ref().and_then(|sizes| sizes.get(place)) {
            Some(&wanted) => {
                let cut = full.saturating_sub(wanted);
                axis.before = if auto == "SAME_UPPER" { cut / 2 } else { cut - cut / 2 };
                axis.out = wanted;
            }
            None => {
                let (before, after) = (pads.get(place).copied(), pads.get(place + rank).copied());
                let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
                let out = full.checked_sub(before.saturating_add(after)).filter(|&out| out > 0);
                let bad = || call.bad_attribute("pads", format!("less than {full} along an axis"), format!("{pads:?}"));
                (axis.before, axis.out) = (before, out.ok_or_else(bad)?);
            }
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// Where windows lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    from: usize,
    size: usize,
    stride: usize,
    dilation: usize,
    /// How much of the full result is cut off before what is kept.
    before: usize,
    /// How much is kept.
    out: usize,
}

impl Axis {
    /// From the first to the last element of a window.
    fn reach(&self) -> usize {
        (self.size - 1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// How many pixels of the picture a pixel of the result is made of.
    fn taps(&self) -> usize {
        self.size.div_ceil(self.stride)
    }
}

/// Over `x`, weights and a bias, which is always there.
#[derive(Debug, PartialEq)]
struct ConvTranspose {
    /// The axis before rows and columns, if there are three.
    depth: Option<Axis>,
    axes: [Axis; 2],
    groups: usize,
}

impl Compute for ConvTranspose {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let line = to.dims(0).len() == 3;
        let x = match line {
            // A line is a picture of one row.
            true => {
                let (dims, first) = (to.dims(0), to.first(0)?);
                let ty = TensorType::new(to.output().dtype, [dims[0], dims[1], 1, dims[2]]);
                let row = to.calls.view(first, ty);
                to.turn_named(&to.value(0).name, row, &[0, 2, 3, 1])?
            }
            false => to.last(0)?,
        };
        let inputs = [x, to.first(1)?, to.first(2)?];
        let y = match self.depth {
            Some(depth) => self.deep(to, inputs, &depth)?,
            None => self.plane(to, inputs)?,
        };
        match line {
            true => {
                let turned = to.turn_named(to.layer(), y, &[0, 3, 1, 2])?;
                let line = to.calls.view(turned, to.output().clone());
                to.give_first(0, line);
            }
            false => to.give_last(0, y),
        }
        Ok(())
    }
}

impl ConvTranspose {
    /// Of pictures with their channels last, by weights and a bias as the file has them.
    fn plane(&self, to: &mut Lowerer<'_>, inputs: [usize; 3]) -> Result<usize, SpecError> {
        match self.groups == 1 && self.axes.iter().all(|axis| axis.dilation == 1) {
            true => self.by_phases(to, inputs),
            false => self.among_zeros(to, inputs),
        }
    }

    /// Along three axes: every plane by the weights of each depth of a window, laid where that depth falls, and summed up.
    fn deep(&self, to: &mut Lowerer<'_>, [x, weight, bias]: [usize; 3], depth: &Axis) -> Result<usize, SpecError> {
        let dtype = to.output().dtype;
        let none = to.map("x * 0", &[("x", bias)], to.calls.ty(bias).clone(), &Params::new())?;
        let ([batch, channels, ..], [inside, per_group, ..]) = (to.dims(0), to.dims(1)) else { return Ok(x) };
        let [rows, columns] = self.axes;
        let planes = TensorType::new(dtype, [batch * depth.from, rows.from, columns.from, *channels]);
        let x = to.calls.view(x, planes);
        let spread = depth.from * depth.stride;
        let rest = rows.out * columns.out * per_group * self.groups;
        let mut sum = None;
        for at in 0..depth.size {
            let start = Params::new().with("start", ints(&[0, 0, at, 0, 0]));
            let own = TensorType::new(dtype, [*inside, *per_group, 1, rows.size, columns.size]);
            let own = to.call("slice", &[weight], own, &start)?;
            let mut part = self.plane(to, [x, own, none])?;
            if depth.stride > 1 {
                part = to.calls.view(part, TensorType::new(dtype, [*batch, depth.from, 1, rest]));
                let ty = TensorType::new(dtype, [*batch, depth.from, depth.stride, rest]);
                let after = Params::new().with("after", ints(&[0, 0, depth.stride - 1, 0]));
                part = to.call("pad", &[part], ty, &after)?;
            }
            part = to.calls.view(part, TensorType::new(dtype, [*batch, spread, rest]));
            // Where the first plane falls: so far behind the start of what is kept, or before it.
            let place = at * depth.dilation;
            let (before, start) = (place.saturating_sub(depth.before), depth.before.saturating_sub(place));
            let after = (start + depth.out).saturating_sub(before + spread);
            if before + after > 0 {
                let ty = TensorType::new(dtype, [*batch, before + spread + after, rest]);
                let sides = Params::new().with("before", ints(&[0, before, 0])).with("after", ints(&[0, after, 0]));
                part = to.call("pad", &[part], ty, &sides)?;
            }
            let kept = TensorType::new(dtype, [*batch, depth.out, rest]);
            if before + spread + after != depth.out {
                part = to.call("slice", &[part], kept.clone(), &Params::new().with("start", ints(&[0, start, 0])))?;
            }
            sum = Some(match sum {
                Some(sum) => to.call("elementwise_add", &[sum, part], kept, &Params::new())?,
                None => part,
            });
        }
        let sum = sum.ok_or_else(|| SpecError::internal(format!("`{}` has windows of no depth", to.layer())))?;
        let ty = TensorType::new(dtype, [*batch, depth.out, rows.out, columns.out, per_group * self.groups]);
        let sum = to.calls.view(sum, ty.clone());
        to.call("elementwise_add", &[sum, bias], ty, &Params::new())
    }

    /// All pixels of the result whose places have the same rest by the stride are a convolution of the picture by every
    /// so many of the weights. They are computed side by side as channels, and then put where they belong.
    fn by_phases(&self, to: &mut Lowerer<'_>, [x, weight, bias]: [usize; 3]) -> Result<usize, SpecError> {
        let dtype = to.output().dtype;
        let (inside, out) = (to.dims(1)[0], to.dims(1)[1]);
        let [rows, columns] = self.axes;
        let (stride, taps) = ([rows.stride, columns.stride], [rows.taps(), columns.taps()]);
        let spread = [taps[0] * stride[0], taps[1] * stride[1]];
        let mut weight = to.calls.view(weight, TensorType::new(dtype, [inside, out, rows.size, columns.size]));
        if spread != [rows.size, columns.size] {
            let after = [0, 0, spread[0] - rows.size, spread[1] - columns.size];
            let ty = TensorType::new(dtype, [inside, out, spread[0], spread[1]]);
            weight = to.call("pad", &[weight], ty, &Params::new().with("after", ints(&after)))?;
        }
        let apart = [inside, out, taps[0], stride[0], taps[1], stride[1]];
        weight = to.calls.view(weight, TensorType::new(dtype, apart));
        weight = to.turn_named(&to.value(1).name, weight, &[2, 4, 0, 3, 5, 1])?;
        let phases = stride[0] * stride[1] * out;
        weight = turned_round(to, weight, [taps[0], taps[1], inside, phases])?;
        let zeros = Data::collect(dtype, std::iter::repeat_n(Scalar::from_i64(dtype, 0), phases));
        let zeros = to.constant(zeros, &[stride[0] * stride[1], out]);
        let each = TensorType::new(dtype, [stride[0] * stride[1], out]);
        let bias = to.call("elementwise_add", &[zeros, bias], each, &Params::new())?;
        let bias = to.calls.view(bias, TensorType::new(dtype, [phases]));

        // The first and the last pixel, in steps of the stride, that something of is kept.
        let ends = |axis: &Axis, taps: usize| {
            let first = (axis.before / axis.stride).min(taps - 1);
            let last = (axis.before + axis.out.max(1) - 1) / axis.stride;
            let after = (last + 1).saturating_sub(axis.from);
            (
                taps - 1 - first,
                after,
                axis.from + (taps - 1 - first) + after + 1 - taps,
                axis.before - first * axis.stride,
            )
        };
        let [down, across] = [ends(&rows, taps[0]), ends(&columns, taps[1])];
        let batch = to.calls.ty(x).shape.dims()[0];
        let params = Params::new().with("padding", ints(&[down.0, across.0, down.1, across.1]));
        let ty = TensorType::new(dtype, [batch, down.2, across.2, phases]);
        let y = to.call("conv2d", &[x, weight, bias], ty, &params)?;
        let y = to.calls.view(y, TensorType::new(dtype, [batch, down.2, across.2, stride[0], stride[1], out]));
        let y = to.turn_named(to.layer(), y, &[0, 1, 3, 2, 4, 5])?;
        let full = [batch, down.2 * stride[0], across.2 * stride[1], out];
        let y = to.calls.view(y, TensorType::new(dtype, full));
        self.cut(to, y, [down.3, across.3])
    }

    /// A convolution of the picture with zeros between its pixels.
    fn among_zeros(&self, to: &mut Lowerer<'_>, [x, weight, bias]: [usize; 3]) -> Result<usize, SpecError> {
        let (dtype, batch, channels) = (to.output().dtype, to.calls.ty(x).shape.dims()[0], to.dims(0)[1]);
        let (groups, out) = (self.groups, to.dims(1)[1]);
        let [rows, columns] = self.axes;
        let apart = [groups, channels / groups, out, rows.size, columns.size];
        let weight = to.calls.view(weight, TensorType::new(dtype, apart));
        let weight = to.turn_named(&to.value(1).name, weight, &[3, 4, 1, 0, 2])?;
        let weight = turned_round(to, weight, [rows.size, columns.size, channels / groups, groups * out])?;

        let after = ints(&[0, 0, rows.stride - 1, 0, columns.stride - 1, 0]);
        let between = [batch, rows.from, rows.stride, columns.from, columns.stride, channels];
        let apart = to.calls.view(x, TensorType::new(dtype, [batch, rows.from, 1, columns.from, 1, channels]));
        let params = Params::new().with("after", after);
        let x = match rows.stride * columns.stride {
            1 => apart,
            _ => to.call("pad", &[apart], TensorType::new(dtype, between), &params)?,
        };
        let sizes = [rows.from * rows.stride, columns.from * columns.stride];
        let x = to.calls.view(x, TensorType::new(dtype, [batch, sizes[0], sizes[1], channels]));
        // Windows start so much before the picture that all of the result is there, but for what is cut off.
        let ends = |axis: &Axis| {
            let around = axis.reach() - 1;
            let first = axis.before.min(around);
            let start = axis.before - first;
            let after = (start + axis.out + axis.reach()).saturating_sub(axis.from * axis.stride + around - first + 1);
            (around - first, after, axis.from * axis.stride + around - first + after + 1 - axis.reach(), start)
        };
        let [down, across] = [ends(&rows), ends(&columns)];
        let params = Params::new()
            .with("padding", ints(&[down.0, across.0, down.1, across.1]))
            .with("dilation", ints(&[rows.dilation, columns.dilation]))
            .with("groups", groups as i64);
        let ty = TensorType::new(dtype, [batch, down.2, across.2, groups * out]);
        let y = to.call("conv2d", &[x, weight, bias], ty, &params)?;
        self.cut(to, y, [down.3, across.3])
    }

    /// What is kept of the result, from `start` on.
    fn cut(&self, to: &mut Lowerer<'_>, y: usize, start: [usize; 2]) -> Result<usize, SpecError> {
        let &[batch, rows, columns, out] = to.calls.ty(y).shape.dims() else { return Ok(y) };
        let [kept_rows, kept_columns] = self.axes.map(|axis| axis.out);
        if [rows, columns] == [kept_rows, kept_columns] {
            return Ok(y);
        }
        let ty = TensorType::new(to.output().dtype, [batch, kept_rows, kept_columns, out]);
        to.call("slice", &[y], ty, &Params::new().with("start", ints(&[0, start[0], start[1], 0])))
    }
}

/// Weights `{rows, columns, …}` from the last to the first.
fn turned_round(to: &mut Lowerer<'_>, weight: usize, dims: [usize; 4]) -> Result<usize, SpecError> {
    let (dtype, taps) = (to.output().dtype, dims[0] * dims[1]);
    if taps == 1 {
        return Ok(to.calls.view(weight, TensorType::new(dtype, dims)));
    }
    let ty = TensorType::new(dtype, [taps, dims[2], dims[3]]);
    let list = to.calls.view(weight, ty.clone());
    let back = to.constant(Data::S32((0..taps as i32).rev().collect()), &[taps]);
    let list = to.call("gather", &[list, back], ty, &Params::new().with("axis", 0))?;
    Ok(to.calls.view(list, TensorType::new(dtype, dims)))
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, int, ints, single, some_floats, text};
    use crate::proto::AttributeProto;

    fn net(x: &[i64], weight: &[i64], attributes: Vec<AttributeProto>) -> Net {
        single(13, "ConvTranspose", x, vec![some_floats(weight)], attributes)
    }

    fn dims(x: &[i64], weight: &[i64], attributes: Vec<AttributeProto>) -> Vec<usize> {
        let net = net(x, weight, attributes);
        // What it comes down to fits as well.
        crate::lower::lower(&net.resolve(2).unwrap()).unwrap();
        net.dims().unwrap()
    }

    #[test]
    fn sizes_follow_from_strides_and_padding() {
        let strides = || ints("strides", &[2, 2]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 3, 3], vec![]), [2, 2, 7, 6]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 2, 2], vec![strides()]), [2, 2, 10, 8]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 4, 4], vec![strides(), ints("pads", &[1; 4])]), [2, 2, 10, 8]);
        let odd = vec![strides(), ints("pads", &[1; 4]), ints("output_padding", &[1, 1])];
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 3, 3], odd), [2, 2, 10, 8]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 3, 3], vec![strides(), text("auto_pad", "SAME_UPPER")]), [2, 2, 10, 8]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 3, 3], vec![strides(), ints("output_shape", &[9, 12])]), [2, 2, 9, 12]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 3, 3], vec![ints("dilations", &[2, 3])]), [2, 2, 9, 10]);
        assert_eq!(dims(&[-1, 4, 5, 4], &[4, 1, 4, 4], vec![strides(), int("group", 4)]), [2, 4, 12, 10]);
        assert_eq!(dims(&[-1, 3, 5], &[3, 2, 3], vec![ints("strides", &[3])]), [2, 2, 15]);
        assert_eq!(dims(&[-1, 3, 5, 4], &[3, 2, 1, 1], vec![strides(), ints("pads", &[3; 4])]), [2, 2, 3, 1]);
        let deep = vec![ints("strides", &[2, 1, 3]), ints("pads", &[1, 0, 2, 0, 1, 0]), ints("dilations", &[3, 1, 1])];
        assert_eq!(dims(&[-1, 4, 3, 4, 5], &[4, 1, 2, 3, 2], [deep, vec![int("group", 2)]].concat()), [2, 2, 7, 5, 12]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |x: &[i64], weight: &[i64], attributes| net(x, weight, attributes).code();
        assert_eq!(code(&[1, 3, 5, 4, 4, 4], &[3, 2, 3, 3, 3, 3], vec![]), "unsupported_operator");
        assert_eq!(code(&[1, 3, 5, 4], &[2, 3, 3, 3], vec![]), "shape_mismatch");
        for bad in [
            ints("strides", &[0, 1]),
            ints("strides", &[1]),
            ints("pads", &[-1, 0, 0, 0]),
            ints("pads", &[100; 4]),
            ints("pads", &[i64::MAX; 4]),
            ints("dilations", &[i64::MAX; 2]),
            ints("kernel_shape", &[2, 2]),
            ints("output_shape", &[2]),
            int("group", 0),
            text("auto_pad", "SOMEHOW"),
        ] {
            assert_eq!(code(&[1, 3, 5, 4], &[3, 2, 3, 3], vec![bad.clone()]), "bad_attribute", "{bad:?}");
        }
    }
}
