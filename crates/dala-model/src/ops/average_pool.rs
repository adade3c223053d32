//! `AveragePool`: the mean of each window.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use super::window::{self, Windows};
use crate::ModelError;
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

pub(super) const AVERAGE_POOL: Operator = Operator::new("AveragePool", Kind::Windows, infer).refuses(|node| {
    let both = node.int("ceil_mode") == Some(1) && node.int("count_include_pad") == Some(1);
    let dilated = node.ints("dilations").iter().any(|&step| step != 1);
    let parts = refused([(both, "ceil_mode together with count_include_pad"), (dilated, "dilations")]);
    window::refused_rank(node, None).or(parts)
});

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let (batch, channels, size, windows) = window::pool(call)?;
    let Windows { stride, padding, dilation, count } = windows;
    if dilation != [1, 1] {
        return Err(call.unsupported("not supported: dilations"));
    }
    let count_padding = call.flag("count_include_pad", false)?;
    let ty = call.output(dtype, vec![batch, channels, count[0], count[1]])?;
    Ok(Outcome::layer(AveragePool { size, stride, padding, count_padding }, [call.input(0)?], ty))
}

#[derive(Debug, PartialEq)]
struct AveragePool {
    size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    /// Whether the padding counts as elements of a window; if not, the mean is over what lies in the picture.
    count_padding: bool,
}

impl Compute for AveragePool {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let params = Params::new()
            .with("size", ints(&self.size))
            .with("stride", ints(&self.stride))
            .with("padding", ints(&self.padding))
            .with("count_padding", self.count_padding);
        let x = to.last(0)?;
        to.call_last("avg_pool2d", &[x], &params)
    }
}

#[cfg(test)]
mod tests {
    use super::AveragePool;
    use crate::builder::{int, ints, single};

    #[test]
    fn a_window_that_would_start_in_the_padding_is_left_out() {
        let attributes = vec![int("ceil_mode", 1), ints("strides", &[3, 3]), ints("pads", &[1, 0, 1, 0])];
        let attributes = [attributes, vec![ints("kernel_shape", &[2, 2])]].concat();
        let net = single(13, "AveragePool", &[-1, 1, 5, 6], vec![], attributes);
        assert_eq!(net.dims().unwrap(), [2, 1, 2, 2]);
        let (size, stride, padding) = ([2, 2], [3, 3], [1, 0, 0, 0]);
        let expected = AveragePool { size, stride, padding, count_padding: false };
        assert_eq!(net.resolve(2).unwrap().layers[0].op.downcast(), Some(&expected));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let pool = |attributes| single(13, "AveragePool", &[1, 1, 8, 8], vec![], attributes).code();
        assert_eq!(pool(vec![]), "bad_attribute");
        assert_eq!(pool(vec![ints("kernel_shape", &[2, 2]), ints("pads", &[2, 0, 0, 0])]), "bad_attribute");
        let both = vec![ints("kernel_shape", &[2, 2]), int("ceil_mode", 1), int("count_include_pad", 1)];
        assert_eq!(pool(both), "unsupported_operator");
    }
}
