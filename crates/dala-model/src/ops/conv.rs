//! `Conv`: a convolution along one, two or three axes, with weights `{out, in / groups, sizes}` and a bias `{out}`.

use dala_spec::{Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use super::window::{self, Axis};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

pub(super) const CONV: Operator = Operator::new("Conv", Kind::Windows, infer)
    .inputs(2, 3)
    .refuses(|node| window::refused_rank(node, node.rank(1).map(|rank| rank.saturating_sub(2))));

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    call.same_dtype(1)?;
    let (conv, dims) = Conv::of(call, 1)?;
    let out = dims.get(1).copied().unwrap_or_default();
    let bias = match call.number(2) {
        Some(number) => {
            call.same_dtype(2)?;
            let dims = call.dims(2)?;
            if dims != [out] {
                return Err(call.shape_mismatch(format!("a bias of shape {{{out}}}"), &dims));
            }
            Given::Value(number)
        }
        None => Given::Filled(call.output(dtype, vec![out])?.shape, Scalar::from_i64(dtype, 0)),
    };
    let inputs = [("x", Given::Value(call.input(0)?)), ("weight", Given::Value(call.input(1)?)), ("bias", bias)];
    let ty = call.output(dtype, dims)?;
    Ok(Outcome::layer_of(conv, inputs, ty))
}

/// Over `x`, weights and a bias, which is always there.
#[derive(Debug, PartialEq)]
pub(crate) struct Conv {
    axes: Vec<Axis>,
    groups: usize,
}

impl Conv {
    /// A node's convolution, whose weights are input `weight`, and the sizes of its result.
    pub(super) fn of(call: &NodeCall<'_>, weight: usize) -> Result<(Conv, Vec<usize>), ModelError> {
        let (dims, weight) = (call.dims(0)?, call.dims(weight)?);
        let ([batch, channels, ..], [out, per_group, size @ ..]) = (dims, weight) else {
            return Err(call.shape_mismatch("batch, channels and sizes behind them", dims));
        };
        if weight.len() != dims.len() {
            return Err(call.shape_mismatch(format!("weights of {} dimensions", dims.len()), weight));
        }
        if let Some(given) = window::size(call)?.filter(|given| given != size) {
            let expected = format!("{size:?}, as in the weights");
            return Err(call.bad_attribute("kernel_shape", expected, format!("{given:?}")));
        }
        let group = call.int("group", 1)?;
        let groups = usize::try_from(group).ok().filter(|groups| (1..=MAX_ELEMENTS).contains(groups));
        let groups = groups.ok_or_else(|| call.bad_attribute("group", "at least 1", group))?;
        if per_group.checked_mul(groups) != Some(*channels) || out % groups != 0 || *channels == 0 || *out == 0 {
            let expected = format!("weights for {channels} channels in {groups} groups");
            return Err(call.shape_mismatch(expected, &weight));
        }
        let axes = window::axes(call, size, false)?;
        let dims = [*batch, *out].into_iter().chain(axes.iter().map(|axis| axis.count)).collect();
        Ok((Conv { axes, groups }, dims))
    }

    /// The params of the kernel.
    pub(super) fn params(&self, order: Order) -> Params {
        let layout = if order == Order::Last { "nhwc" } else { "nchw" };
        window::params(&self.axes).with("groups", self.groups as i64).with("layout", layout)
    }

    /// The order to read pictures in. Convolutions read either; where each channel is by itself, and along more than two axes,
    /// only the one with channels last.
    pub(super) fn order(&self, to: &Lowerer<'_>) -> Order {
        let last = self.groups > 1 || self.axes.len() > 2 || to.value(0).constant.is_some();
        if last { Order::Last } else { to.order(0) }
    }

