//! `ReduceMean`: the mean over axes, an attribute up to version 17 and an input after.

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::{Lowerer, Order, ints};
use crate::op::Compute;

pub(super) const REDUCE_MEAN: Operator = Operator::new("ReduceMean", Kind::Axes, infer).inputs(1, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let dims = call.dims(0)?;
    let given = call.integers_from("axes", 1, 18)?.filter(|axes| !axes.is_empty());
    let keep = call.flag("keepdims", true)?;
    let axes = match given {
        Some(given) => {
            let mut axes = call.axes(&given, dims.len())?;
            axes.sort_unstable();
            axes
        }
        None if call.opset >= 18 && call.flag("noop_with_empty_axes", false)? => {
            return Ok(Outcome::same(call.input(0)?));
        }
        None => (0..dims.len()).collect(),
    };
    let kept = dims.iter().enumerate().filter_map(|(axis, &dim)| match axes.contains(&axis) {
        true => keep.then_some(1),
        false => Some(dim),
    });
    let ty = call.output(dtype, kept.collect())?;
    Ok(Outcome::layer(ReduceMean { axes }, [call.input(0)?], ty))
}

/// The output's shape says whether the axes are kept with size one.
#[derive(Debug)]
struct ReduceMean {
    /// The axes, in order.
    axes: Vec<usize>,
}

impl Compute for ReduceMean {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let kept = to.dims(0).len() == to.output().shape.rank();
        let params = |axes: &[usize]| Params::new().with("axes", ints(axes)).with("keep_dims", kept);
        // Where the axes go, what is left is in the file's order only without height and width.
        let order = if kept || self.axes == [2, 3] { to.order(0) } else { Order::First };
        let mut axes: Vec<usize> = self.axes.iter().map(|&axis| order.axis(axis)).collect();
        axes.sort_unstable();
        let x = to.read(0, order)?;
        to.call_in(if kept { order } else { Order::First }, "reduce_mean", &[x], &params(&axes))
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, ints, list, single};

    #[test]
    fn means_keep_their_axes_unless_told_otherwise() {
        let x = &[-1, 3, 4, 5];
        let dims = |net: crate::builder::Net| net.dims().unwrap();
        assert_eq!(dims(single(13, "ReduceMean", x, vec![], vec![ints("axes", &[-1, 2])])), [2, 3, 1, 1]);
        assert_eq!(dims(single(18, "ReduceMean", x, vec![list(&[2, 3])], vec![int("keepdims", 0)])), [2, 3]);
        assert_eq!(dims(single(18, "ReduceMean", x, vec![], vec![int("keepdims", 0)])), Vec::<usize>::new());
        assert_eq!(dims(single(18, "ReduceMean", x, vec![], vec![int("noop_with_empty_axes", 1)])), [2, 3, 4, 5]);
        assert_eq!(single(18, "ReduceMean", x, vec![list(&[1, 1])], vec![]).code(), "bad_value");
    }

    #[test]
    fn constants_are_computed() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let mean = constants(13, "ReduceMean", vec![matrix], vec![ints("axes", &[0]), int("keepdims", 0)]);
        assert_eq!(mean, (vec![3], Data::F32(vec![2.5, 3.5, 4.5])));
    }
}
