//! Numbers brought to a mean of zero and a deviation of one, then scaled: `LayerNormalization`, `InstanceNormalization`,
//! `GroupNormalization` and `MeanVarianceNormalization`; and `RMSNormalization` and `LpNormalization`, which only divide by a size.

use std::sync::Arc;

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::operator::{Given, Kind, Operator, Outcome};
use super::range::named_type;
use super::reduce::{How, power, reduced};
use crate::ModelError;
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

/// Over all axes from one on.
pub(super) const LAYER_NORMALIZATION: Operator = Operator::new("LayerNormalization", Kind::Axes, |call| {
    let (dims, axis) = (call.dims(0)?, from_axis(call)?);
    repeatable(call, dims, 1, call.inputs.len())?;
    let compute = Normal { groups: dims.iter().take(axis).product(), epsilon: epsilon(call)?, scales: None };
    if call.outputs < 2 {
        return layer(call, compute);
    }
    // The means, and one over the deviations, are outputs too.
    call.float()?;
    let kept = dims.iter().enumerate().map(|(place, &size)| if place < axis { size } else { 1 });
    let kind = call.int("stash_type", 1)?;
    let more = call.output(named_type(call, kind)?, kept.collect())?;
    let inputs = (0..3).filter_map(|place| Some(("", Given::Value(call.number(place)?)))).collect();
    let types = vec![call.value(0)?.ty.clone(), more.clone(), more];
    Ok(Outcome::Layer { compute: Arc::new(compute), inputs, types })
})
.inputs(2, 3)
.outputs(3);

/// Over all axes behind the channels, for each channel.
pub(super) const INSTANCE_NORMALIZATION: Operator = Operator::new("InstanceNormalization", Kind::Axes, |call| {
    let (batch, channels) = batch_and_channels(call)?;
    by_channel(call, channels)?;
    layer(call, Normal { groups: batch.saturating_mul(channels), epsilon: epsilon(call)?, scales: Some(channels) })
})
.inputs(3, 3);

/// Over all axes behind the channels and groups of channels; scaled by channel, up to version 20 by group.
pub(super) const GROUP_NORMALIZATION: Operator = Operator::new("GroupNormalization", Kind::Axes, |call| {
    let (batch, channels) = batch_and_channels(call)?;
    let groups = call.int("num_groups", 0)?;
    let count = usize::try_from(groups).ok().filter(|&count| count > 0 && channels % count == 0);
    let count = count.ok_or_else(|| call.bad_attribute("num_groups", format!("a part of {channels}"), groups))?;
    let scales = if call.opset < 21 { count } else { channels };
    by_channel(call, scales)?;
    layer(call, Normal { groups: batch.saturating_mul(count), epsilon: epsilon(call)?, scales: Some(scales) })
})
.inputs(3, 3);

pub(super) const MEAN_VARIANCE_NORMALIZATION: Operator =
    Operator::new("MeanVarianceNormalization", Kind::Axes, |call| {
        call.float()?;
        let mut axes = call.axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), call.dims(0)?.len())?;
        axes.sort_unstable();
        Ok(Outcome::layer(MeanVariance { axes }, [call.input(0)?], call.value(0)?.ty.clone()))
    });

pub(super) const RMS_NORMALIZATION: Operator = Operator::new("RMSNormalization", Kind::Axes, |call| {
    let (dims, axis) = (call.dims(0)?, from_axis(call)?);
    call.float()?;
    repeatable(call, dims, 1, 2)?;
    let compute = RootMeanSquare { axes: (axis..dims.len()).collect(), epsilon: epsilon(call)? };
    Ok(Outcome::layer(compute, [call.input(0)?, call.input(1)?], call.value(0)?.ty.clone()))
})
.inputs(2, 2);

/// Numbers divided by the size of all along an axis; zeros stay.
pub(super) const LP_NORMALIZATION: Operator = Operator::new("LpNormalization", Kind::Axes, |call| {
    call.float()?;
    let axis = call.axis(call.int("axis", -1)?, call.dims(0)?.len(), "axis")?;
    Ok(Outcome::layer(LpNorm { axis, p: power(call)? }, [call.input(0)?], call.value(0)?.ty.clone()))
});

