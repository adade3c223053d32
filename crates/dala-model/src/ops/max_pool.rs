//! `MaxPool`: the largest element of each window; padding never wins.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use super::window::{self, Windows};
use crate::ModelError;
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

pub(super) const MAX_POOL: Operator = Operator::new("MaxPool", Kind::Windows, infer).refuses(|node| {
    let columns_first = node.int("storage_order").is_some_and(|order| order != 0);
    window::refused_rank(node, None).or(refused([(columns_first, "storage_order")]))
});

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let (batch, channels, size, windows) = window::pool(call)?;
    let Windows { stride, padding, dilation, count } = windows;
    let ty = call.output(call.dtype(0)?, vec![batch, channels, count[0], count[1]])?;
    Ok(Outcome::layer(MaxPool { size, stride, padding, dilation }, [call.input(0)?], ty))
}

#[derive(Debug, PartialEq)]
struct MaxPool {
    size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    dilation: [usize; 2],
}

impl Compute for MaxPool {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let params = Params::new()
            .with("size", ints(&self.size))
            .with("stride", ints(&self.stride))
            .with("padding", ints(&self.padding))
            .with("dilation", ints(&self.dilation));
        let x = to.last(0)?;
        to.call_last("max_pool2d", &[x], &params)
    }
}

#[cfg(test)]
mod tests {
    use super::MaxPool;
    use crate::builder::{int, ints, single};

    #[test]
    fn rounding_up_becomes_padding() {
        let attributes = vec![int("ceil_mode", 1), ints("strides", &[2, 2]), ints("kernel_shape", &[2, 2])];
        let net = single(13, "MaxPool", &[-1, 1, 7, 6], vec![], attributes);
        assert_eq!(net.dims().unwrap(), [2, 1, 4, 3]);
        let expected = MaxPool { size: [2, 2], stride: [2, 2], padding: [0, 0, 1, 0], dilation: [1, 1] };
        assert_eq!(net.resolve(2).unwrap().layers[0].op.downcast(), Some(&expected));
    }
}
