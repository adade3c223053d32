//! `ConvInteger` and `QLinearConv`: convolutions of bytes, with a zero for the first input and one for each channel of weights.

use dala_spec::{DType, Data, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::conv::Conv;
use super::operator::{Given, Kind, Operator, Outcome};
use super::quantized::{Each, bytes, cast, centred, pair, rescaled, scale, sums_in, zero};
use super::window;
use crate::ModelError;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

/// The sums themselves.
pub(super) const CONV_INTEGER: Operator = Operator::new("ConvInteger", Kind::Windows, |call| {
    let (conv, dims) = sizes(call, 1)?;
    let out = dims.get(1).copied().unwrap_or_default();
    let ty = call.output(DType::S32, dims)?;
    let inputs = [
        ("x", Given::Value(call.input(0)?)),
        ("weight", Given::Value(call.input(1)?)),
        ("x zero", zero(call, 2, 0, Each(1, 0))?),
        ("weight zero", zero(call, 3, 1, Each(out, 0))?),
    ];
    Ok(Outcome::layer_of(Integers { conv, scaled: false }, inputs, ty))
})
.inputs(2, 4)
.refuses(|node| window::refused_rank(node, node.rank(1).map(|rank| rank.saturating_sub(2))));

/// The sums and a bias as bytes, by a scale and a zero of their own.
pub(super) const Q_LINEAR_CONV: Operator = Operator::new("QLinearConv", Kind::Windows, |call| {
    let (conv, dims) = sizes(call, 3)?;
    let out = dims.get(1).copied().unwrap_or_default();
    let ty = call.output(bytes(call, 7)?, dims)?;
    let mut inputs = vec![
        ("x", Given::Value(call.input(0)?)),
        ("weight", Given::Value(call.input(3)?)),
        ("x zero", zero(call, 2, 0, Each(1, 0))?),
        ("weight zero", zero(call, 5, 3, Each(out, 0))?),
        ("x scale", scale(call, 1, Each(1, 0))?),
        ("weight scale", scale(call, 4, Each(out, 0))?),
        ("scale", scale(call, 6, Each(1, 0))?),
        ("zero", zero(call, 7, 7, Each(1, 0))?),
    ];
    if let Some(bias) = call.number(8) {
        if call.dtype(8)? != DType::S32 {
            return Err(call.type_mismatch("a bias of type s32", call.dtype(8)?));
        }
        if call.dims(8)? != [out] {
            return Err(call.shape_mismatch(format!("a bias of shape {{{out}}}"), call.dims(8)?));
        }
        inputs.push(("bias", Given::Value(bias)));
    }
    Ok(Outcome::layer_of(Integers { conv, scaled: true }, inputs, ty))
})
.inputs(8, 9)
.refuses(|node| window::refused_rank(node, node.rank(3).map(|rank| rank.saturating_sub(2))));

/// A convolution of bytes with bytes.
fn sizes(call: &NodeCall<'_>, weight: usize) -> Result<(Conv, Vec<usize>), ModelError> {
    bytes(call, 0)?;
    bytes(call, weight)?;
    Conv::of(call, weight)
}

/// Over pictures, weights and their zeros; where the result has a scale, the scales of both, its own, its zero, and a bias if there is one.
#[derive(Debug)]
struct Integers {
    conv: Conv,
    scaled: bool,
}

impl Compute for Integers {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let out = to.output().shape.dims().get(1).copied().unwrap_or_default();
        let inner = to.value(1).ty.shape.len() / out.max(1);
        let wide = sums_in(to, 1, 3, inner, |index| index / inner.max(1));
        let order = self.conv.order(to);
        let x = to.read(0, order)?;
        // What lies outside of a picture counts as its zero, which is nothing from here on.
        let x = centred(to, x, (2, None), wide)?;
        let weights = to.first(1)?;
        let weights = centred(to, weights, (3, Some(0)), wide)?;
        let nothing = to.constant(Data::collect(wide, std::iter::repeat_n(Scalar::from_i64(wide, 0), out)), &[out]);
        let mut sums = self.conv.convolve(to, [x, weights, nothing], order)?;
        if to.inputs() > 8 {
            let (whole, bias) = (cast(to, sums, DType::S32)?, to.first(8)?);
            sums = pair(to, "elementwise_add", whole, bias)?;
        }
        let made = match self.scaled {
            false => cast(to, sums, DType::S32)?,
            true => {
                let channels = Order::Last.axis(1, to.output().shape.rank());
                rescaled(to, sums, [(4, None), (5, Some(channels)), (6, None)], 7)?
            }
        };
        to.give_last(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, ints, small_integers};
    use crate::proto::element_type::{INT8, INT32, UINT8};

    fn conv(x: &[i64], weight: &[i64], zero: &[i64]) -> Net {
        let of = |dims: &[i64]| small_integers(dims, INT8, &vec![1; dims.iter().product::<i64>() as usize]);
        let net = Net::new(13).input("x", UINT8, x).tensor("w", of(weight)).tensor("z", of(zero));
        net.node("ConvInteger", &["x", "w", "", "z"], "y", vec![ints("pads", &[1; 4])]).output("y")
    }

    #[test]
    fn sizes_are_those_of_convolutions() {
        assert_eq!(conv(&[-1, 3, 8, 6], &[4, 3, 3, 3], &[4]).dims().unwrap(), [2, 4, 8, 6]);
        assert_eq!(conv(&[-1, 3, 8, 6], &[4, 3, 3, 3], &[]).dims().unwrap(), [2, 4, 8, 6]);
        assert_eq!(conv(&[-1, 3, 8, 6], &[4, 3, 3, 3], &[3]).code(), "shape_mismatch");
        assert_eq!(conv(&[-1, 2, 8, 6], &[4, 3, 3, 3], &[]).code(), "shape_mismatch");
        assert_eq!(conv(&[-1, 3, 8, 6, 5, 4], &[4, 3, 3, 3, 3, 3], &[]).code(), "unsupported_operator");
    }

    #[test]
    fn a_bias_is_of_wide_integers() {
        let net = |kind: i32| {
            let byte = |kind| small_integers(&[], kind, &[1]);
            let net = Net::new(13).input("x", UINT8, &[1, 1, 4, 4]).floats("s", &[], vec![0.5]);
            let net = net.tensor("z", byte(UINT8)).tensor("wz", byte(INT8));
            let net = net.tensor("w", small_integers(&[2, 1, 3, 3], INT8, &[1; 18]));
            let bias = small_integers(&[2], kind, &[1; 2]);
            let net = net.tensor("b", bias);
            let inputs = ["x", "s", "z", "w", "s", "wz", "s", "z", "b"];
            net.node("QLinearConv", &inputs, "y", vec![]).output("y").code()
        };
        assert_eq!(net(INT32), "read");
        assert_eq!(net(UINT8), "dtype_mismatch");
    }
}