    /// The convolution of pictures by weights as the file has them, without what is along a third axis.
    fn plane(&self, to: &mut Lowerer<'_>, inputs: [usize; 3], order: Order) -> Result<usize, SpecError> {
        let [x, weight, bias] = inputs;
        let weight = {
            // From `{out, in, rows, columns}` to `{rows, columns, in, out}`.
            let seen = flat(to, weight, 2);
            to.turn_named(&to.value(1).name, seen, &[2, 3, 1, 0])?
        };
        let x = flat(to, x, if order == Order::Last { 1 } else { 2 });
        let (dtype, out) = (to.calls.ty(x).dtype, to.output().shape.dims()[1]);
        let counts: Vec<usize> = self.axes.iter().rev().take(2).rev().map(|axis| axis.count).collect();
        let rows = if let [rows, _] = counts[..] { rows } else { 1 };
        let columns = counts.last().copied().unwrap_or(1);
        let ty = TensorType::new(dtype, [to.calls.ty(x).shape.dims()[0], rows, columns, out]);
        to.call("conv2d", &[x, weight, bias], ty, &self.params(order))
    }
}

/// A cell of three axes as one of four, with one of size one at a place.
fn flat(to: &mut Lowerer<'_>, cell: usize, place: usize) -> usize {
    let ty = to.calls.ty(cell).clone();
    let mut dims = ty.shape.dims().to_vec();
    if dims.len() == 3 {
        dims.insert(place, 1);
    }
    to.calls.view(cell, TensorType::new(ty.dtype, dims))
}

impl Compute for Conv {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = self.order(to);
        let inputs = [to.read(0, order)?, to.first(1)?, to.first(2)?];
        let made = self.convolve(to, inputs, order)?;
        to.give_last(0, made);
        Ok(())
    }
}

impl Conv {
    /// The convolution of a cell in an order by weights and a bias as the file has them: a cell with its channels last.
    pub(super) fn convolve(&self, to: &mut Lowerer<'_>, inputs: [usize; 3], order: Order) -> Result<usize, SpecError> {
        let made = match self.axes[..] {
            [depth, _, _] => self.deep(to, inputs, &depth)?,
            _ => self.plane(to, inputs, order)?,
        };
        let output = TensorType { dtype: to.calls.ty(made).dtype, ..to.output_in(Order::Last) };
        Ok(to.calls.view(made, output))
    }

    /// Along three axes: a sum over the depth of the windows, of convolutions of planes.
    fn deep(&self, to: &mut Lowerer<'_>, [x, weight, bias]: [usize; 3], depth: &Axis) -> Result<usize, SpecError> {
        let dtype = to.calls.ty(x).dtype;
        let nothing = to.map("x * 0", &[("x", bias)], to.calls.ty(bias).clone(), &Params::new())?;
        let mut sum: Option<usize> = None;
        for (at, part) in window::taps(to, x, 1, depth)?.into_iter().enumerate() {
            let &[batch, planes, height, width, channels] = to.calls.ty(part).shape.dims() else { break };
            let part = to.calls.view(part, TensorType::new(dtype, [batch * planes, height, width, channels]));
            let &[out, inside, _, rows, columns] = to.calls.ty(weight).shape.dims() else { break };
            let start = Params::new().with("start", vec![0, 0, at as i64, 0, 0]);
            let own = to.call("slice", &[weight], TensorType::new(dtype, [out, inside, 1, rows, columns]), &start)?;
            let own = to.calls.view(own, TensorType::new(dtype, [out, inside, rows, columns]));
            let bias = if at == 0 { bias } else { nothing };
            let made = self.plane(to, [part, own, bias], Order::Last)?;
            let ty = to.calls.ty(made).clone();
            sum = Some(match sum {
                Some(sum) => to.call("elementwise_add", &[sum, made], ty, &Params::new())?,
                None => made,
            });
        }
        sum.ok_or_else(|| SpecError::internal(format!("`{}` has windows of no depth", to.layer())))
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, Conv};
    use crate::builder::{int, ints, single, some_floats, text};

    /// Along two axes: stride, padding and dilation, as far as files give them.
    fn given(conv: &Conv) -> ([usize; 2], [usize; 4], [usize; 2], usize) {
        let [rows, columns] = conv.axes[..] else { panic!("not along two axes") };
        let padding = [rows.before, columns.before, rows.after, columns.after];
        ([rows.stride, columns.stride], padding, [rows.dilation, columns.dilation], conv.groups)
    }