/// Each number by those around it in the same place of other channels.
pub(super) const LRN: Operator = Operator::new("LRN", Kind::Axes, |call| {
    call.float()?;
    batch_and_channels(call)?;
    let size = call.int("size", 0)?;
    let given = usize::try_from(size).ok().filter(|size| (1..=4096).contains(size));
    let size = given.ok_or_else(|| call.bad_attribute("size", "from 1 to 4096", size))?;
    let numbers = [("alpha", 0.0001), ("beta", 0.75), ("bias", 1.0)];
    let mut params = Params::new();
    for (name, default) in numbers {
        params = params.with(name, f64::from(call.float_attribute(name, default)?));
    }
    Ok(Outcome::layer(LocalResponse { size, params }, [call.input(0)?], call.value(0)?.ty.clone()))
});

fn epsilon(call: &NodeCall<'_>) -> Result<f32, ModelError> {
    let epsilon = call.float_attribute("epsilon", 1e-5)?;
    match (0.0..=1.0).contains(&epsilon) {
        true => Ok(epsilon),
        false => Err(call.bad_attribute("epsilon", "from 0 to 1", epsilon)),
    }
}

/// The first of the axes that are normalized over.
fn from_axis(call: &NodeCall<'_>) -> Result<usize, ModelError> {
    call.axis(call.int("axis", -1)?, call.dims(0)?.len(), "axis")
}

/// An error unless those inputs can be repeated to fit.
fn repeatable(call: &NodeCall<'_>, dims: &[usize], from: usize, to: usize) -> Result<(), ModelError> {
    for place in (from..to).filter(|&place| call.has(place)) {
        call.same_dtype(place)?;
        let own = call.dims(place)?;
        if broadcast(dims, own).as_deref() != Some(dims) {
            return Err(call.shape_mismatch(format!("one that can be repeated to fit {}", Shape::from(dims)), own));
        }
    }
    Ok(())
}

fn batch_and_channels(call: &NodeCall<'_>) -> Result<(usize, usize), ModelError> {
    match *call.dims(0)? {
        [batch, channels, ..] => Ok((batch, channels)),
        ref other => Err(call.shape_mismatch("batch and channels", other)),
    }
}

/// An error unless scale and bias have so many elements.
fn by_channel(call: &NodeCall<'_>, count: usize) -> Result<(), ModelError> {
    for place in 1..3 {
        call.same_dtype(place)?;
        if call.dims(place)? != [count] {
            return Err(call.shape_mismatch(format!("a scale and a bias of shape {{{count}}}"), call.dims(place)?));
        }
    }
    Ok(())
}

fn layer(call: &NodeCall<'_>, compute: Normal) -> Result<Outcome, ModelError> {
    call.float()?;
    let inputs = (0..3).filter_map(|place| call.number(place));
    Ok(Outcome::layer(compute, inputs, call.value(0)?.ty.clone()))
}

/// Over `x`, a scale and perhaps a bias.
#[derive(Debug, PartialEq)]
struct Normal {
    /// How many equal parts, one after the other, are normalized each by itself.
    groups: usize,
    epsilon: f32,
    /// How many parts of a picture have a scale and a bias each; if none, these are repeated to fit.
    scales: Option<usize>,
}

impl Compute for Normal {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let (dtype, dims) = (output.dtype, output.shape.dims());
        let line = output.shape.len() / self.groups.max(1);
        let lines = TensorType::new(dtype, [self.groups, line]);
        let x = to.calls.view(x, lines.clone());
        let mut more = (1..to.inputs()).map(|place| to.first(place)).collect::<Result<Vec<_>, _>>()?;
        // A scale for each place of a line is part of the kernel, any other is applied after.
        let own = |place: usize| self.scales.is_none() && to.value(place).ty.shape.len() == line;
        let inside = (1..to.inputs()).all(own);
        let [one, zero] =
            [1.0, 0.0].map(|value| to.constant(Data::collect(dtype, [Scalar::from_f64(dtype, value)]), &[1]));
        let mut inputs = [x, one, zero];
        if inside {
            for (input, cell) in inputs.iter_mut().skip(1).zip(more.drain(..)) {
                *input = to.calls.view(cell, TensorType::new(dtype, [line]));
            }
        }
        let epsilon = Params::new().with("epsilon", f64::from(self.epsilon));
        let mut made = to.call("layer_norm", &inputs, lines, &epsilon)?;
        if !inside {
            let mut seen = output.clone();
            if let Some(scales) = self.scales {
                let rest = output.shape.len() / (dims[0] * scales).max(1);
                seen = TensorType::new(dtype, [dims[0], scales, rest]);
                more = more.iter().map(|cell| to.calls.view(*cell, TensorType::new(dtype, [scales, 1]))).collect();
            }
            let zero = more.get(1).copied().unwrap_or(zero);
            let inputs = [("x", to.calls.view(made, seen.clone())), ("scale", more[0]), ("bias", zero)];
            made = to.map("x * scale + bias", &inputs, seen, &Params::new())?;
        }
        to.give_first(0, made);
        if to.outputs() > 1 {
            self.statistics(to, x)?;
        }
        Ok(())
    }
}

