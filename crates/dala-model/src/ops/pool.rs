//! `MaxPool`, `AveragePool` and `LpPool`: the largest element, the mean or the size of each window. Padding never wins.

use dala_spec::{DType, Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use super::reduce::power;
use super::window::{self, Axis};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const AVERAGE_POOL: Operator = Operator::new("AveragePool", Kind::Windows, |call| {
    call.float()?;
    infer(call, How::Mean { padding: call.flag("count_include_pad", false)? })
})
.refuses(|node| window::refused_rank(node, None));

pub(super) const LP_POOL: Operator = Operator::new("LpPool", Kind::Windows, |call| {
    call.float()?;
    infer(call, How::Norm(power(call)?))
})
.refuses(|node| window::refused_rank(node, None));

pub(super) const MAX_POOL: Operator = Operator::new("MaxPool", Kind::Windows, |call| infer(call, How::Largest))
    .refuses(|node| {
        let columns_first = node.int("storage_order").is_some_and(|order| order != 0);
        window::refused_rank(node, None).or(refused([(columns_first, "storage_order")]))
    });

fn infer(call: &NodeCall<'_>, how: How) -> Result<Outcome, ModelError> {
    let (axes, dims) = window::pool(call)?;
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Pool { how, axes }, [call.input(0)?], ty))
}

#[derive(Debug, PartialEq)]
struct Pool {
    how: How,
    axes: Vec<Axis>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Largest,
    /// Of what lies in the picture, or of the zeros around it as well.
    Mean {
        padding: bool,
    },
    /// The root of the sum of powers, by the exponent.
    Norm(u32),
}

impl Compute for Pool {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, none) = (to.last(0)?, Params::new());
        let own = to.calls.ty(x).clone();
        let made = match self.how {
            // Integers of a byte are as exact in floats.
            How::Largest if !own.dtype.is_float() => {
                let wide = TensorType { dtype: DType::F32, shape: own.shape };
                let x = to.call("cast", &[x], wide, &none)?;
                let made = window::pooled(to, x, &self.axes, "max_pool2d", &none)?;
                let ty = TensorType { dtype: own.dtype, shape: to.calls.ty(made).shape.clone() };
                to.call("cast", &[made], ty, &none)?
            }
            How::Largest => window::pooled(to, x, &self.axes, "max_pool2d", &none)?,
            How::Mean { padding } => window::averaged(to, x, &self.axes, &to.dims(0)[2..], padding)?,
            How::Norm(p) => {
                let p = Params::new().with("p", f64::from(p));
                let powers = to.map("pow(abs(x), p)", &[("x", x)], own, &p)?;
                let sums = window::summed(to, powers, &self.axes)?;
                let ty = to.calls.ty(sums).clone();
                to.map("pow(x, 1 / p)", &[("x", sums)], ty, &p)?
            }
        };
        to.give_last(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{How, Pool};
    use crate::builder::{Net, int, ints, single};
    use crate::proto::{AttributeProto, element_type};

    /// What is added before and after each axis, and how many windows there are.
    fn sides(net: &Net) -> Vec<(usize, usize, usize)> {
        let network = net.resolve(2).unwrap();
        crate::lower::lower(&network).unwrap();
        let pool: &Pool = network.layers[0].op.downcast().unwrap();
        pool.axes.iter().map(|axis| (axis.before, axis.after, axis.count)).collect()
    }

    #[test]
    fn rounding_up_becomes_padding() {
        let attributes = vec![int("ceil_mode", 1), ints("strides", &[2, 2]), ints("kernel_shape", &[2, 2])];
        let net = single(13, "MaxPool", &[-1, 1, 7, 6], vec![], attributes);
        assert_eq!(net.dims().unwrap(), [2, 1, 4, 3]);
        assert_eq!(sides(&net), [(0, 1, 4), (0, 0, 3)]);
    }

    #[test]
    fn a_window_that_would_start_in_the_padding_is_left_out() {
        let attributes = vec![int("ceil_mode", 1), ints("strides", &[3, 3]), ints("pads", &[1, 0, 1, 0])];
        let attributes = [attributes, vec![ints("kernel_shape", &[2, 2])]].concat();
        let net = single(13, "AveragePool", &[-1, 1, 5, 6], vec![], attributes);
        assert_eq!(net.dims().unwrap(), [2, 1, 2, 2]);
        assert_eq!(sides(&net), [(1, 0, 2), (0, 0, 2)]);
    }

    #[test]
    fn windows_have_one_axis_to_three() {
        let pool = |op: &str, x: &[i64], mut attributes: Vec<AttributeProto>| {
            attributes.push(ints("kernel_shape", &vec![3; x.len() - 2]));
            let net = single(19, op, x, vec![], attributes);
            sides(&net);
            net.dims().unwrap()
        };
        assert_eq!(pool("MaxPool", &[-1, 4, 9], vec![]), [2, 4, 7]);
        assert_eq!(pool("AveragePool", &[-1, 4, 9, 8, 7], vec![]), [2, 4, 7, 6, 5]);
        assert_eq!(pool("LpPool", &[-1, 4, 9, 8], vec![ints("strides", &[2, 2])]), [2, 4, 4, 3]);
        let dilated = vec![ints("dilations", &[2]), ints("pads", &[2, 2]), int("count_include_pad", 1)];
        assert_eq!(pool("AveragePool", &[-1, 4, 9], dilated), [2, 4, 9]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let pool = |attributes| single(13, "AveragePool", &[1, 1, 8, 8], vec![], attributes).code();
        assert_eq!(pool(vec![]), "bad_attribute");
        assert_eq!(pool(vec![ints("kernel_shape", &[2, 2]), ints("pads", &[2, 0, 0, 0])]), "bad_attribute");
        assert_eq!(pool(vec![ints("kernel_shape", &[2, 2, 2, 2])]), "unsupported_operator");
        let bytes = Net::new(13).input("x", element_type::UINT8, &[1, 1, 4, 4]);
        let bytes = bytes.node("MaxPool", &["x"], "y", vec![ints("kernel_shape", &[2, 2])]).output("y");
        let network = bytes.resolve(1).unwrap();
        assert_eq!(network.layers[0].op.downcast::<Pool>().map(|pool| pool.how), Some(How::Largest));
        crate::lower::lower(&network).unwrap();
    }
}