    #[test]
    fn a_convolution_gets_a_bias_and_a_size() {
        let attributes = vec![ints("strides", &[2, 1]), ints("pads", &[1, 0, 2, 1]), ints("dilations", &[1, 2])];
        let net = single(
            13,
            "Conv",
            &[-1, 4, 9, 8],
            vec![some_floats(&[6, 2, 3, 3])],
            [attributes, vec![int("group", 2)]].concat(),
        );
        let network = net.resolve(2).unwrap();
        let bias = &network.values[network.layers[0].inputs[2]];
        assert_eq!(bias.constant.as_deref(), Some(&dala_spec::Data::F32(vec![0.0; 6])));
        let found = network.layers[0].op.downcast().map(given);
        assert_eq!(found, Some(([2, 1], [1, 0, 2, 1], [1, 2], 2)));
        assert_eq!(net.dims().unwrap(), [2, 6, 5, 5]);
    }

    #[test]
    fn automatic_padding_becomes_explicit() {
        for (mode, size, stride, padding, dims) in [
            ("SAME_UPPER", 3, 2, [0, 1, 1, 1], [2, 1, 4, 4]),
            ("SAME_LOWER", 3, 2, [1, 1, 0, 1], [2, 1, 4, 4]),
            ("SAME_UPPER", 2, 3, [0, 0, 0, 1], [2, 1, 3, 3]),
            ("VALID", 3, 2, [0, 0, 0, 0], [2, 1, 3, 3]),
            ("NOTSET", 3, 1, [0, 0, 0, 0], [2, 1, 6, 5]),
        ] {
            let attributes = vec![text("auto_pad", mode), ints("strides", &[stride, stride])];
            let net = single(13, "Conv", &[-1, 1, 8, 7], vec![some_floats(&[1, 1, size, size])], attributes);
            let found = net.resolve(2).unwrap().layers[0].op.downcast().map(given);
            assert_eq!(found, Some(([stride as usize; 2], padding, [1, 1], 1)), "{mode} {size}");
            assert_eq!(net.dims().unwrap(), dims, "{mode} {size}");
        }
    }

    #[test]
    fn one_axis_and_three_come_down_to_pictures() {
        let line = single(13, "Conv", &[-1, 4, 9], vec![some_floats(&[6, 2, 3])], vec![int("group", 2)]);
        assert_eq!(line.dims().unwrap(), [2, 6, 7]);
        let network = line.resolve(2).unwrap();
        let axis = Axis { size: 3, stride: 1, dilation: 1, before: 0, after: 0, padded: 9, count: 7 };
        assert_eq!(network.layers[0].op.downcast(), Some(&Conv { axes: vec![axis], groups: 2 }));
        crate::lower::lower(&network).unwrap();
        let pads = vec![ints("pads", &[1, 0, 0, 1, 0, 0]), ints("strides", &[2, 1, 1])];
        let deep = single(13, "Conv", &[-1, 4, 6, 8, 7], vec![some_floats(&[6, 4, 3, 3, 2])], pads);
        assert_eq!(deep.dims().unwrap(), [2, 6, 3, 6, 6]);
        crate::lower::lower(&deep.resolve(2).unwrap()).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let conv = |x: &[i64], w: &[i64], attributes| single(13, "Conv", x, vec![some_floats(w)], attributes).code();
        assert_eq!(conv(&[1, 3, 8], &[4, 3, 3, 3], vec![]), "shape_mismatch");
        assert_eq!(conv(&[1, 3, 8, 8, 8, 8], &[4, 3, 3, 3, 3, 3], vec![]), "unsupported_operator");
        assert_eq!(conv(&[1, 3, 8, 8], &[4, 2, 3, 3], vec![]), "shape_mismatch");
        assert_eq!(conv(&[1, 3, 2, 2], &[4, 3, 3, 3], vec![]), "shape_mismatch");
        for bad in [
            ints("strides", &[0, 1]),
            ints("strides", &[1]),
            ints("pads", &[-1, 0, 0, 0]),
            ints("pads", &[i64::MAX; 4]),
            ints("dilations", &[i64::MAX; 2]),
            ints("kernel_shape", &[2, 2]),
            int("group", 0),
            int("strides", 1),
            text("auto_pad", "SOMEHOW"),
        ] {
            assert_eq!(conv(&[1, 3, 8, 8], &[4, 3, 3, 3], vec![bad.clone()]), "bad_attribute", "{bad:?}");
        }
    }
}