impl Normal {
    /// The means of the lines, and one over their deviations.
    fn statistics(&self, to: &mut Lowerer<'_>, x: usize) -> Result<(), SpecError> {
        let (lines, ty, none) = (to.calls.ty(x).shape.clone(), to.output_at(1).clone(), Params::new());
        let wide = |dims: &[usize]| TensorType::new(ty.dtype, dims);
        let x = to.call("cast", &[x], wide(lines.dims()), &none)?;
        let mean = reduced(to, x, How::Mean, &[1], wide(&[self.groups, 1]))?;
        let squares = to.map("(x - m) * (x - m)", &[("x", x), ("m", mean)], wide(lines.dims()), &none)?;
        let variance = reduced(to, squares, How::Mean, &[1], wide(&[self.groups, 1]))?;
        let epsilon = Params::new().with("epsilon", f64::from(self.epsilon));
        let inverse = to.map("1 / sqrt(v + epsilon)", &[("v", variance)], wide(&[self.groups, 1]), &epsilon)?;
        for (place, cell) in [(1, mean), (2, inverse)] {
            let seen = to.calls.view(cell, ty.clone());
            to.give_first(place, seen);
        }
        Ok(())
    }
}

/// `(x - mean) / (deviation + 1e-9)`.
#[derive(Debug)]
struct MeanVariance {
    /// The axes, in order.
    axes: Vec<usize>,
}

impl Compute for MeanVariance {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output, none) = (to.first(0)?, to.output().clone(), Params::new());
        let small = kept(&output, &self.axes);
        let mean = reduced(to, x, How::Mean, &self.axes, small.clone())?;
        let centred = to.map("x - m", &[("x", x), ("m", mean)], output.clone(), &none)?;
        let squares = to.map("x * x", &[("x", centred)], output.clone(), &none)?;
        let variance = reduced(to, squares, How::Mean, &self.axes, small)?;
        let made = to.map("x / (sqrt(v) + 1e-9)", &[("x", centred), ("v", variance)], output, &none)?;
        to.give_first(0, made);
        Ok(())
    }
}

/// A type whose shape has size one along these axes.
fn kept(ty: &TensorType, axes: &[usize]) -> TensorType {
    let size = |(axis, &size): (usize, &usize)| if axes.contains(&axis) { 1 } else { size };
    TensorType::new(ty.dtype, ty.shape.dims().iter().enumerate().map(size).collect::<Vec<usize>>())
}

/// `x / sqrt(mean(x * x) + epsilon) * scale`.
#[derive(Debug)]
struct RootMeanSquare {
    /// The axes, in order.
    axes: Vec<usize>,
    epsilon: f32,
}

impl Compute for RootMeanSquare {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, scale, output) = (to.first(0)?, to.first(1)?, to.output().clone());
        // Squares of halves need more digits than they have.
        let dtype = if output.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let wide = TensorType { dtype, shape: output.shape.clone() };
        let squares = to.map("x * x", &[("x", x)], wide.clone(), &Params::new())?;
        let mean = reduced(to, squares, How::Mean, &self.axes, kept(&wide, &self.axes))?;
        let inputs = [("x", x), ("mean", mean), ("scale", scale)];
        let params = Params::new().with("epsilon", f64::from(self.epsilon));
        let made = to.map("x / sqrt(mean + epsilon) * scale", &inputs, output, &params)?;
        to.give_first(0, made);
        Ok(())
    }
}

