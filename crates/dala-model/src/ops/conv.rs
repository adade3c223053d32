//! `Conv`: a convolution of pictures with weights `{out, in / groups, height, width}` and a bias `{out}`.

use dala_spec::{Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use super::window::{self, Windows};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, Order, ints};
use crate::op::Compute;

pub(super) const CONV: Operator = Operator::new("Conv", Kind::Windows, infer)
    .inputs(2, 3)
    .refuses(|node| window::refused_rank(node, node.rank(1).map(|rank| rank.saturating_sub(2))));

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    call.same_dtype(1)?;
    let (conv, dims) = Conv::of(call, 1)?;
    let [_, out, _, _] = dims;
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
    let ty = call.output(dtype, dims.to_vec())?;
    Ok(Outcome::layer_of(conv, inputs, ty))
}

/// Over `x`, weights and a bias, which is always there.
#[derive(Debug, PartialEq)]
pub(crate) struct Conv {
    stride: [usize; 2],
    padding: [usize; 4],
    dilation: [usize; 2],
    groups: usize,
}

impl Conv {
    /// A node's convolution, whose weights are input `weight`, and the sizes of its result.
    pub(super) fn of(call: &NodeCall<'_>, weight: usize) -> Result<(Conv, [usize; 4]), ModelError> {
        let [batch, channels, height, width] = call.picture()?;
        let weight = call.dims(weight)?;
        let &[out, per_group, window_height, window_width] = weight else {
            return Err(call.shape_mismatch("weights of shape {out, in, height, width}", &weight));
        };
        let size = [window_height, window_width];
        if let Some(given) = window::size(call)?.filter(|&given| given != size) {
            return Err(call.bad_attribute(
                "kernel_shape",
                format!("{size:?}, as in the weights"),
                format!("{given:?}"),
            ));
        }
        let group = call.int("group", 1)?;
        let groups = usize::try_from(group).ok().filter(|groups| (1..=MAX_ELEMENTS).contains(groups));
        let groups = groups.ok_or_else(|| call.bad_attribute("group", "at least 1", group))?;
        if per_group.checked_mul(groups) != Some(channels) || out % groups != 0 || channels == 0 || out == 0 {
            let expected = format!("weights for {channels} channels in {groups} groups");
            return Err(call.shape_mismatch(expected, &weight));
        }
        let Windows { stride, padding, dilation, count } = window::windows(call, [height, width], size, false)?;
        Ok((Conv { stride, padding, dilation, groups }, [batch, out, count[0], count[1]]))
    }

    /// The params of the kernel.
    pub(super) fn params(&self, order: Order) -> Params {
        Params::new()
            .with("stride", ints(&self.stride))
            .with("padding", ints(&self.padding))
            .with("dilation", ints(&self.dilation))
            .with("groups", self.groups as i64)
            .with("layout", if order == Order::Last { "nhwc" } else { "nchw" })
    }

    /// The order to read pictures in. Convolutions read either; where each channel is by itself, only the one with channels last.
    pub(super) fn order(&self, to: &Lowerer<'_>) -> Order {
        if self.groups > 1 || to.value(0).constant.is_some() { Order::Last } else { to.order(0) }
    }
}

impl Compute for Conv {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = self.order(to);
        let inputs = [to.read(0, order)?, weight(to, 1)?, to.first(2)?];
        to.call_last("conv2d", &inputs, &self.params(order))
    }
}

/// The weights, from `{out, in, rows, columns}` to `{rows, columns, in, out}`.
pub(super) fn weight(to: &mut Lowerer<'_>, place: usize) -> Result<usize, SpecError> {
    let cell = to.first(place)?;
    to.turn_named(&to.value(place).name, cell, &[2, 3, 1, 0])
}

#[cfg(test)]
mod tests {
    use super::Conv;
    use crate::builder::{int, ints, single, some_floats, text};

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
        let expected = Conv { stride: [2, 1], padding: [1, 0, 2, 1], dilation: [1, 2], groups: 2 };
        assert_eq!(network.layers[0].op.downcast(), Some(&expected));
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
            let expected = Conv { stride: [stride as usize; 2], padding, dilation: [1, 1], groups: 1 };
            assert_eq!(net.resolve(2).unwrap().layers[0].op.downcast(), Some(&expected), "{mode} {size}");
            assert_eq!(net.dims().unwrap(), dims, "{mode} {size}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let conv = |x: &[i64], w: &[i64], attributes| single(13, "Conv", x, vec![some_floats(w)], attributes).code();
        assert_eq!(conv(&[1, 3, 8], &[4, 3, 3], vec![]), "unsupported_operator");
        assert_eq!(conv(&[1, 3, 8, 8, 8], &[4, 3, 3, 3, 3], vec![]), "unsupported_operator");
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