#[derive(Debug)]
struct LpNorm {
    axis: usize,
    p: u32,
}

impl Compute for LpNorm {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let size = reduced(to, x, How::Norm(self.p), &[self.axis], kept(&output, &[self.axis]))?;
        let made = to.map("select(n == 0, 0, x / n)", &[("x", x), ("n", size)], output, &Params::new())?;
        to.give_first(0, made);
        Ok(())
    }
}

/// `x / (bias + alpha * mean of the squares around)^beta`, the mean over `size` channels of which some may not be there.
#[derive(Debug)]
struct LocalResponse {
    size: usize,
    params: Params,
}

impl Compute for LocalResponse {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let [batch, channels, rest @ ..] = output.shape.dims() else { return Ok(()) };
        // Channels as the rows of a picture one pixel wide.
        let seen = TensorType::new(output.dtype, [*batch, *channels, 1, rest.iter().product()]);
        let x = to.calls.view(x, seen.clone());
        let squares = to.map("x * x", &[("x", x)], seen.clone(), &Params::new())?;
        let before = (self.size - 1) / 2;
        let windows = Params::new()
            .with("size", ints(&[self.size, 1]))
            .with("padding", ints(&[before, 0, self.size - 1 - before, 0]))
            .with("count_padding", true);
        let mean = to.call("avg_pool2d", &[squares], seen.clone(), &windows)?;
        let made = to.map("x / pow(bias + alpha * m, beta)", &[("x", x), ("m", mean)], seen, &self.params)?;
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Normal;
    use crate::builder::{float, int, ints, single, some_floats};

    #[test]
    fn lines_are_those_of_the_axes() {
        let groups = |op: &str, opset, more: Vec<&[i64]>, attributes| {
            let more = more.into_iter().map(some_floats).collect();
            let network = single(opset, op, &[-1, 6, 4, 5], more, attributes).resolve(2).unwrap();
            crate::lower::lower(&network).unwrap();
            network.layers[0].op.downcast::<Normal>().map(|normal| (normal.groups, normal.scales)).unwrap()
        };
        assert_eq!(groups("LayerNormalization", 17, vec![&[5], &[5]], vec![]), (48, None));
        assert_eq!(groups("LayerNormalization", 17, vec![&[4, 1]], vec![int("axis", 1)]), (2, None));
        assert_eq!(groups("InstanceNormalization", 13, vec![&[6], &[6]], vec![]), (12, Some(6)));
        let three = || vec![int("num_groups", 3)];
        assert_eq!(groups("GroupNormalization", 18, vec![&[3], &[3]], three()), (6, Some(3)));
        assert_eq!(groups("GroupNormalization", 21, vec![&[6], &[6]], three()), (6, Some(6)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |op: &str, more: &[&[i64]], attributes| {
            single(21, op, &[1, 6, 4], more.iter().map(|dims| some_floats(dims)).collect(), attributes).code()
        };
        assert_eq!(code("LayerNormalization", &[&[5]], vec![]), "shape_mismatch");
        assert_eq!(code("LayerNormalization", &[&[4]], vec![float("epsilon", -1.0)]), "bad_attribute");
        assert_eq!(code("InstanceNormalization", &[&[4], &[4]], vec![]), "shape_mismatch");
        assert_eq!(code("GroupNormalization", &[&[6], &[6]], vec![int("num_groups", 4)]), "bad_attribute");
        assert_eq!(code("LRN", &[], vec![]), "bad_attribute");
        assert_eq!(code("MeanVarianceNormalization", &[], vec![ints("axes", &[3])]), "bad_value");
        assert_eq!(code("LpNormalization", &[], vec![int("p", 0)]), "bad_attribute");
    }

    #[test]
    fn all_come_down_to_kernels() {
        for (op, more, attributes) in [
            ("LRN", vec![], vec![int("size", 3)]),
            ("MeanVarianceNormalization", vec![], vec![]),
            ("RMSNormalization", vec![some_floats(&[5])], vec![]),
            ("LpNormalization", vec![], vec![int("p", 1)]),
        ] {
            let network = single(23, op, &[-1, 6, 4, 5], more, attributes).resolve(2).unwrap();
            crate::lower::lower(&network).unwrap();
        }
    }
}
